"""Table 1 of Proper ODEs: the rules that compare a search over steps with controllers, and the verdicts on them."""

from dataclasses import dataclass
from math import log2
from typing import Any

import numpy as np

from anydepth_papers.judge.experiment import Claim, ClaimVerdict
from anydepth_papers.judge.rules import (
    Judgement,
    all_of,
    better,
    better_median,
    near,
    no_worse,
    no_worse_median,
    proportion,
    undecided,
)
from anydepth_papers.judge.wording import spread
from anydepth_papers.nets.flows import AGREEMENT, NEARLY_ALL, RESOLUTION, SPHERES

MOST_ACCURATE, UNVARIED = "grid, most accurate", "steady, not varied"


@dataclass(frozen=True)
class Printed:
    """A row of Table 1: evaluations and accuracy of the algorithm, accuracy of the grid search; with their spreads."""

    nfe: float
    accuracy: tuple[float, float]
    grid: tuple[float, float]
    grid_nfe: str


TABLE = {
    "spheres": Printed(100.5, (98.9, 0.6), (99.2, 0.8), "65 to 129"),
    "landscape": Printed(43.3, (76.5, 1.6), (79.0, 2.6), "33 to 65"),
    "mnist": Printed(9.8, (95.6, 0.5), (96.5, 0.2), "9 to 17"),
    "cifar10": Printed(21.9, (55.0, 0.8), (54.7, 0.3), "17 to 33"),
}
FACTOR = 2
"""Evaluations are as published within this factor: the paper prints no spread of them."""
DEARER, LESS = 1.5, 3.0
"""On par with the grid's coarsest proper net: at most so many times its evaluations, at most so many points less."""
FLUCTUATES, CALM = 5, 3
"""Changes of the number of steps in the last half of a training: more than these fluctuate, fewer than these do not."""
CHEAPER, MARGIN = 0.8, 1.0
"""`steady`: less than so many times the evaluations of Algorithm 1, at most so many points less than the grid."""
CLAIMS = {
    "on par": Claim(
        f"Algorithm 1 needs at most {DEARER:g} times the evaluations of the grid's coarsest proper net and is at most "
        f"{LESS:g} points less accurate",
        "P section 5.1, Table 1",
        "on par",
    ),
    "ode": Claim(
        f"at least {100 * NEARLY_ALL:g} % of all nets trained by Algorithm 1 end as proper ODEs",
        "P section 5",
        "time-continuous dynamics",
    ),
    "fluctuates": Claim(
        f"the number of steps changes more than {FLUCTUATES} times in the last half of the training",
        "P section 5.1, Figs 5, 6",
        "fluctuates",
    ),
    "nfe": Claim(f"the evaluations of Algorithm 1 are as published, to a factor of {FACTOR}", "P Table 1"),
    "accuracy": Claim("the accuracy of Algorithm 1 is as published, within the printed spread", "P Table 1"),
    "grid": Claim("the accuracy of the grid search is as published, within the printed spread", "P Table 1"),
    "calm": Claim(
        f"`steady` changes the steps fewer than {CALM} times in the last half and needs less than {CHEAPER:g} times "
        "the evaluations of Algorithm 1",
        "ours, after P section 6",
        "future work: no oscillation",
    ),
    "proper": Claim(
        f"at least {100 * NEARLY_ALL:g} % of all nets trained by `steady` end as proper ODEs, by accuracy and by "
        "agreement",
        "ours, after P section 6",
    ),
    "accurate": Claim(
        f"`steady` is at most {MARGIN:g} point less accurate than the grid's most accurate proper run",
        "ours, after P section 6",
    ),
    "varying": Claim("`steady` learns more when the steps vary from pass to pass", "ours"),
}
"""Seed by seed: the nets of one seed share initial weights and the order of examples. The accuracy of spheres, where
some seeds fail, is compared in the median."""
RULES = (
    "`grid`: per seed, the net with the fewest steps from which on all are proper; its cost is that of this net alone, "
    "without the search.",
    f"`{MOST_ACCURATE}`: what Table 1 reports, the most accurate run of all that are ODEs. Such a run is a number of "
    "steps with its nets of all seeds, every one of them proper; if there is none, the run with the most proper nets, "
    "then the most steps. A run with fewer than half of its nets left does not count. Both are chosen on test data.",
    "Accuracies are compared with printed ones over the seeds that learnt, as the paper does; seeds that learnt less "
    "than half of the way from the commonest class to the best net are counted as failed.",
)

Net = dict[str, Any]
Nets = list[Net | None]
"""Of every seed; None: the training failed, or there is no such net."""


def coarsest(nets: dict[int, Net | None]) -> Net | None:
    """Of one seed's nets, by steps, that with the fewest steps from which on all are proper.

    Also with the accuracy of the best proper net.
    """
    found, proper = None, [one["accuracy"] for one in nets.values() if one and one["proper"]]
    for _, one in sorted(nets.items(), reverse=True):
        if one is not None and not one["proper"]:
            break
        found = one or found
    return None if found is None else found | {"best": max(proper)}


