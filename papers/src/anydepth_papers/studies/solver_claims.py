"""Claims about other solvers and steps for trained weights, and how each is judged (ContinuousNet, section 5.3)."""

from collections.abc import Callable
from typing import Any

import numpy as np

from anydepth_papers.judge.experiment import Claim
from anydepth_papers.judge.rules import Judgement, all_of, better, instance_no_worse, near, no_worse, undecided
from anydepth_papers.judge.wording import differences, spread
from anydepth_papers.nets.image_nets import TITLE, common_seeds, unpacked, uses_depth

OWN = {"rk4": "rk4", "euler": "euler", "resnet": "euler"}
"""Nets, and the scheme that each was trained with."""
ONE_POINT, THREE_POINTS = 1.0, 3.0
AS_GOOD = 0.5
"""Points below a ResNet that count as just as good; the paper prints 93.55 against 93.84 %."""
IN_PROPORTION = 0.25
"""How far the time per step may be from constant."""
OTHER_DEPTHS = (1 / 2, 3 / 4, 5 / 4, 3 / 2)
"""Shares of the trained steps at which the loss in another depth is taken; the largest counts."""
FLAT = (1 / 2, 3 / 4, 5 / 4, 3 / 2, 2)
HARMONICS = {1 / 2: (3 / 8, 5 / 8), 2: (3 / 2, 5 / 2)}
"""Multiples and fractions of the trained steps, each with its neighbours."""

CLAIMS = {
    "to euler": Claim(
        "Each RK4 net run with Euler at its own N is at most 1 point below itself (instance)",
        "C Table 1a",
        "93.70 -> 93.55 %",
    ),
    "third": Claim(
        "Each RK4 net run with RK4-3/8 and a third of its steps is at most 1 point below itself (instance)",
        "C Table 1a",
        "93.70 -> 93.44 %",
    ),
    "fifth": Claim(
        "Each RK4 net run with RK4-3/8 and a fifth of its steps is at most 3 points below itself (instance)",
        "C Table 1a",
        "93.70 -> 92.28 %",
    ),
    "flat": Claim(
        "Each RK4 net is at most 1 point below itself with half, 3/4, 5/4, 3/2 and twice its steps (instance)",
        "C Fig 9, section 5.3.1",
        "does not degrade",
    ),
    "time": Claim(
        "Time falls in proportion to the steps, within a quarter, over seeds", "C Table 1a", "11.06 of 32.55 s"
    ),
    "dip": Claim(
        "The Euler net has a peak at its N: accuracy there is above 3/4 and 5/4 of the steps, over seeds",
        "C Fig 9, section 5.3.1",
        "a sharp dip of the error",
    ),
    "harmonics": Claim(
        "The Euler net has further peaks at half and twice its N, above the neighbours' mean, over seeds",
        "C section 5.3.1",
        "additional dips",
    ),
    "depth euler": Claim(
        "In another depth the Euler net loses more than the RK4 net, over seeds", "C Fig 9, left", "a picture"
    ),
    "depth resnet": Claim(
        "In another depth a ResNet with stretched steps loses more than the RK4 net, over seeds", "C Fig 9, left"
    ),
    "depth euler, recalibrated": Claim(
        "Control: in another depth the Euler net loses more than the RK4 net where both are recalibrated", "ours"
    ),
    "half resnet": Claim(
        "With half the steps and recalibrated, the RK4 net loses fewer points than a ResNet shortened to half its "
        "units in the way that is best on validation images, over seeds",
        "ours",
    ),
    "converse": Claim(
        "The Euler net run with RK4 loses more than the RK4 net run with Euler, over seeds",
        "C section 5.3.2",
        "the converse is not true",
    ),
    "converse, recalibrated": Claim(
        "Control: the Euler net run with RK4 loses more than the RK4 net run with Euler where both are recalibrated",
        "ours",
    ),
    "as a resnet": Claim(
        "The RK4 net run with Euler is at most 0.5 points below a ResNet, over seeds",
        "C section 5.3.2",
        "as good as a ResNet: 93.55 and 93.84 %",
    ),
    "euler as a resnet": Claim(
        "ContinuousNet (Euler) is at most 0.5 points below a ResNet, over seeds", "C Table 1", "93.84 and 93.84 %"
    ),
    "rk4 as euler": Claim(
        "ContinuousNet (RK4) is at most 1 point below ContinuousNet (Euler), over seeds",
        "C Table 1",
        "slightly worse: 93.57 and 93.84, 77.99 and 78.80 %",
    ),
}


