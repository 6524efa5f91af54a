"""How smooth are trained weights over depth? (ContinuousNet, Fig 8)."""

from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

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
    trained_steps,
    waiting,
    waits_for,
)
from anydepth_papers.studies.form_tables import as_trained, depth_of
from anydepth_papers.studies.roughness import LINES, kernels_of, over_depth

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NETS, CONTROL = ("rk4", "euler", "tied", "resnet"), "resnet-1"
CLAIMS = {
    ("rk4", "euler"): Claim(
        "RK4 with refinement gives smoother weights than Euler at fixed depth, over seeds",
        "C Fig 8, section 5.2",
        "a picture",
    ),
    ("rk4", "resnet"): Claim("RK4 with refinement gives smoother weights than a ResNet has, over seeds", "ours"),
    ("rk4", "tied"): Claim(
        "Control: smoother also than Euler at fixed depth whose weights were all alike at the start, over seeds", "ours"
    ),
    ("tied", "euler"): Claim("Control: the tied start alone gives Euler smoother weights, over seeds", "ours"),
}
"""The smoother net and the other; judged by roughness, seed by seed."""
COLUMNS = ("net", "roughness", "lowest", "highest", "accuracy (%)", "recalibrated (%)", "evaluations", "seeds")
Found = dict[str, dict[int, Any]]


def run(study: Study) -> Findings:
    found = examined(study, NETS, look)
    missing = [name for name in NETS[:2] if not found[name]]
    if missing:
        return waiting(tuple(CLAIMS.values()), COLUMNS, missing)
    shallow = examined(study, (CONTROL,), as_trained)
    size = next(iter(found["rk4"].values()))["size"]
    notes = (
        setting_of(),
        "Roughness: the sum of |differences| between neighbouring cells over the mean of |weights|, over all "
        f"convolutions of all blocks; {size} independent normal weights have {(size - 1) * 2**0.5:.1f}.",
        "Fig 8 also shows the weights at every refinement: see the study `refinement`.",
        f"Control: a net that is not more than 5 points above a {TITLE[CONTROL]} decides nothing.",
    )
    rows = tuple(_row(net, list(seeds.values())) for net, seeds in found.items() if seeds)
    verdicts = tuple(_verdict(found | shallow, smooth, rough, claim) for (smooth, rough), claim in CLAIMS.items())
    return Findings(COLUMNS, rows, verdicts, lambda: _draw(found), notes)


def look(model: nn.Module, exam: Exam) -> dict[str, Any]:
    """Roughness of a net, some of its weights over depth, and what it can do."""
    return over_depth(kernels_of(model)) | {"size": trained_steps(model)} | as_trained(model, exam)


def _row(net: str, seeds: list[dict[str, Any]]) -> tuple[Any, ...]:
    rough, seen = [one["roughness"] for one in seeds], [one["forms"]["as trained"] for one in seeds]
    accuracy = float(np.mean([one["accuracy"] for one in seen]))
    again = float(np.mean([one["recalibrated"]["accuracy"] for one in seen]))
    mean = float(np.mean(rough))
    return TITLE[net], mean, min(rough), max(rough), accuracy, again, seen[0]["evaluations"], len(seeds)


def _verdict(found: Found, smooth: str, rough: str, claim: Claim) -> ClaimVerdict:
    seeds = common_seeds(found, smooth, rough)
    if not seeds:
        return ClaimVerdict(claim, "", waits_for(found, smooth, rough))
    mine, its = ([found[name][seed]["roughness"] for seed in seeds] for name in (smooth, rough))
    idle = depth_of(found, smooth, CONTROL) or depth_of(found, rough, CONTROL)
    judgement = idle or better(its, mine, paired=True, unit="of roughness")
    return ClaimVerdict(claim, f"roughness {spread(mine)} against {spread(its)}", judgement)


def _draw(found: Found) -> "Figure":
    import matplotlib.pyplot as plt

    there = {net: list(seeds.values()) for net, seeds in found.items() if seeds}
    figure, places = plt.subplots(1, len(there), figsize=(12, 3.2), constrained_layout=True)
    for place, (net, seeds) in zip(places, there.items(), strict=True):
        lines = np.array(seeds[0]["lines"])
        edges = np.linspace(0, 1, lines.shape[1] + 1)
        for line in lines:
            place.stairs(line / np.abs(lines).mean(), edges, baseline=None, color=COLOUR[net], linewidth=1.4, alpha=0.8)
        rough = [one["roughness"] for one in seeds]
        place.set_title(f"{TITLE[net]}: {np.mean(rough):.2f}", fontsize=9)
        place.set(xlabel="depth t")
        place.grid(alpha=0.25)
    places[0].set_ylabel("weight / mean |weight|")
    figure.suptitle(f"{LINES} weights of the first convolution of the first block over depth, and the roughness of all")
    return figure


EXPERIMENTS.add("weights", Experiment("Trained weights over depth", "ContinuousNet, Fig 8", SETTINGS, run))
