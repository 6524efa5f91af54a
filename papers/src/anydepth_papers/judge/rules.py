"""The rules by which claims are judged: the only place where a verdict is made from numbers.

Every claim has one kind, chosen with its margin before the study runs:

- *better*: a is above b. Holds where the 95 % interval of the difference over seeds is above 0, does not hold where it
  is below 0, else undecided.
- *no worse*: a is at most m below b. Holds where the one-sided 95 % lower bound of the difference is above -m, does not
  hold where the one-sided 95 % upper bound is below -m.
- *near*: a value is v. Holds where the 95 % interval is inside [v - m, v + m], does not hold where the two are
  disjoint. m is the spread that the paper prints, or it is stated before the run.
- *proportion*: at least a share q of all nets has a property. Clopper-Pearson's 95 % interval against q.
- *instance*: about one trained net, over test examples, not over seeds. McNemar's exact test, or Tango's interval.
  Where several answers belong to one example (the words of a sentence, or one image seen by several forms of a net),
  they are one group, and Student's t looks at differences of groups.
- *computed*: a closed form, a count, an order, or a figure of just these nets, which the claim then says: there is no
  interval, a stated tolerance decides.

Intervals over seeds, three at least, are Student's t: paired where runs of one seed share their initial weights or the
order of their data, else Welch's. Where seeds are bimodal (some nets fail), medians are compared by Wilcoxon's exact
signed-rank test and failures by Fisher's. Claims of one paper are corrected together by Holm's method: `corrected`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import comb, inf, isfinite, sqrt
from typing import Any

import numpy as np
from scipy.special import bdtr, betaincinv, stdtr, stdtrit

from anydepth.measure.paired import Answers

LEVEL = 0.05
FEWEST = 3
"""Seeds that a claim over seeds needs: two can agree by chance."""
RESOLUTION = 0.01
"""Of an accuracy in per cent on 10,000 test examples."""


@dataclass(frozen=True)
class Judgement:
    """What a rule says of a claim."""

    kind: str
    holds: bool | None
    """None: undecided, or not run."""
    text: str
    """The figures that the rule looked at."""
    p: float | None = None
    """How likely evidence this strong for the decision is if the decision is wrong; None: no chance is involved."""
    is_run: bool = True

    @property
    def word(self) -> str:
        if not self.is_run:
            return "not run"
        return {True: "holds", False: "does not hold", None: "undecided"}[self.holds]

    def describe(self) -> dict[str, Any]:
        return {"kind": self.kind, "verdict": self.word, "figures": self.text, "p": self.p}


def better(a: Sequence[float], b: Sequence[float], paired: bool, unit: str = "points", resolution: float = RESOLUTION):
    """Whether a is above b, over seeds.

    Args:
        paired: the runs of one seed share their initial weights or the order of their data.
        resolution: the smallest difference that the measurement can show; the standard deviation counts as at least
            what rounding to it gives, so that a few equal differences are not taken for certainty.
    """
    found = _difference(a, b, paired, resolution)
    if found is None:
        return _too_few("better", len(a))
    p = 2 * min(found.below(0), found.above(0))
    holds = None if p > LEVEL else found.mean > 0
    return Judgement("better", holds, _told(found, unit), p)


def no_worse(
    a: Sequence[float],
    b: Sequence[float],
    margin: float,
    paired: bool,
    unit: str = "points",
    resolution: float = RESOLUTION,
) -> Judgement:
    """Whether a is at most `margin` below b, over seeds."""
    found = _difference(a, b, paired, resolution)
    kind = f"no worse than {margin:g}"
    if found is None:
        return _too_few(kind, len(a))
    return _one_sided(kind, found.below(-margin), found.above(-margin), _told(found, unit, 1 - 2 * LEVEL))


def near(
    values: Sequence[float], value: float, margin: float, unit: str = "%", resolution: float = RESOLUTION
) -> Judgement:
    """Whether the mean over seeds is within `margin` of `value`."""
    found = _mean(values, resolution)
    kind = f"within {margin:g} of {value:g}"
    if found is None:
        return _too_few(kind, len(values))
    low, high = found.interval()
    p_holds = 2 * max(found.below(value - margin), found.above(value + margin))
    p_not = 2 * min(found.above(value - margin), found.below(value + margin))
    holds = True if value - margin <= low and high <= value + margin else None
    holds = False if high < value - margin or low > value + margin else holds
    return Judgement(kind, holds, _told(found, unit), min(p_holds, p_not, 1.0))


def proportion(successes: int, total: int, at_least: float) -> Judgement:
    """Whether at least a share of all nets of this kind has a property, by Clopper and Pearson."""
    kind = f"proportion at least {at_least:g}"
    if not total:
        return _too_few(kind, 0)
    low, high = clopper_pearson(successes, total)
    p_holds = 2 * (1 - float(bdtr(successes - 1, total, at_least))) if successes else 1.0
    p_not = 2 * float(bdtr(successes, total, at_least))
    holds = True if low >= at_least else False if high < at_least else None
    text = f"{successes} of {total}; 95 % interval {100 * low:.0f} to {100 * high:.0f} %"
    return Judgement(kind, holds, text, min(p_holds, p_not, 1.0))


def clopper_pearson(successes: int, total: int, level: float = LEVEL) -> tuple[float, float]:
    """The exact interval of a proportion."""
    low = float(betaincinv(successes, total - successes + 1, level / 2)) if successes else 0.0
    high = float(betaincinv(successes + 1, total - successes, 1 - level / 2)) if successes < total else 1.0
    return low, high


def instance_better(right: Sequence[bool], other: Sequence[bool]) -> Judgement:
    """Whether one trained net answers more test examples correctly than another does: McNemar's exact test."""
    gained, lost, count = _discordant(right, other)
    p = min(1.0, 2 * float(bdtr(min(gained, lost), gained + lost, 0.5))) if gained + lost else 1.0
    holds = None if p > LEVEL else gained > lost
    return Judgement("instance, better", holds, _told_pairs(gained, lost, count), p)


