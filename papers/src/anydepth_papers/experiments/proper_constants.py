"""Algorithm 1 with other constants and other first steps (Proper ODEs, section 5)."""

from dataclasses import dataclass
from itertools import pairwise
from math import log2
from typing import TYPE_CHECKING, Any

import numpy as np

from anydepth_papers.experiments import EXPERIMENTS
from anydepth_papers.experiments.proper_adaption import adapted
from anydepth_papers.judge.experiment import Claim, ClaimVerdict, Experiment, Findings
from anydepth_papers.judge.rules import all_of, better, near, no_worse, undecided
from anydepth_papers.judge.study import Study
from anydepth_papers.judge.wording import spread
from anydepth_papers.nets.flows import (
    CPU,
    LANDSCAPE,
    PAPER,
    RESOLUTION,
    SMOKE,
    THRESHOLD,
    Task,
    trained_or_failed,
)
from anydepth_papers.studies.adaption_settings import LOOKED_AT
from anydepth_papers.studies.table_one import Nets

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PUBLISHED, TINY = "as published", "first step 1/256"
CONSTANTS = {
    "threshold 0.05": ("control.threshold=0.05",),
    "threshold 0.15": ("control.threshold=0.15",),
    "shrink 0.7": ("control.shrink=0.7",),
    "grow 1.2": ("control.grow=1.2",),
}
VARIATIONS: dict[str, tuple[str, ...]] = {
    PUBLISHED: (),
    **CONSTANTS,
    TINY: ("control.first=0.00390625",),
}
CLOSE, FACTOR = 5.0, 2
"""Robust: within so many points of accuracy, and this factor of evaluations, of the published constants."""
ROBUST = {
    label: Claim(
        f"Algorithm 1 with {label}: accuracy within {CLOSE:g} points and evaluations within a factor of {FACTOR} of "
        f"those with the published constants, and a more accurate solver changes the accuracy by at most "
        f"{THRESHOLD:g} points",
        "P section 5",
        "robust against small changes to the constants",
    )
    for label in CONSTANTS
}
NOT_TOO_SMALL = Claim(
    f"Hairer's first step is at most a factor of {FACTOR} smaller than the steps of the whole training on average",
    "P section 5",
    "not too small, which makes the algorithm useful in practice",
)
MUST_NOT = Claim(
    "Algorithm 1 needs more evaluations when the first step is too small (1/256)",
    "P section 5",
    "the first step must not be too small",
)


@dataclass(frozen=True)
class Settings:
    """The task, and what is varied."""

    task: Task
    variations: tuple[str, ...] = tuple(VARIATIONS)


SETTINGS = {
    "smoke": Settings(SMOKE[LANDSCAPE], (PUBLISHED, "grow 1.2", TINY)),
    "cpu": Settings(CPU[LANDSCAPE]),
    "paper": Settings(PAPER[LANDSCAPE]),
}
Found = dict[str, Nets]
"""By variation."""


def run(study: Study) -> Findings:
    settings: Settings = study.settings
    seeds = [seed + LOOKED_AT for seed in study.seeds]
    study.plan(len(settings.variations) * len(seeds))
    found = {label: [_piece(study, label, seed) for seed in seeds] for label in settings.variations}
    rows = tuple(_row(label, nets) for label, nets in found.items())
    columns = (
        "constants",
        "evaluations per iteration",
        "first steps",
        "accuracy (%)",
        "spread",
        "largest change (points)",
        "proper",
        "steps at the end",
    )
    robust = [is_robust(label, found) for label in ROBUST if label in found]
    verdicts = (*robust, begins_well(found[PUBLISHED]), costs_more(found))
    notes = (
        f"{settings.task.title}, Euler's method; {', '.join(settings.task.settings) or 'as published'}.",
        "Published: a check every 50 iterations, threshold 0.1, shrink 0.5, grow 1.1, first step by Hairer's rule. The "
        "evaluations of checks are counted.",
        f"Seeds are counted from {LOOKED_AT} on, as in `adaption`, whose nets with the published constants these are.",
    )
    return Findings(columns, rows, verdicts, lambda: _draw(found), notes)


def _piece(study: Study, label: str, seed: int) -> dict[str, Any] | None:
    task = study.settings.task
    name = "adaption-landscape-paper" + ("" if label == PUBLISHED else f"-{label.replace(' ', '-').replace('/', '-')}")
    config = task.config(seed, "euler", 8, "control.name=paper", *VARIATIONS[label])
    return study.piece(f"{name}-{seed}", lambda: adapted(study, trained_or_failed(study, name, config), task))