class Grid:
    """What was seen, by net, seed and form."""

    def __init__(self, found: dict[str, dict[int, Any]]):
        self.found = found
        self.seeds = common_seeds(found, *OWN)
        """For which all nets are there; claims are about these."""

    def trained(self, net: str) -> int:
        return next(iter(self.found[net].values()))["trained"]

    def steps(self, net: str, scheme: str) -> list[int]:
        """With which a net was run by a scheme."""
        forms = next(iter(self.found[net].values()))["forms"]
        return sorted(int(form.rpartition(" x ")[2]) for form in forms if form.startswith(f"{scheme} x "))

    def form(self, net: str, share: float = 1, scheme: str | None = None) -> str:
        """With a share of the trained steps."""
        return f"{scheme or OWN[net]} x {max(1, round(self.trained(net) * share))}"

    def seen(self, net: str, seed: int, form: str, again: bool = False) -> dict[str, Any]:
        one = self.found[net][seed]["forms"][form]
        return one["recalibrated"] if again else one

    def accuracies(self, net: str, form: str, again: bool = False) -> list[float]:
        return [self.seen(net, seed, form, again)["accuracy"] for seed in self.seeds]

    def lost(self, net: str, form: str, again: bool = False) -> list[float]:
        """Points below the net as trained, which is not recalibrated."""
        return differences(self.accuracies(net, self.form(net)), self.accuracies(net, form, again))

    def worst(self, net: str, again: bool = False) -> list[float]:
        """Most points lost in another depth."""
        losses = [self.lost(net, self.form(net, share), again) for share in OTHER_DEPTHS]
        return np.max(losses, axis=0).tolist()

    def best_short(self, seed: int, layers: int) -> dict[str, Any]:
        """A ResNet with so many units a stage, made so in the way that is best on validation images."""
        forms = self.found["resnet"][seed]["forms"]
        return max((forms[form] for form in forms if form.endswith(f" to {layers}")), key=lambda one: one["validation"])

    def idle(self) -> list[str]:
        """Nets that do not use their depth."""
        shallow = {seed: one["forms"]["as trained"]["accuracy"] for seed, one in self.found["resnet-1"].items()}
        return [
            net
            for net in OWN
            if not uses_depth(self.found, net, shallow, lambda one, n=net: one["forms"][self.form(n)]["accuracy"])
        ]


Told = tuple[str, Judgement]


def judged(grid: Grid, name: str) -> Told:
    """A claim in words and by its rule; undecided where a net does not use its depth."""
    told, judgement = _RULES[name](grid)
    idle = grid.idle()
    if idle and name != "time":
        nets = ", ".join(TITLE[net] for net in idle)
        return told, undecided(f"not known to be 5 points above a net of depth 1: {nets}")
    return told, judgement


def _instances(grid: Grid, forms: list[str], margin: float) -> Told:
    """Each net in other forms against itself, over its test images."""
    own, seeds = grid.form("rk4"), grid.seeds
    answers = {
        (seed, form): unpacked(grid.seen("rk4", seed, form)["answers"]) for seed in seeds for form in (own, *forms)
    }
    each = [instance_no_worse(answers[seed, form], answers[seed, own], margin) for seed in seeds for form in forms]
    losses, again = ([max(grid.lost("rk4", f, a)[i] for f in forms) for i in range(len(seeds))] for a in (False, True))
    return f"{spread(losses)} points lost, recalibrated {spread(again)}", all_of(*each)


