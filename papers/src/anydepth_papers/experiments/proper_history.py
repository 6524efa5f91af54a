"""What Algorithm 1 does while a net trains: test accuracy, steps, and other solvers (Proper ODEs, Figs 5 and 6)."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor, nn

from anydepth.data.facts import Facts
from anydepth.data.table import Table
from anydepth.errors import NumericalError
from anydepth.runs.folder import discard_run, new_run
from anydepth.runs.progress import Watch
from anydepth.train.prepare import needs_of, prepare, warm_up
from anydepth.train.trainer import Trainer
from anydepth_papers.experiments import EXPERIMENTS
from anydepth_papers.judge.experiment import Claim, ClaimVerdict, Experiment, Findings
from anydepth_papers.judge.rules import better, undecided
from anydepth_papers.judge.study import Study
from anydepth_papers.judge.wording import spread
from anydepth_papers.nets.ensemble import data_of
from anydepth_papers.nets.flows import (
    CPU,
    LANDSCAPE,
    PAPER,
    RESOLUTION,
    SMOKE,
    SPHERES,
    THRESHOLD,
    Task,
    block_of,
    predictions,
)
from anydepth_papers.studies.adaption_settings import LOOKED_AT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

OTHERS = {"midpoint": 1, "rk4": 1, "rk4, half the step": 2}
"""Solvers of smaller error that the net is looked at with, and pieces of every step."""
CLAIMS = {
    "ties": Claim(
        f"where Algorithm 1 halves the step, solvers of smaller error change the test accuracy by more than "
        f"{THRESHOLD:g} points",
        "P section 5.1, Fig 6",
        "training with too large a step adapts the field to it",
    ),
    "corrected": Claim(
        "50 iterations after a halving, they change it less than at the halving",
        "P section 5.1, Fig 6",
        "continuing with a smaller step corrects this",
    ),
}
"""Means over all halvings of a training, seed by seed; the step is that of the training at that moment."""


@dataclass(frozen=True)
class Settings:
    """Tasks, and the iterations between checks."""

    tasks: dict[str, Task]
    every: int = 50


SETTINGS = {
    "smoke": Settings({LANDSCAPE: SMOKE[LANDSCAPE]}, 2),
    "cpu": Settings({name: CPU[name] for name in (SPHERES, LANDSCAPE)}),
    "paper": Settings({name: PAPER[name] for name in (SPHERES, LANDSCAPE, "mnist", "cifar10")}),
}
Look = dict[str, Any]
"""At one check: training step, steps in depth, what the check did, test accuracy as it is and with other solvers."""


class Looking(Watch):
    """Looks at the net before a check can change its solver: as it was trained for the last 50 iterations."""

    def __init__(self, test: Table, facts: Facts, every: int):
        self.test, self.facts, self.every = test, facts, every
        _, self.targets = test.batch(np.arange(len(test)), facts)
        self.looks: list[Look] = []
        self.trainer: Trainer | None = None

    def step(self, status: Any) -> None:
        if self.trainer is not None and status.step % self.every == 0:
            self.looks.append({"step": status.step, "event": None, **self.seen(self.trainer.model)})

    def event(self, line: dict[str, Any]) -> None:
        if line["kind"] == "control" and self.looks and self.looks[-1]["step"] == line["step"]:
            self.looks[-1]["event"] = line["event"]

    def seen(self, model: nn.Module) -> dict[str, Any]:
        """Accuracies with the solver of the training and with others, which the model is not left with."""
        block = block_of(model)
        own, grid = block.scheme.name, block.grid
        assert grid is not None
        found = {"steps": grid.steps, "accuracy": self._accuracy(model)}
        for name, pieces in OTHERS.items():
            block.set_solver(scheme=name.partition(",")[0], steps=_cut(grid.times, pieces))
            found[name] = self._accuracy(model)
        block.set_solver(scheme=own, steps=grid)
        return found

    def _accuracy(self, model: nn.Module) -> float:
        found: Tensor = predictions(model, self.test, self.facts)
        return round(100 * float((found == self.targets).double().mean()), 3)


def _cut(times: Sequence[Fraction], pieces: int) -> list[Fraction]:
    """The same grid with every step in so many pieces."""
    inner = [a + (b - a) * Fraction(k, pieces) for a, b in pairwise(times) for k in range(pieces)]
    return [*inner, times[-1]]


def run(study: Study) -> Findings:
    tasks: dict[str, Task] = study.settings.tasks
    seeds = [seed + LOOKED_AT for seed in study.seeds]
    study.plan(len(tasks) * len(seeds))
    found = {
        name: [study.piece(f"{name}-{seed}", lambda n=name, t=task, s=seed: watched(study, n, t, s)) for seed in seeds]
        for name, task in tasks.items()
    }
    rows = tuple(
        _row(tasks[name].title, seed, looks) for name in tasks for seed, looks in zip(seeds, found[name], strict=True)
    )
    columns = (
        "data",
        "seed",
        "halvings",
        "test accuracy at the end (%)",
        "lowest in the last half (%)",
        "change at a halving (points)",
        "change 50 iterations later (points)",
    )
    verdicts = [v for name, task in tasks.items() for v in verdicts_on(task.title, found[name])]
    notes = (
        "Algorithm 1 as published, Euler's method; before every check the net is run on the test part with the steps "
        "of the training, and with midpoint and RK4 on the same steps and RK4 on halved ones. No choice is made by it.",
        *(f"{task.title}: {', '.join(task.settings) or 'as published'}." for task in tasks.values()),
        "A change is the largest by any of these solvers. MNIST and CIFAR-10, which Fig 5 shows, are not run at cpu "
        "scale: cost.",
    )
    return Findings(columns, rows, tuple(verdicts), lambda: _draw(tasks, found), notes)


def watched(study: Study, name: str, task: Task, seed: int) -> list[Look] | None:
    """One training by Algorithm 1, looked at before every check; None: it left the finite numbers."""
    config = task.config(seed, "euler", 8, "control.name=paper", f"control.every={study.settings.every}")
    data = data_of(config, study.data)
    warm_up()
    prepared = prepare(config, data)
    folder = study.folder / "watched" / f"{name}-{seed}"
    discard_run(folder)
    looking = Looking(data.part("test"), prepared.facts, study.settings.every)
    needs = needs_of(config, prepared.model)
    looking.trainer = Trainer(prepared, new_run(folder, config, prepared.facts, needs=needs), looking)
    try:
        looking.trainer.fit()
    except NumericalError:
        return None
    return looking.looks


def gap(look: Look) -> float:
    """The largest change of the test accuracy by a solver of smaller error."""
    return max(abs(look[name] - look["accuracy"]) for name in OTHERS)


def at_halvings(looks: list[Look] | None) -> tuple[list[float], list[float]]:
    """Changes where the step is halved, and at the check after it."""
    pairs = [(gap(a), gap(b)) for a, b in pairwise(looks or ()) if a["event"] == "shrink"]
    return [a for a, _ in pairs], [b for _, b in pairs]


def verdicts_on(title: str, nets: list[list[Look] | None]) -> list[ClaimVerdict]:
    known = {kind: Claim(f"{title}: {one.sentence}", one.source, one.paper) for kind, one in CLAIMS.items()}
    halved = [at_halvings(looks) for looks in nets]
    means = [tuple(float(np.mean(gaps)) for gaps in both) for both in halved if both[0]]
    if not means:
        return [ClaimVerdict(claim, "", undecided("no training halved its step")) for claim in known.values()]
    before, after = ([pair[i] for pair in means] for i in (0, 1))
    count = sum(len(both[0]) for both in halved)
    limits = [THRESHOLD] * len(means)
    told = f"{count} halvings of {len(means)} seeds: {spread(before, 1)} points"
    return [
        ClaimVerdict(known["ties"], told, better(before, limits, paired=True, resolution=RESOLUTION)),
        ClaimVerdict(
            known["corrected"],
            f"{told}, {spread(after, 1)} at the next check",
            better(before, after, paired=True, resolution=RESOLUTION),
        ),
    ]


def _row(title: str, seed: int, looks: list[Look] | None) -> tuple[Any, ...]:
    if not looks:
        return (title, seed, None, None, None, None, None)
    before, after = at_halvings(looks)
    lowest = min(look["accuracy"] for look in looks[len(looks) // 2 :])
    means = [float(np.mean(gaps)) if gaps else None for gaps in (before, after)]
    return (title, seed, len(before), looks[-1]["accuracy"], lowest, *means)


MARKERS = {"midpoint": ("x", "#c2571a"), "rk4": ("^", "#2a7f4f"), "rk4, half the step": ("^", "#a01a4d")}


def _draw(tasks: dict[str, Task], found: dict[str, list[list[Look] | None]]) -> "Figure":
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        3, len(tasks), figsize=(5.5 * len(tasks), 8), constrained_layout=True, squeeze=False, sharex="col"
    )
    for places, (name, task) in zip(axes.T, tasks.items(), strict=True):
        nets = [looks for looks in found[name] if looks]
        for looks in nets:
            at = [look["step"] for look in looks]
            places[0].plot(at, [look["accuracy"] for look in looks], linewidth=0.9, alpha=0.8)
            places[1].step(at, [look["steps"] for look in looks], where="pre", linewidth=0.9, alpha=0.8)
        if nets:
            _others(places[2], nets[0])
        places[0].set(title=task.title, ylabel="test accuracy (%)", ylim=(0, 101))
        places[1].set(ylabel="Euler steps", yscale="log")
        places[2].set(xlabel="training step", ylabel="test accuracy, one seed (%)", ylim=(0, 101))
    if axes[2][0].lines:
        axes[2][0].legend(fontsize=8)
    return figure


def _others(place: "Axes", looks: list[Look]) -> None:
    """One seed, with other solvers at every fourth check and wherever the step is halved."""
    place.plot([look["step"] for look in looks], [look["accuracy"] for look in looks], color="#0b6e99", linewidth=0.9)
    some = [look for i, look in enumerate(looks) if i % 4 == 0 or look["event"] == "shrink"]
    for name, (marker, colour) in MARKERS.items():
        at, values = [look["step"] for look in some], [look[name] for look in some]
        place.plot(at, values, marker, color=colour, markersize=4, label=name)


EXPERIMENTS.add(
    "history",
    Experiment(
        "What Algorithm 1 does while a net trains",
        "Proper ODEs, section 5.1, Figs 5 and 6",
        SETTINGS,
        run,
        seeds=5,
    ),
)