def best_run(cells: dict[int, Nets]) -> Nets:
    """The run of a grid search that Table 1 reports: the nets of all seeds with one number of steps.

    Of those whose nets are all proper, the one with the highest mean accuracy; where there is none, the one with the
    most proper nets and, among equals, the most steps. Failed nets tell nothing, and a number of steps with fewer than
    half of its nets left does not count.
    """
    left = {steps: [net for net in nets if net] for steps, nets in sorted(cells.items())}
    left = {steps: nets for steps, nets in left.items() if nets and 2 * len(nets) >= len(cells[steps])}
    proper = {steps: sum(net["proper"] for net in nets) for steps, nets in left.items()}
    whole = [steps for steps, nets in left.items() if proper[steps] == len(nets)]
    if whole:
        return cells[max(whole, key=lambda steps: float(np.mean([net["accuracy"] for net in left[steps]])))]
    most = max(left, key=lambda steps: (proper[steps], steps), default=None)
    return cells[most] if most is not None and proper[most] else [None for _ in next(iter(cells.values()))]


def steps_of(one: Net) -> int:
    """The number of steps that a net is left with."""
    return one["steps"][-1][1] if "steps" in one else one["nfe"]


def verdicts_on(name: str, title: str, found: dict[str, Nets], is_published: bool, least: float) -> list[ClaimVerdict]:
    """On one dataset; with the published settings also on the printed figures.

    Args:
        least: the accuracy below which a net has failed.
    """
    medians = name.startswith(SPHERES)
    paper, steady = (learnt(found[control], least) for control in ("paper", "steady"))
    verdicts = [_on_par(title, found, medians), _ends_proper(title, paper), _fluctuates(title, found["paper"])]
    if is_published:
        verdicts += _as_printed(title, TABLE[name], found, least)
    verdicts += [_calm(title, found), _stays_proper(title, steady), _accurate(title, found, medians)]
    return [*verdicts, *([_varying(title, found, medians)] if UNVARIED in found else [])]


def claim(kind: str, title: str, paper: str | None = None) -> Claim:
    """A claim about one dataset."""
    known = CLAIMS[kind]
    return Claim(f"{title}: {known.sentence}", known.source, known.paper if paper is None else paper)


def complete(found: dict[str, Nets], *methods: str) -> list[tuple[Net, ...]]:
    """The nets of every seed by these methods, where there are all of them."""
    return [nets for nets in zip(*(found[method] for method in methods), strict=True) if all(nets)]  # pyright: ignore[reportReturnType]


def learnt(nets: Nets, least: float) -> Nets:
    """Without those that learnt too little, of which it says nothing that a solver does not change them."""
    return [one for one in nets if one is None or one["accuracy"] >= least]


def cheaper(ours: list[float], theirs: list[float], factor: float) -> Judgement:
    """Whether evaluations are less than `factor` times others, seed by seed on the logarithmic scale."""
    limits = [log2(factor * nfe) for nfe in theirs]
    return better(limits, [log2(nfe) for nfe in ours], paired=True, unit="octaves")


def _not_less(ours: list[float], theirs: list[float], margin: float, medians: bool) -> Judgement:
    if medians:
        return no_worse_median(ours, theirs, margin)
    return no_worse(ours, theirs, margin, paired=True, resolution=RESOLUTION)


_KEYS = ("nfe", "accuracy")


def _on_par(title: str, found: dict[str, Nets], medians: bool) -> ClaimVerdict:
    pairs = complete(found, "grid", "paper")
    if not pairs:
        return ClaimVerdict(
            claim("on par", title), "", undecided("no seed has a proper net in the grid and a trained one")
        )
    (grid_cost, cost), (grid, ours) = (
        [[one[key] for one in nets] for nets in zip(*pairs, strict=True)] for key in _KEYS
    )
    judged = all_of(cheaper(cost, grid_cost, DEARER), _not_less(ours, grid, LESS, medians))
    ratios, gaps = np.divide(cost, grid_cost), np.subtract(ours, grid)
    told = f"{spread(list(ratios))} times the evaluations, {spread(list(gaps))} points"
    return ClaimVerdict(claim("on par", title), f"{told} ({len(pairs)} of {len(found['grid'])} seeds)", judged)


def _ends_proper(title: str, nets: Nets) -> ClaimVerdict:
    good = [one for one in nets if one]
    proper = sum(one["proper"] for one in good)
    told = f"{proper} of {len(nets)} seeds that learnt are proper"
    told += f"; accuracy changes by {spread([one['change'] for one in good], 1)} points" if good else ""
    return ClaimVerdict(claim("ode", title), told, proportion(proper, len(nets), NEARLY_ALL))


def _fluctuates(title: str, nets: Nets) -> ClaimVerdict:
    changes = [float(one["late changes"]) for one in nets if one]
    limits = [float(FLUCTUATES)] * len(changes)
    judged = better(changes, limits, paired=True, unit="changes", resolution=1)
    return ClaimVerdict(claim("fluctuates", title), f"{spread(changes, 1)} changes" if changes else "", judged)


