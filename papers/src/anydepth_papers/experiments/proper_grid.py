"""Steps in training against steps and solvers in tests: where does a net become an ODE (Proper ODEs, section 4.1)?"""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from anydepth_papers.experiments import EXPERIMENTS
from anydepth_papers.judge.experiment import Claim, ClaimVerdict, Experiment, Findings
from anydepth_papers.judge.rules import not_run
from anydepth_papers.judge.study import Study
from anydepth_papers.nets.flows import (
    CPU,
    LANDSCAPE,
    PAPER,
    SMOKE,
    SPHERES,
    TESTED_WITH,
    Task,
    commonest,
    examine,
    of_every_seed,
)
from anydepth_papers.studies.grid_rules import (
    COLUMNS,
    NOTES,
    PUBLISHED,
    Cells,
    claim,
    criticals,
    has_no_trend,
    is_continuous,
    is_larger,
    is_same_around,
    is_tied,
    is_where,
    succeeded,
    told_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SCHEMES = tuple(TESTED_WITH)
_POWERS = tuple(2**k for k in range(9))
_SMALL = {name: SMOKE[name] for name in (SPHERES, LANDSCAPE)}
SETTINGS = {
    "smoke": _SMALL,
    "cpu": {
        SPHERES: replace(PAPER[SPHERES], euler=_POWERS[:8], rk4=_POWERS[:5]),
        LANDSCAPE: replace(PAPER[LANDSCAPE], euler=_POWERS, rk4=_POWERS[:4]),
    },
    "paper": {name: PAPER[name] for name in PUBLISHED},
}
"""At cpu scale, the published trainings without the finest grids, and without images."""


def _in_more_dimensions(d: int) -> Task:
    """At cpu scale with 3000 iterations at five times the published rate; few numbers of steps where seeds cannot be
    trained together."""
    known, small = PAPER[f"spheres-{d}"], CPU[SPHERES]
    euler, rk4 = (small.euler, small.rk4) if known.together else ((1, 8, 32, 128), (1, 2, 8))
    return replace(known, settings=(*known.settings, *small.settings), euler=euler, rk4=rk4)


DIMENSIONS = {
    "smoke": {
        "spheres-3": replace(
            SMOKE[SPHERES], title="spheres, d = 3", settings=(*SMOKE[SPHERES].settings, "data.options.d=3")
        )
    },
    "cpu": {f"spheres-{d}": _in_more_dimensions(d) for d in (3, 10)},
    "paper": {f"spheres-{d}": PAPER[f"spheres-{d}"] for d in (3, 10, 900)},
}
CHANGES_WITH_STEPS = "nets trained with few steps are tied to their solver, nets trained with many are not"
NOT_RUN = {
    "proper-grid": (
        (
            Claim(f"MNIST: {CHANGES_WITH_STEPS}", "P Figs 4, 13, 14"),
            "cost: 13 trainings of hours to days each, by seed",
        ),
        (Claim(f"CIFAR-10: {CHANGES_WITH_STEPS}", "P Figs 4, 15, 16"), "cost: 12 trainings of days each, by seed"),
    ),
    "spheres": ((Claim(f"spheres, d = 900: {CHANGES_WITH_STEPS}", "P Fig 19"), "cost: days of one core for a seed"),),
}
"""At cpu scale."""

Grid = dict[str, dict[str, Cells]]
"""By task, scheme and steps."""


def run(study: Study) -> Findings:
    tasks: dict[str, Task] = study.settings
    nets = sum(len(task.steps(scheme)) for task in tasks.values() for scheme in SCHEMES)
    study.plan(nets * len(study.seeds) + len(tasks))
    found: Grid = {name: {scheme: {} for scheme in SCHEMES} for name in tasks}
    for name, task in tasks.items():
        for scheme in SCHEMES:
            for steps in task.steps(scheme):
                found[name][scheme][steps] = of_every_seed(
                    study, name, task, scheme, steps, lambda run: examine(study, run)
                )
    chance = {name: study.piece(f"{name}-chance", lambda t=task: commonest(study, t)) for name, task in tasks.items()}
    kept = {name: succeeded(found[name], chance[name]) for name in tasks}
    rows = tuple(
        (tasks[name].title, scheme, steps, *told_of(kept[name][scheme][steps]))
        for name in tasks
        for scheme in SCHEMES
        for steps in tasks[name].steps(scheme)
    )
    verdicts = [v for name, task in tasks.items() for v in verdicts_on(name, task.title, kept[name])]
    if study.scale == "cpu":
        verdicts += [ClaimVerdict(claim, "", not_run(reason)) for claim, reason in NOT_RUN.get(study.name, ())]
    columns = ("data", "trained with", "steps", *COLUMNS)
    return Findings(columns, rows, tuple(verdicts), lambda: _draw(tasks, found, kept), _notes(tasks))


def verdicts_on(name: str, title: str, kept: dict[str, Cells]) -> list[ClaimVerdict]:
    cells, euler, rk4 = kept["euler"], criticals(kept["euler"]), criticals(kept["rk4"])
    most = max(cells)
    verdicts = [is_tied(title, cells), is_continuous(title, cells, euler), is_larger(title, euler, rk4, most)]
    if name not in PUBLISHED:
        return [replace(one, claim=replace(one.claim, source="P app. B.5, Figs 17, 18")) for one in verdicts]
    where = is_where(title, *PUBLISHED[name], euler, most)
    return [*verdicts, where, has_no_trend(claim("trend", title), cells), is_same_around(title, cells, euler)]


def _notes(tasks: dict[str, Task]) -> tuple[str, ...]:
    changes = "; ".join(f"{task.title}: {', '.join(task.settings) or 'as published'}" for task in tasks.values())
    begins = "Every seed has its own initial weights and order of examples, the same for all numbers of steps."
    return (begins, f"Changes of the published settings: {changes}.", *NOTES)


def _draw(tasks: dict[str, Task], found: Grid, kept: Grid) -> "Figure":
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        len(tasks), 2, figsize=(11, 3.6 * len(tasks)), constrained_layout=True, squeeze=False, sharey="row"
    )
    for places, (name, task) in zip(axes, tasks.items(), strict=True):
        for place, scheme in zip(places, SCHEMES, strict=True):
            _panel(place, found[name][scheme], kept[name][scheme])
            place.set(title=f"{task.title}, trained with {scheme}", xlabel="steps in the test")
        places[0].set_ylabel("test accuracy (%)")
    return figure


