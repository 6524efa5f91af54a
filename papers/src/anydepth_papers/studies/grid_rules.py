"""Nets trained with few and with many steps (Proper ODEs, section 4.1): the claims about them and their rules."""

from math import log2
from typing import Any, TypeVar

import numpy as np

from anydepth_papers.judge.experiment import Claim, ClaimVerdict
from anydepth_papers.judge.rules import better, near, no_worse, undecided
from anydepth_papers.judge.wording import spread
from anydepth_papers.nets.flows import RESOLUTION, THRESHOLD, agreement, change, is_proper

NEAR, ON_PAR = 4, 3.0
"""Nets on either side of a critical step: within this factor; points of accuracy within which they are on par."""
OCTAVE = 1.0
"""Numbers of steps are powers of two: a critical number is known to a factor of two, and as published if it is within
that factor of the published range."""
PUBLISHED = {"spheres": (64, 128), "landscape": (32, 64), "mnist": (8, 16), "cifar10": (16, 32)}
"""Steps around the critical step of Euler's method in Table 1, whose evaluations are steps + 1."""
CLAIMS = {
    "tied": Claim(
        f"with the fewest Euler steps, a more accurate solver changes the accuracy by more than {THRESHOLD:g} points",
        "P section 4.1, Figs 3, 4",
        "a sharp drop",
    ),
    "continuous": Claim(
        f"with the most Euler steps, more accurate solvers change it by at most {THRESHOLD:g} points",
        "P section 4.1, Figs 3, 4",
        "a critical step size, below which the test solver does not matter",
    ),
    "where": Claim("the critical step of Euler's method is as published, to a factor of two", "P Table 1"),
    "rk4": Claim("the critical step of RK4 is larger than Euler's", "P section 4.1, Figs 3, 4", "larger"),
    "trend": Claim(
        "over all numbers of Euler steps, the accuracy with the solver of the training has a trend of at most "
        f"{THRESHOLD:g} points",
        "P section 4.1",
        "no clear dependence",
    ),
    "around": Claim(
        f"nets just finer and just coarser than critical differ by at most {ON_PAR:g} points of accuracy, each with "
        "the solver of its training",
        "P section 5",
        "good accuracy in either case",
    ),
}
"""Over the seeds that did not fail; pairs share initial weights and the order of examples."""

Cell = list[dict[str, Any] | None]
"""What was found about the nets of all seeds; None: the training failed."""
Cells = dict[int, Cell]
"""By the number of steps."""
Key = TypeVar("Key")


def claim(kind: str, title: str, paper: str | None = None) -> Claim:
    """A claim about one dataset."""
    known = CLAIMS[kind]
    return Claim(f"{title}: {known.sentence}", known.source, known.paper if paper is None else paper)


def succeeded(grid: dict[Key, Cells], chance: float) -> dict[Key, Cells]:
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


def critical_steps(cells: Cells, seed: int) -> int | None:
    """The fewest steps from which on all nets of a seed are proper; None: there are none. Failed ones tell nothing."""
    first = None
    for steps, cell in sorted(cells.items(), reverse=True):
        one = cell[seed]
        if one is not None and not is_proper(one):
            break
        first = steps if one is not None else first
    return first


def criticals(cells: Cells) -> list[int | None]:
    """The critical steps of every seed."""
    return [critical_steps(cells, seed) for seed in range(len(next(iter(cells.values()))))]


def is_tied(title: str, cells: Cells) -> ClaimVerdict:
    steps = min(cells)
    changes = [change(one) for one in cells[steps] if one]
    told = f"with {_counted(steps)}: {_points(changes)}"
    limits = [THRESHOLD] * len(changes)
    return ClaimVerdict(claim("tied", title), told, better(changes, limits, paired=True, resolution=RESOLUTION))


def is_continuous(title: str, cells: Cells, critical: list[int | None]) -> ClaimVerdict:
    steps = max(cells)
    changes = [change(one) for one in cells[steps] if one]
    known = sum(k is not None for k in critical)
    told = (
        f"with {_counted(steps)}: {_points(changes)}; {known} of {len(critical)} seeds proper from {listed(critical)}"
    )
    zeros = [0.0] * len(changes)
    judged = no_worse([-gap for gap in changes], zeros, THRESHOLD, paired=True, resolution=RESOLUTION)
    return ClaimVerdict(claim("continuous", title), f"{told} steps on", judged)


def is_where(title: str, low: int, high: int, critical: list[int | None], most: int) -> ClaimVerdict:
    """A seed that has no critical step in the grid counts as if twice the most steps were critical."""
    octaves = [log2(2 * most if k is None else k) for k in critical]
    middle, half = (log2(low) + log2(high)) / 2, (log2(high) - log2(low)) / 2
    judged = near(octaves, middle, half + OCTAVE, unit="octaves", resolution=OCTAVE)
    told = f"geometric mean 1/{2 ** float(np.mean(octaves)):.0f}: {listed(critical)} steps"
    return ClaimVerdict(claim("where", title, f"1/{low} to 1/{high}"), told, judged)