def _as_printed(title: str, row: Printed, found: dict[str, Nets], least: float) -> list[ClaimVerdict]:
    """Evaluations and both accuracies of Table 1."""
    costs = [one["nfe"] for one in found["paper"] if one]
    judged = near([log2(nfe / row.nfe) for nfe in costs], 0.0, log2(FACTOR), unit="octaves")
    told = f"{spread(costs, 1)}, checks included" if costs else ""
    return [
        ClaimVerdict(claim("nfe", title, f"{row.nfe:g}"), told, judged),
        _printed(
            claim("accuracy", title, f"{row.accuracy[0]:g} +- {row.accuracy[1]:g} %"),
            row.accuracy,
            found["paper"],
            least,
        ),
        _printed(
            claim("grid", title, f"{row.grid[0]:g} +- {row.grid[1]:g} %, {row.grid_nfe} evaluations"),
            row.grid,
            found[MOST_ACCURATE],
            least,
        ),
    ]


def _printed(known: Claim, printed: tuple[float, float], nets: Nets, least: float) -> ClaimVerdict:
    good = [one["accuracy"] for one in nets if one and one["accuracy"] >= least]
    told = f"{spread(good)} %" if good else "no seed learnt"
    told += f", {len(nets) - len(good)} of {len(nets)} seeds failed"
    return ClaimVerdict(known, told, near(good, *printed, resolution=RESOLUTION))


def _calm(title: str, found: dict[str, Nets]) -> ClaimVerdict:
    pairs = complete(found, "paper", "steady")
    if not pairs:
        return ClaimVerdict(claim("calm", title), "", undecided("no seed was trained by both controllers"))
    changes = [[float(pair[i]["late changes"]) for pair in pairs] for i in (0, 1)]
    costs = [[pair[i]["nfe"] for pair in pairs] for i in (0, 1)]
    limits = [float(CALM)] * len(pairs)
    few = better(limits, changes[1], paired=True, unit="changes", resolution=1)
    told = (
        f"{spread(changes[1], 1)} changes (Algorithm 1: {spread(changes[0], 1)}), "
        f"{spread(list(np.divide(costs[1], costs[0])))} times its evaluations"
    )
    return ClaimVerdict(claim("calm", title), told, all_of(few, cheaper(costs[1], costs[0], CHEAPER)))


def _stays_proper(title: str, nets: Nets) -> ClaimVerdict:
    proper = sum(one["proper"] and one["agreement"] >= AGREEMENT for one in nets if one)
    told = f"{proper} of {len(nets)} seeds that learnt are proper, with at least {AGREEMENT:g} % agreement"
    return ClaimVerdict(claim("proper", title), told, proportion(proper, len(nets), NEARLY_ALL))


def _accurate(title: str, found: dict[str, Nets], medians: bool) -> ClaimVerdict:
    pairs = complete(found, MOST_ACCURATE, "steady")
    if not pairs:
        return ClaimVerdict(claim("accurate", title), "", undecided("the grid has no proper run"))
    theirs, ours = ([pair[i]["accuracy"] for pair in pairs] for i in (0, 1))
    told = (
        f"{spread(list(np.subtract(ours, theirs)))} points from {_run_told(found[MOST_ACCURATE])}; {_stricter(found)}"
    )
    return ClaimVerdict(claim("accurate", title), told, _not_less(ours, theirs, MARGIN, medians))


def _run_told(nets: Nets) -> str:
    """Its steps; for how many seeds there is a net of it, and for how many a proper one, where that is not all."""
    left = [net for net in nets if net]
    proper, steps = sum(net["proper"] for net in left), steps_of(left[0])
    told = f"{steps} step{'s' * (steps != 1)}"
    if len(left) < len(nets):
        told += f", for the {len(left)} of {len(nets)} seeds whose training succeeded"
    if proper < len(left):
        told += f", proper for {proper} of {len(left)} seeds, as no number of steps is for all"
    return told


def _stricter(found: dict[str, Nets]) -> str:
    """The gap to the best proper net that the grid has for each seed."""
    gaps = [ours["accuracy"] - grid["best"] for grid, ours in complete(found, "grid", "steady")]
    if not gaps:
        return "no seed has a net from which on all are proper"
    return f"{spread(gaps)} points from the best proper net of each seed ({len(gaps)} of {len(found['steady'])})"


def _varying(title: str, found: dict[str, Nets], medians: bool) -> ClaimVerdict:
    pairs = complete(found, "steady", UNVARIED)
    if not pairs:
        return ClaimVerdict(claim("varying", title), "", undecided("no seed has both nets"))
    ours, plain = ([pair[i]["accuracy"] for pair in pairs] for i in (0, 1))
    cost = [spread([pair[i]["nfe"] for pair in pairs], 1) for i in (0, 1)]
    told = f"{spread(list(np.subtract(ours, plain)))} points; {cost[0]} against {cost[1]} evaluations per iteration"
    judged = better_median(ours, plain) if medians else better(ours, plain, paired=True, resolution=RESOLUTION)
    return ClaimVerdict(claim("varying", title), told, judged)
