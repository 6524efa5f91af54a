"""Steps in training against steps and solvers in tests: where does a net become an ODE (Proper ODEs, section 4.1)?"""

from math import log2
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from anydepth.reproduce import EXPERIMENTS
from anydepth.reproduce.experiment import Claim, Experiment, Findings, Verdict
from anydepth.reproduce.flows import (
    AGREEMENT,
    LANDSCAPE,
    TASKS,
    TESTED_WITH,
    THRESHOLD,
    Task,
    agreement,
    change,
    commonest,
    examine,
    is_proper,
    of_every_seed,
)
from anydepth.reproduce.judging import RULE, differences, is_above, spread
from anydepth.reproduce.study import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SCHEMES = tuple(TESTED_WITH)
PAPER = {
    "spheres": ("65 to 129", 64, 128),
    "landscape": ("33 to 65", 32, 64),
    "landscape-full": ("33 to 65", 32, 64),
    "mnist": ("9 to 17", 8, 16),
    "cifar10": ("17 to 33", 16, 32),
}
"""Evaluations of Euler nets around the critical step of Table 1, which are steps + 1; and the steps."""

_LONG = Task("three minima, trained in full", "proper-landscape", (), TASKS["paper"][LANDSCAPE].euler[:7], (1, 2, 4, 8))
SETTINGS = TASKS | {"cpu": {**TASKS["cpu"], "landscape-full": _LONG}}
"""At cpu scale also the one task whose nets, but for the finest, train with the published settings in minutes."""

NEAR, ON_PAR = 4, 3.0
"""Nets on either side of a critical step: within this factor; points of accuracy within which they are on par."""

Cell = list[dict[str, Any] | None]
"""What was found about the nets of all seeds; None: the training failed."""
Key = TypeVar("Key")
Grid = dict[str, dict[str, dict[int, Cell]]]
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
    columns = (
        "data",
        "trained with",
        "steps",
        "accuracy (%)",
        "spread",
        "largest change (points)",
        "least agreement (%)",
        "proper",
        "failed",
    )
    return Findings(columns, rows, _verdicts(tasks, kept), lambda: _draw(tasks, found, kept), _notes(tasks))


def succeeded(grid: dict[Key, dict[int, Cell]], chance: float) -> dict[Key, dict[int, Cell]]:
    """The same with None for seeds that learnt too little: less than half of the way from chance to the best."""
    best = max(
        (one["accuracy"] for cells in grid.values() for cell in cells.values() for one in cell if one), default=0
    )
    least = (chance + best) / 2
    return {
        scheme: {
            steps: [one if one and one["accuracy"] >= least else None for one in cell] for steps, cell in cells.items()
        }
        for scheme, cells in grid.items()
    }


def critical_steps(cells: dict[int, Cell], seed: int) -> int | None:
    """The fewest steps from which on all nets of a seed are proper; None: there are none. Failed ones tell nothing."""
    first = None
    for steps, cell in sorted(cells.items(), reverse=True):
        one = cell[seed]
        if one is not None and not is_proper(one):
            break
        first = steps if one is not None else first
    return first


def criticals(cells: dict[int, Cell]) -> list[int | None]:
    """The critical steps of every seed."""
    return [critical_steps(cells, seed) for seed in range(len(next(iter(cells.values()))))]


def told_of(cell: Cell) -> tuple[Any, ...]:
    """Accuracy and its spread, largest change, least agreement: means over seeds; how many are proper, and failed."""
    good = [one for one in cell if one]
    failed = len(cell) - len(good)
    if not good:
        return (None, None, None, None, "-", failed)
    accuracies = [one["accuracy"] for one in good]
    return (
        float(np.mean(accuracies)),
        float(np.std(accuracies)),
        float(np.mean([change(one) for one in good])),
        float(np.mean([agreement(one) for one in good])),
        f"{sum(map(is_proper, good))} of {len(good)}",
        failed,
    )


def _verdicts(tasks: dict[str, Task], kept: Grid) -> tuple[Verdict, ...]:
    verdicts = []
    for name, task in tasks.items():
        cells, euler, rk4 = kept[name], criticals(kept[name]["euler"]), criticals(kept[name]["rk4"])
        verdicts += [
            _is_tied(task.title, cells["euler"]),
            has_critical(task.title, euler),
            *([_where(task.title, *PAPER[name], euler)] if name in PAPER else []),
            _rk4_is_larger(task.title, euler, rk4),
            _same_accuracy(task.title, cells["euler"]),
            _same_around(task.title, cells["euler"], euler),
        ]
    return tuple(verdicts)


def _is_tied(title: str, cells: dict[int, Cell]) -> Verdict:
    steps = min(cells)
    drops = [change(one) for one in cells[steps] if one]
    claim = Claim(
        f"{title}: a net trained with few steps loses sharply under a more accurate solver",
        "P Fig 3, 4",
        "a sharp drop",
    )
    if not drops:
        return Verdict(claim, f"all trainings with {steps} steps failed", None)
    return Verdict(
        claim,
        f"with {steps} Euler step{'s' * (steps > 1)}, accuracy changes by {spread(drops, 1)} points",
        float(np.mean(drops)) > THRESHOLD,
    )