def is_larger(title: str, euler: list[int | None], rk4: list[int | None], most: int) -> ClaimVerdict:
    """A seed that has none for Euler counts as above; one that has none for RK4 as if it were no larger there."""
    octaves = [log2(2 * most if a is None else a) for a in euler]
    pairs = [(a, a if b is None else log2(b)) for a, b in zip(octaves, rk4, strict=True)]
    told = f"Euler {listed(euler)} steps, RK4 {listed(rk4)}"
    if not any(rk4):
        return ClaimVerdict(claim("rk4", title), told, undecided("no seed has a critical step of RK4"))
    here, there = zip(*pairs, strict=True)
    judged = better(here, there, paired=True, unit="octaves", resolution=OCTAVE)
    ratio = 2 ** float(np.mean(np.subtract(here, there)))
    return ClaimVerdict(claim("rk4", title), f"{ratio:.1f} times as large: {told}", judged)


def trends(cells: Cells) -> list[float]:
    """Of every seed with at least three nets: the change of accuracy over all numbers of steps, by a straight line."""
    found, width = [], log2(max(cells)) - log2(min(cells))
    for seed in range(len(next(iter(cells.values())))):
        own = [(log2(steps), one["accuracy"]) for steps, cell in cells.items() if (one := cell[seed])]
        if len(own) >= min(3, len(cells)) and len(own) > 1:
            at, accuracies = zip(*own, strict=True)
            found.append(width * float(np.polyfit(at, accuracies, 1)[0]))
    return found


def has_no_trend(known: Claim, cells: Cells) -> ClaimVerdict:
    found = trends(cells)
    means = {
        steps: float(np.mean([one["accuracy"] for one in cell if one])) for steps, cell in cells.items() if any(cell)
    }
    told = f"trend {spread(found, 1)} points; means {ends(means)}" if found else "too few trainings succeeded"
    return ClaimVerdict(known, told, near(found, 0.0, THRESHOLD, unit="points", resolution=RESOLUTION))


def is_same_around(title: str, cells: Cells, euler: list[int | None]) -> ClaimVerdict:
    """Of every seed, the nets within a factor of four below its critical number of steps, and from there on."""
    gaps = []
    for seed, critical in enumerate(euler):
        own = {steps: one["accuracy"] for steps, cell in cells.items() if (one := cell[seed])}
        tied = [own[steps] for steps in own if critical and critical / NEAR <= steps < critical]
        proper = [own[steps] for steps in own if critical and critical <= steps < NEAR * critical]
        if tied and proper:
            gaps.append(float(np.mean(proper) - np.mean(tied)))
    told = f"{spread(gaps, 1) if gaps else 'no'} points apart ({len(gaps)} of {len(euler)} seeds)"
    return ClaimVerdict(claim("around", title), told, near(gaps, 0.0, ON_PAR, unit="points", resolution=RESOLUTION))


def told_of(cell: Cell) -> tuple[Any, ...]:
    """Accuracy: mean, spread and median; largest change, least agreement; how many are proper, and how many failed."""
    good = [one for one in cell if one]
    failed = f"{len(cell) - len(good)} of {len(cell)}"
    if not good:
        return (None, None, None, None, None, "-", failed)
    accuracies = [one["accuracy"] for one in good]
    return (
        float(np.mean(accuracies)),
        float(np.std(accuracies, ddof=1)) if len(good) > 1 else None,
        float(np.median(accuracies)),
        float(np.mean([change(one) for one in good])),
        float(np.mean([agreement(one) for one in good])),
        f"{sum(map(is_proper, good))} of {len(good)}",
        failed,
    )


COLUMNS = ("accuracy (%)", "spread", "median", "largest change (points)", "least agreement (%)", "proper", "failed")
"""What `told_of` tells."""
NOTES = (
    "These nets keep no batch statistics, so that nothing is recalibrated. N steps of Euler are N evaluations of the "
    "field, of midpoint 2 N, of RK4 4 N.",
    "Tests: 0.5, 0.75, 1, 1.5 and 2 times the step size (at most 1, the last step cut); Euler nets with Euler, "
    "midpoint and RK4, RK4 nets with RK4.",
    "A net is proper when no test with steps as small and order as high as in training changes its accuracy by more "
    f"than {THRESHOLD:g} points, the rule of Algorithm 1. The agreement of predictions is shown beside it.",
    "A seed failed if it left the finite numbers or learnt less than half of the way from the commonest class to the "
    "best net of its data. Failed seeds are counted, grey in figures, and left out of everything else.",
    "The critical number of steps of a seed is the fewest from which on all its nets are proper. A trend is the slope "
    "of a straight line through a seed's accuracies over log2(steps), times the width of the grid.",
)


def listed(steps: list[int | None]) -> str:
    return ", ".join("none" if k is None else str(k) for k in steps)


def ends(means: dict[int, float]) -> str:
    """The lowest and the highest mean, with their steps."""
    low, high = (pick(means, key=means.__getitem__) for pick in (min, max))
    return f"from {means[low]:.1f} % ({_counted(low)}) to {means[high]:.1f} % ({_counted(high)})"


def _counted(steps: int) -> str:
    return f"{steps} step{'s' * (steps != 1)}"


def _points(changes: list[float]) -> str:
    return f"{spread(changes, 1)} points" if changes else "all trainings failed"
