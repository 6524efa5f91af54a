"""Trajectories of nets trained with few and with many steps: do they cross (Proper ODEs, section 4, Fig 1)?"""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from anydepth.measure.crossings import crossing_rate
from anydepth.runs.folder import Run
from anydepth_papers.experiments import EXPERIMENTS
from anydepth_papers.judge.experiment import Claim, ClaimVerdict, Experiment, Findings
from anydepth_papers.judge.rules import better, computed, proportion, undecided
from anydepth_papers.judge.study import Study
from anydepth_papers.judge.wording import spread
from anydepth_papers.nets.ensemble import data_of
from anydepth_papers.nets.flows import (
    LANDSCAPE,
    NEARLY_ALL,
    PAPER,
    SMOKE,
    Task,
    block_of,
    examine,
    of_every_seed,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COARSE, FINE = 8, 256
"""Steps of Fig 1 (b) and (a)."""
_BOTH = Task(PAPER[LANDSCAPE].title, PAPER[LANDSCAPE].recipe, (), (COARSE, FINE))
SETTINGS = {"smoke": SMOKE[LANDSCAPE], "cpu": _BOTH, "paper": _BOTH}
POINTS = {"smoke": 12, "cpu": 200, "paper": 200}
RATIO = 100
MORE_OFTEN = Claim(
    f"Trajectories cross at least {RATIO} times as often with h = 1/{COARSE} as with h = 1/{FINE}",
    "P section 4, Fig 1",
    "crossings at h = 1/8, none at h = 1/256",
)
"""Judged seed by seed: the mean of rate(1/8) - 100 rate(1/256) is above 0. None counts as half a pair."""
THESE = Claim(
    f"These nets: trajectories cross at least {RATIO} times as often with h = 1/{COARSE} as with h = 1/{FINE}",
    "P section 4, Fig 1",
    "crossings at h = 1/8, none at h = 1/256",
)
"""The rule of every publication so far: the ratio of the mean rates of the nets that were trained."""
NONE = Claim(
    f"At least {100 * NEARLY_ALL:g} % of all nets trained with h = 1/{FINE} have no trajectories that cross",
    "P section 4, Fig 1",
    "none at h = 1/256",
)

Found = dict[str, list[dict[str, Any] | None]]
"""What was found about the nets of all seeds, by kind; None: the training failed."""


def run(study: Study) -> Findings:
    task: Task = study.settings
    steps = {"coarse": min(COARSE, max(task.euler)), "fine": max(task.euler)}
    study.plan(2 * len(study.seeds))
    found = {
        kind: of_every_seed(study, LANDSCAPE, task, "euler", k, lambda run: _crossings(study, run))
        for kind, k in steps.items()
    }
    rows = tuple(
        (kind, steps[kind], seed, one["accuracy"], 100 * one["rate"])
        for kind, seeds in found.items()
        for seed, one in zip(study.seeds, seeds, strict=True)
        if one
    )
    pairs = POINTS[study.scale] * (POINTS[study.scale] - 1) // 2
    notes = (
        f"Three minima, Euler; changes of the published settings: {', '.join(task.settings) or 'none'}.",
        f"Trajectories of {POINTS[study.scale]} test points ({pairs:,} pairs) are straight pieces between the steps of "
        "the training. The rate is the share of pairs that cross, decided exactly.",
        f"Rule for these nets: the ratio of the mean rates is at least {RATIO}.",
        f"Rule for all nets: the mean over seeds of the rate with {steps['coarse']} steps less {RATIO} times the rate "
        f"with {steps['fine']}, which is above 0 where the ratio of the mean rates is above {RATIO}. None counts "
        "as half a pair.",
    )
    columns = ("net", "steps", "seed", "accuracy (%)", "pairs that cross (%)")
    verdicts = (these(found, pairs), more_often(found, pairs), none_at_all(found))
    return Findings(columns, rows, verdicts, lambda: _draw(found, steps), notes)


def _crossings(study: Study, run: Run | None) -> dict[str, Any] | None:
    if run is None:
        return None
    test = data_of(run.config, study.data).part("test")
    (points,), targets = test.batch(np.arange(min(len(test), POINTS[study.scale])), run.facts)
    paths = trajectories(run, points)
    examined = examine(study, run)
    assert examined is not None
    return {
        "rate": crossing_rate(paths),
        "accuracy": examined["accuracy"],
        "tests": [(test["steps"], test["accuracy"]) for test in examined["tests"] if test["scheme"] == "euler"],
        "paths": np.round(paths[:: max(1, len(paths) // 32), :SHOWN].double().numpy(), 4).tolist(),
        "targets": targets[:SHOWN].tolist(),
    }


SHOWN = 40
"""Trajectories in the figure."""


def trajectories(run: Run, points: Tensor) -> Tensor:
    """The states (time, points, 2) after every step of the solver that a net was trained with."""
    with torch.no_grad():
        found = block_of(run.model()).trajectory(points)
    assert isinstance(found, Tensor)
    return found


def _rates(found: Found, pairs: int) -> tuple[list[float], list[float], list[float]]:
    """Per cent of pairs that cross with few steps and with many, of every seed that has both nets; and the latter with
    half a pair for none."""
    both = [(a["rate"], b["rate"]) for a, b in zip(found["coarse"], found["fine"], strict=True) if a and b]
    coarse, fine = [100 * a for a, _ in both], [100 * b for _, b in both]
    return coarse, fine, [max(rate, 50 / pairs) for rate in fine]


def these(found: Found, pairs: int) -> ClaimVerdict:
    """The nets that were trained, not those that others would get."""
    coarse, fine, _ = _rates(found, pairs)
    if not coarse:
        return ClaimVerdict(THESE, "no seed has both nets", undecided("no training succeeded"))
    ratio = float(np.mean(coarse)) / max(float(np.mean(fine)), 50 / (pairs * len(fine)))
    told = f"ratio of the mean rates {ratio:.0f}, {len(fine)} seeds"
    return ClaimVerdict(THESE, told, computed(ratio >= RATIO, told))


def more_often(found: Found, pairs: int) -> ClaimVerdict:
    """Seed by seed, since the nets of one seed share initial weights and the order of examples."""
    coarse, fine, counted = _rates(found, pairs)
    if not coarse:
        return ClaimVerdict(MORE_OFTEN, "no seed has both nets", undecided("no training succeeded"))
    judged = better(coarse, [RATIO * rate for rate in counted], paired=True, unit="% of pairs", resolution=100 / pairs)
    ratio = f"{'' if any(fine) else 'at least '}{np.mean(coarse) / np.mean(counted):.0f}"
    told = f"pairs that cross: {spread(coarse)} % with few steps, {spread(fine, 3)} % with many; ratio of means {ratio}"
    return ClaimVerdict(MORE_OFTEN, told, judged)


def none_at_all(found: Found) -> ClaimVerdict:
    rates = [one["rate"] for one in found["fine"] if one]
    judged = proportion(rates.count(0.0), len(rates), NEARLY_ALL)
    return ClaimVerdict(NONE, f"{rates.count(0.0)} of {len(rates)} nets have none", judged)


def _draw(found: Found, steps: dict[str, int]) -> "Figure":
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(10, 7.5), constrained_layout=True)
    for places, kind in zip(axes.T, ("fine", "coarse"), strict=True):
        first = next((one for one in found[kind] if one), None)
        places[0].set(title=f"Trained with {steps[kind]} Euler steps", xlabel="first coordinate", aspect="equal")
        places[1].set(xlabel="steps in the test", ylabel="test accuracy (%)", ylim=(0, 100))
        places[1].set_xscale("log", base=2)
        places[1].grid(alpha=0.25)
        if first is not None:
            _paths(places[0], np.array(first["paths"]), np.array(first["targets"]))
        for one in found[kind]:
            if one:
                tested, accuracies = zip(*sorted(one["tests"]), strict=True)
                places[1].plot(tested, accuracies, "o-", color="#8db6cd", alpha=0.7, markersize=4)
                places[1].plot(steps[kind], one["accuracy"], "o", color="#0b3c5d", markersize=7)
    axes[0][0].set_ylabel("second coordinate")
    return figure


COLOURS = ("#0b6e99", "#c2571a", "#2a7f4f")


def _paths(place: "Axes", paths: np.ndarray, targets: np.ndarray) -> None:
    for path, target in zip(np.moveaxis(paths, 1, 0), targets, strict=True):
        place.plot(*path.T, color=COLOURS[target % len(COLOURS)], linewidth=0.8, alpha=0.8)
        place.plot(*path[0], ".", color=COLOURS[target % len(COLOURS)], markersize=4)
    place.grid(alpha=0.15)


EXPERIMENTS.add(
    "crossings",
    Experiment("Do the trajectories of a net cross?", "Proper ODEs, section 4, Fig 1", SETTINGS, run, seeds=5),
)