def instance_no_worse(right: Sequence[bool], other: Sequence[bool], margin: float) -> Judgement:
    """Whether a net, or another form of it, is at most `margin` points below another on these test examples' kind."""
    gained, lost, count = _discordant(right, other)
    here, there = Answers(count, lost, gained), Answers(count, gained, lost)
    most, least = here.upper(1 - LEVEL), -there.upper(1 - LEVEL)
    holds = True if most < margin else False if least > margin else None
    p = _p_of_bound(here, margin) if holds is not False else _p_of_bound(there, -margin)
    text = f"{_told_pairs(gained, lost, count)}; loses {least:.2f} to {most:.2f} points"
    return Judgement(f"instance, no worse than {margin:g}", holds, text, p)


def instance_groups_better(right: Sequence[float], other: Sequence[float], sizes: Sequence[float]) -> Judgement:
    """Whether a net answers more correctly than another, where several answers belong to one example.

    Args:
        right, other: correct answers to each example.
        sizes: all answers to each example.
    """
    found, kind = _groups(right, other, sizes), "instance in groups, better"
    if found is None:
        return Judgement(kind, None, f"{len(sizes)} examples: too few for an interval", 1.0)
    p = min(1.0, 2 * min(found.below(0), found.above(0)))
    return Judgement(kind, None if p > LEVEL else found.mean > 0, _told_groups(found, sizes), p)


def instance_groups_no_worse(
    right: Sequence[float], other: Sequence[float], sizes: Sequence[float], margin: float
) -> Judgement:
    """Whether a net is at most `margin` points below another, where several answers belong to one example."""
    found, kind = _groups(right, other, sizes), f"instance in groups, no worse than {margin:g}"
    if found is None:
        return Judgement(kind, None, f"{len(sizes)} examples: too few for an interval", 1.0)
    told = _told_groups(found, sizes, 1 - 2 * LEVEL)
    return _one_sided(kind, found.below(-margin), found.above(-margin), told)


def better_median(a: Sequence[float], b: Sequence[float], unit: str = "points") -> Judgement:
    """Whether a is above b where seeds are bimodal: Wilcoxon's exact signed-rank test of paired differences."""
    differences = np.subtract(a, b)
    if not np.isfinite(differences).all() or not differences.size:
        return _too_few("better in the median", int(np.isfinite(differences).sum()))
    moved = differences[differences != 0]
    p = _signed_rank(moved) if len(moved) else 1.0
    median = float(np.median(differences))
    text = f"median difference {median:+.2f} {unit}, {len(moved[moved > 0])} of {len(differences)} seeds above"
    return Judgement("better in the median", None if p > LEVEL else median > 0, text, p)


def no_worse_median(a: Sequence[float], b: Sequence[float], margin: float, unit: str = "points") -> Judgement:
    """Whether a is at most `margin` below b where seeds are bimodal: the same test, one-sided."""
    differences = np.subtract(a, b)
    kind, shifted = f"no worse in the median than {margin:g}", differences + margin
    if not np.isfinite(shifted).all() or not shifted.size:
        return _too_few(kind, len(shifted))
    p_holds, p_not = (_signed_rank_above(sign * shifted[shifted != 0]) for sign in (1, -1))
    text = f"median difference {float(np.median(differences)):+.2f} {unit} over {len(differences)} seeds, paired"
    return _one_sided(kind, p_holds, p_not, text)


