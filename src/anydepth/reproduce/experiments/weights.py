"""How smooth are trained weights over depth? (ContinuousNet, Fig 8)."""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from anydepth.reproduce import EXPERIMENTS
from anydepth.reproduce.experiment import Claim, Experiment, Findings, Verdict
from anydepth.reproduce.judging import RULE, differences, is_above, spread
from anydepth.reproduce.nets import COLOUR, SETTINGS, TITLE, Exam, accuracy, examined, setting_of
from anydepth.reproduce.study import Study
from anydepth.surgery.blocks import blocks_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NETS = ("rk4", "euler", "resnet")
LINES = 6
Found = dict[str, list[dict[str, Any]]]


def run(study: Study) -> Findings:
    found = examined(study, NETS, look)
    columns = ("net", "roughness", "lowest", "highest", "accuracy (%)")
    rows = tuple(
        (
            TITLE[net],
            float(np.mean([one["roughness"] for one in seeds])),
            min(one["roughness"] for one in seeds),
            max(one["roughness"] for one in seeds),
            float(np.mean([one["accuracy"] for one in seeds])),
        )
        for net, seeds in found.items()
    )
    size = len(found["rk4"][0]["lines"][0])
    notes = (
        f"{setting_of(study)} Roughness: the sum of |differences| between neighbouring cells over the mean of "
        f"|weights|, over all convolutions of all blocks; {size} independent normal weights have "
        f"{(size - 1) * 2**0.5:.1f}. {RULE}"
    )
    return Findings(columns, rows, _verdicts(found), lambda: _draw(found), notes)


def look(model: nn.Module, exam: Exam) -> dict[str, Any]:
    """Roughness of a net, and some weights of its first block over depth."""
    kernels = kernels_of(model)
    flat = kernels[0].flatten(1)
    places = torch.linspace(0, flat.shape[1] - 1, LINES).round().long()
    return {
        "roughness": roughness(kernels),
        "lines": flat[:, places].T.tolist(),
        "accuracy": accuracy(exam(model)),
    }


def kernels_of(model: nn.Module) -> list[Tensor]:
    """The convolutions' weights of all blocks, each (K, out, in, height, width)."""
    stored = (block.stored(name).detach() for block in blocks_of(model).values() for name in block.lifted)
    return [tensor for tensor in stored if tensor.dim() == 5]


def roughness(tensors: list[Tensor]) -> float:
    """sum_k |w_k+1 - w_k| over the mean over k of |w_k|, each summed over all weights."""
    way = sum(float(tensor.diff(dim=0).abs().sum()) for tensor in tensors)
    return way / sum(float(tensor.abs().sum()) / len(tensor) for tensor in tensors)


def _verdicts(found: Found) -> tuple[Verdict, ...]:
    rough = {net: [one["roughness"] for one in seeds] for net, seeds in found.items()}
    return (
        Verdict(
            Claim(
                "RK4 with refinement gives smoother weights than Euler at fixed depth, a ResNet",
                "C Fig 8, section 5.2",
                "a picture",
            ),
            f"roughness {spread(rough['rk4'])}, the ResNet {spread(rough['resnet'])}",
            is_above(differences(rough["resnet"], rough["rk4"])),
        ),
        Verdict(
            Claim("RK4's weights are smoother than Euler's where both are refined", "ours; C changes both at once"),
            f"roughness {spread(rough['rk4'])} with RK4, {spread(rough['euler'])} with Euler",
            is_above(differences(rough["euler"], rough["rk4"])),
        ),
        Verdict(
            Claim("Refinement alone, with Euler, does that too", "ours"),
            f"roughness {spread(rough['euler'])}, the ResNet {spread(rough['resnet'])}",
            is_above(differences(rough["resnet"], rough["euler"])),
        ),
    )


def _draw(found: Found) -> "Figure":
    import matplotlib.pyplot as plt

    figure, places = plt.subplots(1, len(found), figsize=(11, 3.4), constrained_layout=True)
    for place, (net, seeds) in zip(places, found.items(), strict=True):
        lines = np.array(seeds[0]["lines"])
        edges = np.linspace(0, 1, lines.shape[1] + 1)
        for line in lines:
            place.stairs(line / np.abs(lines).mean(), edges, baseline=None, color=COLOUR[net], linewidth=1.4, alpha=0.8)
        rough = [one["roughness"] for one in seeds]
        place.set(title=f"{TITLE[net]}: roughness {np.mean(rough):.2f}", xlabel="depth t")
        place.grid(alpha=0.25)
    places[0].set_ylabel("weight / mean |weight|")
    figure.suptitle(f"{LINES} weights of the first convolution of the first block, over depth")
    return figure


EXPERIMENTS.add("weights", Experiment("Trained weights over depth", "ContinuousNet, Fig 8", SETTINGS, run))
