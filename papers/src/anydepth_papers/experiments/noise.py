"""Are continuous nets more stable under noise in their inputs? (ContinuousNet, section 5.1)."""

from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
import torch
from torch import Tensor, nn

from anydepth_papers.experiments import EXPERIMENTS
from anydepth_papers.judge.experiment import Claim, ClaimVerdict, Experiment, Findings
from anydepth_papers.judge.rules import better
from anydepth_papers.judge.study import Study
from anydepth_papers.judge.wording import spread
from anydepth_papers.nets.image_nets import (
    COLOUR,
    SETTINGS,
    TITLE,
    Exam,
    common_seeds,
    examined,
    setting_of,
    waiting,
    waits_for,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NETS = ("rk4", "euler", "resnet")
STRENGTHS = (0.0, 0.1, 0.2, 0.4, 0.8)
CLAIMS = {
    ("euler", False): Claim(
        f"{TITLE['rk4']} loses fewer points under noise than {TITLE['euler']}, over seeds", "C section 5.1", "no figure"
    ),
    ("resnet", False): Claim(
        f"{TITLE['rk4']} loses fewer points under noise than {TITLE['resnet']}, over seeds", "C section 5.1"
    ),
    ("euler", True): Claim(
        f"Control: {TITLE['rk4']} loses fewer points under noise than {TITLE['euler']} also where the batch statistics "
        "of both are estimated anew on images with that noise",
        "ours",
    ),
}
"""By the other net, and whether both are recalibrated. Judged by points lost on average over the strengths above 0."""
COLUMNS = ("net", "batch statistics", *(f"noise {strength:g}" for strength in STRENGTHS), "points lost", "seeds")
Found = dict[str, dict[int, Any]]


class Noisy(nn.Module):
    """A model that sees normal noise on its input; the noise follows from the images, so it is the same for all."""

    def __init__(self, model: nn.Module, strength: float):
        super().__init__()
        self.model, self.strength = model, strength

    def forward(self, x: Tensor) -> Tensor:
        seed = crc32(x.detach().contiguous().numpy().tobytes())
        noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(seed)).to(x)
        return self.model(x + self.strength * noise)


def run(study: Study) -> Findings:
    found = examined(study, NETS, look)
    missing = [name for name in NETS if not found[name]]
    if missing:
        return waiting(tuple(CLAIMS.values()), COLUMNS, missing)
    rows = tuple(_row(net, seeds, again) for net, seeds in found.items() for again in (False, True))
    verdicts = tuple(_verdict(found, net, again, claim) for (net, again), claim in CLAIMS.items())
    notes = (
        setting_of(),
        "Noise in units of the spread of the pixels; normal, the same for all nets. The paper names no kind of "
        "perturbation and prints no figure.",
        "Evaluations are those of the nets as trained: 96 per example with RK4, 24 with Euler and in the ResNet.",
    )
    return Findings(COLUMNS, rows, verdicts, lambda: _draw(found), notes)


def look(model: nn.Module, exam: Exam) -> dict[str, Any]:
    """What is seen at every strength of the noise."""
    return {f"{strength:g}": exam(Noisy(model, strength).eval()) for strength in STRENGTHS}


def _accuracy(one: dict[str, Any], strength: float, again: bool) -> float:
    seen = one[f"{strength:g}"]
    return seen["recalibrated"]["accuracy"] if again else seen["accuracy"]


def lost(one: dict[str, Any], again: bool) -> float:
    """Points lost, averaged over the strengths."""
    clean = _accuracy(one, 0.0, again)
    return float(np.mean([clean - _accuracy(one, strength, again) for strength in STRENGTHS[1:]]))


def _row(net: str, seeds: dict[int, Any], again: bool) -> tuple[Any, ...]:
    means = (float(np.mean([_accuracy(one, s, again) for one in seeds.values()])) for s in STRENGTHS)
    points = float(np.mean([lost(one, again) for one in seeds.values()]))
    return TITLE[net], "estimated anew" if again else "as trained", *means, points, len(seeds)


def _verdict(found: Found, net: str, again: bool, claim: Claim) -> ClaimVerdict:
    seeds = common_seeds(found, "rk4", net)
    if not seeds:
        return ClaimVerdict(claim, "", waits_for(found, "rk4", net))
    mine, its = ([lost(found[name][seed], again) for seed in seeds] for name in ("rk4", net))
    told = f"{spread(mine)} against {spread(its)} points lost, the mean over noise above 0"
    return ClaimVerdict(claim, told, better(its, mine, paired=True))


def _draw(found: Found) -> "Figure":
    import matplotlib.pyplot as plt

    figure, place = plt.subplots(figsize=(6.5, 4), constrained_layout=True)
    for net, seeds in found.items():
        values = np.array([[_accuracy(one, s, False) for one in seeds.values()] for s in STRENGTHS])
        again = [np.mean([_accuracy(one, s, True) for one in seeds.values()]) for s in STRENGTHS]
        place.plot(STRENGTHS, values.mean(axis=1), "o-", color=COLOUR[net], label=TITLE[net])
        place.fill_between(STRENGTHS, values.min(axis=1), values.max(axis=1), color=COLOUR[net], alpha=0.15)
        place.plot(STRENGTHS, again, "x:", color=COLOUR[net], label="recalibrated on such images")
    place.set(xlabel="noise (in spreads of the pixels)", ylabel="test accuracy (%)", title="Noise on the inputs")
    place.grid(alpha=0.25)
    place.legend(fontsize=8)
    return figure


EXPERIMENTS.add("noise", Experiment("Noise on the inputs", "ContinuousNet, section 5.1", SETTINGS, run))