def fewer_failures(failed: int, total: int, failed_other: int, total_other: int) -> Judgement:
    """Whether nets of one kind fail less often than those of another: Fisher's exact test."""
    p = _fisher(failed, total, failed_other, total_other)
    holds = None if p > LEVEL else failed * total_other < failed_other * total
    return Judgement("fewer failures", holds, f"{failed} of {total} fail, {failed_other} of {total_other}", p)


def computed(is_so: bool, text: str) -> Judgement:
    """A closed form, a count, an order, or a figure of just these nets: a stated tolerance decided."""
    return Judgement("computed", is_so, text)


def undecided(why: str) -> Judgement:
    """Run, but not able to decide."""
    return Judgement("undecided", None, why)


def not_run(why: str) -> Judgement:
    return Judgement("not run", None, why, is_run=False)


def all_of(*judgements: Judgement) -> Judgement:
    """A claim with several parts: holds where all hold, does not where one does not."""
    text = "; ".join(f"{judgement.text} ({judgement.word})" for judgement in judgements)
    kind = ", and ".join(dict.fromkeys(judgement.kind for judgement in judgements))
    if not all(judgement.is_run for judgement in judgements):
        return Judgement(kind, None, text, is_run=False)
    against = [j for j in judgements if j.holds is False]
    if against:
        chances = [j.p for j in against if j.p is not None]
        p = min(1.0, len(judgements) * min(chances)) if len(chances) == len(against) else None
        return Judgement(kind, False, text, p)
    holds = True if all(judgement.holds for judgement in judgements) else None
    chances = [j.p for j in judgements if j.p is not None]
    return Judgement(kind, holds, text, max(chances) if chances else None)


def corrected(judgements: Sequence[Judgement]) -> list[Judgement]:
    """Holm's correction of the judgements of one paper: those it cannot keep become undecided.

    Judgements without a p, where no chance is involved, are kept and do not count.
    """
    order = sorted((j.p, i) for i, j in enumerate(judgements) if j.p is not None and j.is_run)
    kept, is_open = list(judgements), True
    for rank, (p, index) in enumerate(order):
        is_open = is_open and p * (len(order) - rank) <= LEVEL
        judgement = judgements[index]
        if not is_open and judgement.holds is not None:
            text = f"{judgement.text} ({judgement.word} by itself, not after the correction for {len(order)} claims)"
            kept[index] = replace(judgement, holds=None, text=text)
    return kept


@dataclass(frozen=True)
class _Estimate:
    """A mean with its standard error and degrees of freedom."""

    mean: float
    error: float
    freedom: float
    count: int
    is_paired: bool | None = None

    def below(self, value: float) -> float:
        """Chance to see a mean this high if the true one is at most `value`."""
        return self._tail(value - self.mean)

    def above(self, value: float) -> float:
        """Chance to see a mean this low if the true one is at least `value`."""
        return self._tail(self.mean - value)

    def _tail(self, distance: float) -> float:
        if self.error == 0:
            return 0.0 if distance < 0 else 1.0
        return float(stdtr(self.freedom, distance / self.error))

    def interval(self, confidence: float = 1 - LEVEL) -> tuple[float, float]:
        half = float(stdtrit(self.freedom, (1 + confidence) / 2)) * self.error
        return self.mean - half, self.mean + half


def _mean(values: Sequence[float], resolution: float, is_paired: bool | None = None) -> _Estimate | None:
    if len(values) < FEWEST or not all(map(isfinite, values)):
        return None
    spread = max(float(np.std(values, ddof=1)), resolution / sqrt(12))
    return _Estimate(float(np.mean(values)), spread / sqrt(len(values)), len(values) - 1, len(values), is_paired)


def _difference(a: Sequence[float], b: Sequence[float], paired: bool, resolution: float) -> _Estimate | None:
    if paired:
        return _mean([x - y for x, y in zip(a, b, strict=True)], resolution, True)
    mine, other = _mean(a, resolution), _mean(b, resolution)
    if mine is None or other is None:
        return None
    squares = mine.error**2, other.error**2
    weights = squares[0] ** 2 / mine.freedom + squares[1] ** 2 / other.freedom
    freedom = sum(squares) ** 2 / weights if weights else inf
    return _Estimate(mine.mean - other.mean, sqrt(sum(squares)), freedom, len(a), False)