def _row(label: str, nets: Nets) -> tuple[Any, ...]:
    good = [one for one in nets if one]
    proper = f"{sum(one['proper'] for one in good)} of {len(nets)}"
    if not good:
        return (label, *[None] * 5, proper, None)
    accuracies = [one["accuracy"] for one in good]
    return (
        label,
        float(np.mean([one["nfe"] for one in good])),
        float(np.mean([one["steps"][0][1] for one in good])),
        float(np.mean(accuracies)),
        float(np.std(accuracies, ddof=1)) if len(good) > 1 else None,
        float(np.mean([one["change"] for one in good])),
        proper,
        float(np.mean([one["steps"][-1][1] for one in good])),
    )


def _pairs(found: Found, label: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    return [(here, there) for here, there in zip(found[label], found[PUBLISHED], strict=True) if here and there]


def is_robust(label: str, found: Found) -> ClaimVerdict:
    pairs = _pairs(found, label)
    gaps = [here["accuracy"] - there["accuracy"] for here, there in pairs]
    costs = [log2(here["nfe"] / there["nfe"]) for here, there in pairs]
    changes = [-here["change"] for here, _ in pairs]
    judged = all_of(
        near(gaps, 0.0, CLOSE, unit="points", resolution=RESOLUTION),
        near(costs, 0.0, log2(FACTOR), unit="octaves"),
        no_worse(changes, [0.0] * len(changes), THRESHOLD, paired=True, resolution=RESOLUTION),
    )
    proper = sum(one["proper"] for one in found[label] if one)
    told = f"{proper} of {len(found[label])} proper, {len(found[label]) - len(pairs)} without a net to compare"
    if pairs:
        told = f"{spread(gaps)} points, {spread([2**cost for cost in costs])} times the evaluations; {told}"
    return ClaimVerdict(ROBUST[label], told, judged)


def begins_well(nets: Nets) -> ClaimVerdict:
    """Steps at the start against the mean number of steps over the training, without those of checks."""
    good = [one for one in nets if one]
    if not good:
        return ClaimVerdict(NOT_TOO_SMALL, "", undecided("no training succeeded"))
    first, mean = [one["steps"][0][1] for one in good], [mean_steps(one["steps"]) for one in good]
    told = f"begins with {spread(first, 1)} steps; {spread(mean, 1)} on average"
    here, there = ([-log2(steps) for steps in some] for some in (first, mean))
    return ClaimVerdict(NOT_TOO_SMALL, told, no_worse(here, there, log2(FACTOR), paired=True, unit="octaves"))


def mean_steps(history: list[tuple[int, int]]) -> float:
    """Over all iterations, from the iterations at which a number of steps begins; the last entry is the end."""
    spans = [(b[0] - a[0], a[1]) for a, b in pairwise(history)]
    return sum(span * steps for span, steps in spans) / max(1, sum(span for span, _ in spans))


def costs_more(found: Found) -> ClaimVerdict:
    pairs = _pairs(found, TINY)
    if not pairs:
        return ClaimVerdict(MUST_NOT, "", undecided("no seed has both nets"))
    tiny, usual = ([pair[i]["nfe"] for pair in pairs] for i in (0, 1))
    told = f"{spread(tiny, 1)} against {spread(usual, 1)} evaluations per iteration"
    octaves = [[log2(nfe) for nfe in some] for some in (tiny, usual)]
    return ClaimVerdict(MUST_NOT, told, better(*octaves, paired=True, unit="octaves"))


def _draw(found: Found) -> "Figure":
    import matplotlib.pyplot as plt
    from matplotlib import colormaps

    figure, place = plt.subplots(figsize=(7, 4), constrained_layout=True)
    for rank, (label, nets) in enumerate(found.items()):
        colour = colormaps["viridis"](0.9 * rank / max(1, len(found) - 1))
        for i, one in enumerate(one for one in nets if one):
            steps = tuple(zip(*one["steps"], strict=True))
            shown = label if i == 0 else None
            place.step(*steps, where="post", color=colour, alpha=0.7, linewidth=0.9, label=shown)
    place.set(xlabel="training step", ylabel="Euler steps", yscale="log")
    place.grid(alpha=0.25)
    place.legend(fontsize=8)
    return figure


EXPERIMENTS.add(
    "constants",
    Experiment(
        "Algorithm 1 with other constants and other first steps",
        "Proper ODEs, section 5",
        SETTINGS,
        run,
        seeds=5,
    ),
)
