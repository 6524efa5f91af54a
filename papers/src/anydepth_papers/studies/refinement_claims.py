"""Claims about refinement training, and how each is judged (ContinuousNet, sections 4.4 and 5.2)."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from anydepth.recipes import RECIPES
from anydepth_papers.judge.experiment import Claim
from anydepth_papers.judge.rules import Judgement, all_of, better, computed, near, no_worse, not_run, undecided
from anydepth_papers.judge.wording import differences, spread
from anydepth_papers.nets.image_nets import uses_depth

NINTHS = {"refined": (2, 5, 8), "refined late": (5, 7, 8)}
"""When nets are refined, in ninths of the training: the paper's proportions, and ours."""
OVERHEAD = 1.1
"""Time over what the evaluations predict."""
NEARLY = 0.3
"""Points; the width of the range that the paper prints for RK4 (93.40 to 93.70 %)."""
COST = 0.5
"""Points of accuracy that may be lost."""
LATE = 0.35
"""Share of the time that the later schedule may take."""
HARDLY = 0.1
"""Share of the validation loss that a refinement alone may change it by."""
PRINTED = 608 / 1053
"""The paper's minutes with and without refinement."""
ROUNDING = 0.02
SHALLOW, DEEP = "refined 0 times", ("fixed", "refined", "refined late")
"""The net of depth 1 that is trained from scratch, and nets that are to use their depth."""
ABOUT_DEPTH = ("nearly", "cost", "late", "smooth", "control", "tied")
"""Claims that nets which do not use their depth would bear out for nothing."""

CLAIMS = {
    "time": Claim(
        "Refinement training takes less time than fixed depth, over seeds", "C section 5.2", "608 of 1053 minutes: 0.58"
    ),
    "schedule": Claim(
        "The paper's schedule predicts its time: the share of evaluations is 0.58, within 0.02", "C section 5.2", "0.58"
    ),
    "overhead": Claim("It takes at most 1.1 times the time that the evaluations predict, over seeds", "ours"),
    "nearly": Claim(
        "With and without refinement RK4 reaches nearly the same accuracy: within 0.3 points, over seeds",
        "C footnote 6",
        "nearly identical",
    ),
    "cost": Claim("Refinement costs at most 0.5 points of accuracy, over seeds", "C section 5.2", "improves quality"),
    "late": Claim(
        "A later schedule takes at most 0.35 of the time and costs at most 0.5 points, over seeds",
        "ours",
    ),
    "alone": Claim(
        "A refinement alone changes the validation loss by at most 10 %, over seeds", "C sections 4.4, 5.2", "unchanged"
    ),
    "loss": Claim(
        "In the epoch after a refinement the training loss is lower than that of the same net not refined, over seeds",
        "C Fig 7",
        "improves immediately",
    ),
    "accuracy": Claim(
        "After that epoch the validation accuracy is above that of the same net not refined, over seeds",
        "C Fig 7",
        "improves immediately",
    ),
    "end": Claim("At the end each refinement has gained test accuracy: none can be left out, over seeds", "ours"),
    "smooth": Claim(
        "RK4 with refinement gives smoother weights than Euler at fixed depth, over seeds", "C Fig 8", "a picture"
    ),
    "control": Claim("Control: RK4 at fixed depth gives rougher weights than with refinement, over seeds", "ours"),
    "tied": Claim(
        "Control: smoother also than Euler at fixed depth whose weights were all alike at the start, over seeds", "ours"
    ),
    "settings": Claim(
        "Settings tuned on coarse nets carry over to deep ones", "C section 5.2", "hyperparameters unchanged"
    ),
}