def _one_sided(kind: str, p_holds: float, p_not: float, text: str) -> Judgement:
    holds = True if p_holds <= LEVEL else False if p_not <= LEVEL else None
    return Judgement(kind, holds, text, min(p_holds, p_not))


def _too_few(kind: str, count: int) -> Judgement:
    return Judgement(kind, None, f"{count} seeds that can be counted: too few for an interval", 1.0)


def _told(found: _Estimate, unit: str, confidence: float = 1 - LEVEL) -> str:
    low, high = found.interval(confidence)
    how = "" if found.is_paired is None else ", paired" if found.is_paired else ", Welch"
    sign = "" if found.is_paired is None else "+"
    numbers = f"{found.mean:{sign}.2f} {unit} ({100 * confidence:.0f} % interval {low:.2f} to {high:.2f}"
    return f"{numbers}; {found.count} seeds{how})"


def _discordant(right: Sequence[bool], other: Sequence[bool]) -> tuple[int, int, int]:
    """Examples that only the first answers correctly, that only the other does, and all."""
    mine, its = np.asarray(right, bool), np.asarray(other, bool)
    if mine.shape != its.shape:
        raise ValueError(f"answers to {mine.shape} and to {its.shape} examples cannot be paired")
    return int((mine & ~its).sum()), int((its & ~mine).sum()), mine.size


def _told_pairs(gained: int, lost: int, count: int) -> str:
    points = 100 * (gained - lost) / max(count, 1)
    return f"{points:+.2f} points on {count:,} examples ({gained} gained, {lost} lost)"


def _groups(right: Sequence[float], other: Sequence[float], sizes: Sequence[float]) -> _Estimate | None:
    """Points between two nets over all answers: a ratio of sums over the groups, with its standard error."""
    gained, size = np.subtract(right, other), np.asarray(sizes, float)
    if gained.shape != size.shape:
        raise ValueError(f"answers to {gained.shape} examples have {size.shape} sizes")
    n, total = len(size), float(size.sum())
    if n < 2 or not total:
        return None
    ratio = float(gained.sum()) / total
    error = sqrt(n / (n - 1) * float(np.square(gained - ratio * size).sum())) / total
    return _Estimate(100 * ratio, max(100 * error, 100 / (sqrt(12) * total)), n - 1, n)


def _told_groups(found: _Estimate, sizes: Sequence[float], confidence: float = 1 - LEVEL) -> str:
    low, high = found.interval(confidence)
    answers = f"{float(np.sum(sizes)):,.0f} answers to {found.count:,} examples"
    return f"{found.mean:+.2f} points on {answers} ({100 * confidence:.0f} % interval {low:.2f} to {high:.2f})"


def _p_of_bound(answers: Answers, margin: float) -> float:
    """The smallest level at which the upper bound of the drop is below the margin."""
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if answers.upper(1 - middle) < margin else (middle, high)
    return high


def _signed_rank(differences: "np.ndarray") -> float:
    """Two-sided p of Wilcoxon's signed-rank test."""
    seen, sums = _rank_sums(differences)
    middle = sums.mean()
    return float(np.mean(np.abs(sums - middle) >= abs(seen - middle) - 1e-9))


def _signed_rank_above(differences: "np.ndarray") -> float:
    """The chance of differences as high as these, if the median is 0."""
    seen, sums = _rank_sums(differences)
    return float(np.mean(sums >= seen - 1e-9))


def _rank_sums(differences: "np.ndarray") -> "tuple[float, np.ndarray]":
    """The sum of the ranks of positive differences, and of every choice of signs; with ties, for at most 16."""
    sizes = np.abs(differences)
    ranks = np.array([(sizes < s).sum() + ((sizes == s).sum() + 1) / 2 for s in sizes])
    signs = (np.arange(2 ** len(ranks))[:, None] >> np.arange(len(ranks))) & 1
    return float(ranks[differences > 0].sum()), signs @ ranks


def _fisher(failed: int, total: int, failed_other: int, total_other: int) -> float:
    """Two-sided p of Fisher's exact test."""
    both, all_of_them = failed + failed_other, total + total_other

    def chance(k: int) -> float:
        return comb(total, k) * comb(total_other, both - k) / comb(all_of_them, both)

    possible = range(max(0, both - total_other), min(total, both) + 1)
    return min(1.0, sum(c for c in map(chance, possible) if c <= chance(failed) * (1 + 1e-9)))