MARKERS = {"euler": "o", "midpoint": "x", "rk4": "^"}


def _panel(place: "Axes", found: Cells, kept: Cells) -> None:
    from matplotlib import colormaps
    from matplotlib.lines import Line2D

    for rank, steps in enumerate(sorted(found)):
        colour = colormaps["viridis"](0.9 * rank / max(1, len(found) - 1))
        for one, is_kept in zip(found[steps], kept[steps], strict=True):
            if one and not is_kept:
                place.plot(steps, one["accuracy"], "o", color="0.75", markersize=4, zorder=1)
        good = [one for one in kept[steps] if one]
        if not good:
            continue
        for i, test in enumerate(good[0]["tests"]):
            values = [one["tests"][i]["accuracy"] for one in good]
            is_light = {"alpha": 0.55, "markersize": 4, "linestyle": ""}
            place.plot(test["steps"], np.mean(values), marker=MARKERS[test["scheme"]], color=colour, **is_light)
        own = [one["accuracy"] for one in good]
        place.errorbar(
            steps, np.mean(own), np.std(own), fmt="o", color=colour, markersize=7, markeredgecolor="black", capsize=2
        )
    place.set_xscale("log", base=2)
    place.grid(alpha=0.25)
    tested = dict.fromkeys(test["scheme"] for cell in found.values() for one in cell if one for test in one["tests"])
    handles = [Line2D([], [], marker=MARKERS[s], linestyle="", color="0.4", label=f"tested with {s}") for s in tested]
    own = Line2D(
        [], [], marker="o", linestyle="", color="0.4", markeredgecolor="black", markersize=7, label="as trained"
    )
    grey = Line2D([], [], marker="o", linestyle="", color="0.75", markersize=4, label="failed seed")
    place.legend(handles=[own, *handles, grey], fontsize=7)


EXPERIMENTS.add(
    "proper-grid",
    Experiment(
        "Where does a net become an ODE? Steps in training against steps and solvers in tests",
        "Proper ODEs, section 4.1, Figs 3, 4, 7-19",
        SETTINGS,
        run,
        seeds=5,
    ),
)
EXPERIMENTS.add(
    "spheres",
    Experiment(
        "Where does a net become an ODE? Spheres in more dimensions",
        "Proper ODEs, app. B.5, Figs 17 to 19",
        DIMENSIONS,
        run,
        seeds=5,
    ),
)