class Curves:
    """What was read from the runs, by kind and seed."""

    def __init__(self, found: dict[str, list[dict[str, Any]]]):
        self.found = found

    def values(self, kind: str, what: str) -> list[float]:
        return [one[what] for one in self.found[kind]]

    def costs(self, kind: str) -> tuple[list[float], list[float]]:
        """Time and evaluations, as shares of those at fixed depth."""
        time, work = ([one[what] / f[what] for one, f in self._pairs(kind)] for what in ("seconds", "evaluations"))
        return time, work

    def idle(self) -> list[str]:
        """Nets that are not more than 5 points above a net of depth 1."""
        found = {kind: dict(enumerate(self.values(kind, "accuracy"))) for kind in (SHALLOW, *DEEP)}
        return [kind for kind in DEEP if not uses_depth(found, kind, found[SHALLOW], float)]

    def _pairs(self, kind: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        return list(zip(self.found[kind], self.found["fixed"], strict=True))

    def roughness(self, kind: str) -> list[float]:
        return [one["stages"][-1]["roughness"] for one in self.found[kind]]

    def after(self, kind: str, what: str) -> list[list[float]]:
        """In the epoch that follows each refinement of the refined net, by seed."""
        places = self.found["refined"][0]["refined"]
        return [[one["epochs"][what][at] for at in places] for one in self.found[kind]]

    def unrefined(self, what: str) -> list[list[float]]:
        """The same epochs of the twins that were not refined then, by seed."""
        places = self.found["refined"][0]["refined"]
        twins = [self.found[f"refined {count} times"] for count in range(len(places))]
        return [
            [twin[seed]["epochs"][what][at] for twin, at in zip(twins, places, strict=True)]
            for seed in range(len(self.found["refined"]))
        ]


Told = tuple[str, Judgement]


def judged(curves: Curves, name: str) -> Told:
    """A claim in words and by its rule; one about depth is undecided where a net does not use its depth."""
    told, judgement = _RULES[name](curves)
    if name in ABOUT_DEPTH and (idle := curves.idle()):
        return told, undecided(f"not 5 points above a net of depth 1 trained from scratch: {', '.join(idle)}")
    return told, judgement


def _time(curves: Curves) -> Told:
    time, work = curves.costs("refined")
    told = f"{spread(time)} of the time, {np.mean(work):.3f} of the evaluations"
    return told, better([1.0] * len(time), time, paired=True, unit="of the time saved")


def _schedule(_: Curves) -> Told:
    refine = RECIPES["continuousnet-cifar10"]()
    epochs = refine.training.epochs or 0
    steps = [2 ** sum(epoch >= at for at in refine.refine.at) for epoch in range(epochs)]
    share = sum(steps) / (epochs * max(steps))
    told = f"{share:.3f} of the evaluations, {PRINTED:.3f} of the time"
    return told, computed(abs(share - PRINTED) <= ROUNDING, told)


def _overhead(curves: Curves) -> Told:
    time, work = curves.costs("refined")
    told = f"{spread([t / w for t, w in zip(time, work, strict=True)])} times what the evaluations predict"
    return told, better([OVERHEAD * w for w in work], time, paired=True, unit="of the time of fixed depth")


def _gap(curves: Curves, kind: str) -> list[float]:
    return differences(curves.values(kind, "accuracy"), curves.values("fixed", "accuracy"))


def _nearly(curves: Curves) -> Told:
    gap = _gap(curves, "refined")
    return f"{spread(gap)} points", near(gap, 0.0, NEARLY, unit="points")


def _costs_little(curves: Curves, kind: str) -> Judgement:
    return no_worse(curves.values(kind, "accuracy"), curves.values("fixed", "accuracy"), COST, paired=True)


def _cost(curves: Curves) -> Told:
    return f"{spread(_gap(curves, 'refined'))} points", _costs_little(curves, "refined")


def _late(curves: Curves) -> Told:
    kind = "refined late"
    time, work = curves.costs(kind)
    told = f"{spread(time)} of the time, {np.mean(work):.3f} of the evaluations, {spread(_gap(curves, kind))} points"
    quick = better([LATE] * len(time), time, paired=True, unit="of the time of fixed depth")
    return told, all_of(quick, _costs_little(curves, kind))


def _alone(curves: Curves) -> Told:
    worst = [max(abs(b / a - 1) for a, b in one["losses"]) for one in curves.found["refined"]]
    told = f"by at most {100 * max(worst):.1f} %"
    return told, better([HARDLY] * len(worst), worst, paired=True, unit="of the loss below 0.1", resolution=0.001)


def _after(curves: Curves, what: str, sign: int) -> Told:
    """The mean over the three refinements, seed by seed."""
    mine, its = (np.mean(v, axis=1).tolist() for v in (curves.after("refined", what), curves.unrefined(what)))
    each = np.mean(np.subtract(curves.after("refined", what), curves.unrefined(what)), axis=0)
    told = f"{spread(mine, 3)} against {spread(its, 3)}; by refinement {', '.join(f'{v:+.3f}' for v in each)}"
    first, other = (mine, its) if sign > 0 else (its, mine)
    unit, resolution = ("points", 0.1) if sign > 0 else ("of the loss", 0.001)
    return told, better(first, other, paired=True, unit=unit, resolution=resolution)


def _end(curves: Curves) -> Told:
    count = len(curves.found["refined"][0]["refined"])
    kinds = [*(f"refined {i} times" for i in range(count)), "refined"]
    values = [curves.values(kind, "accuracy") for kind in kinds]
    told = ", ".join(f"{np.mean(v):.2f} %" for v in values) + f" with 0 to {count} refinements"
    return told, all_of(*(better(b, a, paired=True) for a, b in pairwise(values)))


def _rougher(curves: Curves, other: str) -> Told:
    mine, its = curves.roughness("refined"), curves.roughness(other)
    told = f"roughness {spread(mine)} against {spread(its)}"
    return told, better(its, mine, paired=True, unit="of roughness")


def _settings(_: Curves) -> Told:
    why = "needs five learning rates at N = 1 and at N = 8: about an hour for three seeds on one thread"
    return "", not_run(why)


_RULES: dict[str, Callable[[Curves], Told]] = {
    "time": _time,
    "schedule": _schedule,
    "overhead": _overhead,
    "nearly": _nearly,
    "cost": _cost,
    "late": _late,
    "alone": _alone,
    "loss": lambda curves: _after(curves, "train_loss", -1),
    "accuracy": lambda curves: _after(curves, "validation_accuracy", +1),
    "end": _end,
    "smooth": lambda curves: _rougher(curves, "euler"),
    "control": lambda curves: _rougher(curves, "fixed"),
    "tied": lambda curves: _rougher(curves, "euler, tied start"),
    "settings": _settings,
}