def has_critical(title: str, euler: list[int | None]) -> Verdict:
    known = [steps for steps in euler if steps is not None]
    return Verdict(
        Claim(f"{title}: there is a step size below which more accurate solvers change nothing", "P section 4.1"),
        f"{len(known)} of {len(euler)} seeds are proper from some number of Euler steps on: {listed(euler)}",
        len(known) == len(euler),
    )


def _where(title: str, paper: str, low: int, high: int, euler: list[int | None]) -> Verdict:
    known = [steps for steps in euler if steps is not None]
    claim = Claim(
        f"{title}: the critical step of Euler's method is near 1/{low} to 1/{high}", "P Table 1", f"NFE {paper}"
    )
    if not known:
        return Verdict(claim, "no seed has one", None)
    middle = 2 ** float(np.mean([log2(steps) for steps in known]))
    return Verdict(claim, f"geometric mean over seeds 1/{middle:.0f}: {listed(euler)}", low / 2 <= middle <= 2 * high)


def _rk4_is_larger(title: str, euler: list[int | None], rk4: list[int | None]) -> Verdict:
    pairs = [(a, b) for a, b in zip(euler, rk4, strict=True) if a is not None and b is not None]
    claim = Claim(f"{title}: the critical step of RK4 is larger than Euler's", "P section 4.1, Fig 3, 4", "larger")
    if not pairs:
        return Verdict(claim, "no seed has both", None)
    gaps = differences([log2(a) for a, _ in pairs], [log2(b) for _, b in pairs])
    ratio = 2 ** float(np.mean(gaps))
    return Verdict(claim, f"{ratio:.1f} times as large; steps of RK4: {listed(rk4)}", is_above(gaps))


def _same_accuracy(title: str, cells: dict[int, Cell]) -> Verdict:
    means = {steps: np.mean([one["accuracy"] for one in cell if one]) for steps, cell in cells.items() if any(cell)}
    claim = Claim(
        f"{title}: accuracy with the solver of the training does not depend on its step", "P section 4.1", "no trend"
    )
    if len(means) < 2:
        return Verdict(claim, "too few trainings succeeded", None)
    low, high = min(means, key=lambda k: means[k]), max(means, key=lambda k: means[k])
    gap = float(means[high] - means[low])
    told = f"means from {means[low]:.1f} % ({low} steps) to {means[high]:.1f} % ({high} steps)"
    return Verdict(claim, told, gap <= THRESHOLD)


def _same_around(title: str, cells: dict[int, Cell], euler: list[int | None]) -> Verdict:
    """Of every seed, the nets within a factor of four below its critical number of steps, and from there on."""
    gaps = []
    for seed, critical in enumerate(euler):
        own = {steps: one["accuracy"] for steps, cell in cells.items() if (one := cell[seed])}
        tied = [own[steps] for steps in own if critical and critical / NEAR <= steps < critical]
        proper = [own[steps] for steps in own if critical and critical <= steps < NEAR * critical]
        if tied and proper:
            gaps.append(float(np.mean(proper) - np.mean(tied)))
    claim = Claim(
        f"{title}: a net that is an ODE is as accurate with the solver of its training as one that is not quite",
        "P section 5",
        "good accuracy in either case",
    )
    if not gaps:
        return Verdict(claim, "no seed has nets on both sides of a critical step", None)
    told = f"around the critical step, {spread(gaps, 1)} points apart ({len(gaps)} of {len(euler)} seeds)"
    return Verdict(claim, told, abs(float(np.mean(gaps))) <= ON_PAR)


def listed(steps: list[int | None]) -> str:
    return ", ".join("none" if k is None else str(k) for k in steps)


def _notes(tasks: dict[str, Task]) -> str:
    changes = "; ".join(f"{task.title}: {', '.join(task.settings) or 'as published'}" for task in tasks.values())
    return (
        "Every seed has its own initial weights and order of examples; all seeds of a small net train at once. "
        f"Changes of the published settings: {changes}. Tests: 0.5, 0.75, 1, 1.5 and 2 times the step size (at most 1, "
        "the last step cut); Euler nets with Euler, midpoint and RK4, RK4 nets with RK4. A net is proper when no test "
        f"with steps as small and order as high as in training changes its accuracy by more than {THRESHOLD:g} points, "
        f"the rule of Algorithm 1; the agreement of predictions, of which `anydepth check` asks {AGREEMENT:g} %, is "
        "shown beside it. A seed failed if it left the finite numbers or learnt less than half of the way from the "
        "commonest class to the best net of its data; failed seeds are grey and left out of means. Accuracy counts as "
        f"independent of the step if the means over seeds differ by at most {THRESHOLD:g} points, and as equal on both "
        f"sides of the critical step if nets within a factor of {NEAR} of it differ by at most {ON_PAR:g} points on "
        f"average; a critical step is as published if it is within a factor of two. {RULE}"
    )


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


def _panel(place: "Axes", found: dict[int, Cell], kept: dict[int, Cell]) -> None:
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