def _time(grid: Grid) -> Told:
    few, all_ = grid.form("rk4", 11 / 32, "rk4_38"), grid.form("rk4", 1, "rk4_38")
    steps = int(few.rpartition(" x ")[2]) / grid.trained("rk4")
    times = [grid.seen("rk4", s, few)["milliseconds"] / grid.seen("rk4", s, all_)["milliseconds"] for s in grid.seeds]
    told = f"{spread(times)} of the time with {steps:.3f} of the steps"
    return told, near([time / steps for time in times], 1.0, IN_PROPORTION, unit="of the share of steps")


def _dip(grid: Grid) -> Told:
    here = grid.accuracies("euler", grid.form("euler"))
    beside = [grid.accuracies("euler", grid.form("euler", share)) for share in (3 / 4, 5 / 4)]
    told = f"{spread(here)} % at N, {spread(beside[0])} and {spread(beside[1])} % beside it"
    return told, all_of(*(better(here, other, paired=True) for other in beside))


def _harmonics(grid: Grid) -> Told:
    told, parts = [], []
    for share, beside in HARMONICS.items():
        here = grid.accuracies("euler", grid.form("euler", share))
        means = np.mean([grid.accuracies("euler", grid.form("euler", s)) for s in beside], axis=0).tolist()
        told.append(f"{spread(here)} % at {share:g} N, {spread(means)} % beside it")
        parts.append(better(here, means, paired=True))
    return "; ".join(told), all_of(*parts)


def _depth(grid: Grid, net: str, again: bool) -> Told:
    mine, its = grid.worst("rk4", again), grid.worst(net, again)
    return f"at most {spread(its)} points lost, RK4 {spread(mine)}", better(its, mine, paired=True)


def _half(grid: Grid) -> Told:
    half = grid.trained("resnet") // 2
    mine = grid.lost("rk4", grid.form("rk4", 1 / 2), again=True)
    short = [grid.best_short(seed, half)["recalibrated"]["accuracy"] for seed in grid.seeds]
    its = differences(grid.accuracies("resnet", grid.form("resnet")), short)
    return f"{spread(mine)} points lost, the ResNet {spread(its)}", better(its, mine, paired=True)


def _converse(grid: Grid, again: bool) -> Told:
    theirs = grid.lost("euler", grid.form("euler", 1, "rk4"), again)
    mine = grid.lost("rk4", grid.form("rk4", 1, "euler"), again)
    return f"{spread(theirs)} against {spread(mine)} points lost", better(theirs, mine, paired=True)


def _as_good(grid: Grid, net: str, form: str, other: str, margin: float) -> Told:
    mine, its = grid.accuracies(net, form), grid.accuracies(other, grid.form(other))
    return f"{spread(mine)} against {spread(its)} %", no_worse(mine, its, margin, paired=True)


_RULES: dict[str, Callable[[Grid], Told]] = {
    "to euler": lambda g: _instances(g, [g.form("rk4", 1, "euler")], ONE_POINT),
    "third": lambda g: _instances(g, [g.form("rk4", 11 / 32, "rk4_38")], ONE_POINT),
    "fifth": lambda g: _instances(g, [g.form("rk4", 6 / 32, "rk4_38")], THREE_POINTS),
    "flat": lambda g: _instances(g, [g.form("rk4", share) for share in FLAT], ONE_POINT),
    "time": _time,
    "dip": _dip,
    "harmonics": _harmonics,
    "depth euler": lambda g: _depth(g, "euler", False),
    "depth resnet": lambda g: _depth(g, "resnet", False),
    "depth euler, recalibrated": lambda g: _depth(g, "euler", True),
    "half resnet": _half,
    "converse": lambda g: _converse(g, False),
    "converse, recalibrated": lambda g: _converse(g, True),
    "as a resnet": lambda g: _as_good(g, "rk4", g.form("rk4", 1, "euler"), "resnet", AS_GOOD),
    "euler as a resnet": lambda g: _as_good(g, "euler", g.form("euler"), "resnet", AS_GOOD),
    "rk4 as euler": lambda g: _as_good(g, "rk4", g.form("rk4"), "euler", ONE_POINT),
}
