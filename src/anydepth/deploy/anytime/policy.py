"""When to stop: thresholds chosen on calibration data so that the drop against the finest form is bounded.

An example counts as *lost* where the finest form is right and the answer given is wrong (without labels: where the two
differ). The share of lost examples is at least the drop in accuracy. Learn-then-test (Angelopoulos et al. 2021) with
fixed-sequence testing: one part of the calibration examples fits how sure each form is and chooses the forms; the
other part tests thresholds from the most careful on, each by the exact binomial test of "the share lost is above
max_drop", and stops at the first that is not rejected. So, with probability at least `confidence` over calibration
examples that are drawn like those to come, the share lost is at most max_drop. This holds for every number of examples,
whether or not the risk falls with the threshold, and whether or not the fitted risks are right.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil, inf, log

import torch
from scipy.special import bdtr
from torch import Tensor

from anydepth.deploy.anytime.sureness import Largest, Score, fitted
from anydepth.errors import ConfigError, DataError
from anydepth.measure.answers import scores

FIT_SHARE = 1 / 3
"""Of the calibration examples, those that the risks are fitted on; the others test."""
CONFIDENCE = 0.95
LEAST = 1e-6
"""Bounds and confidences keep so far from the ends, where a test would need more examples than there are."""
MOST_COARSE = 2
"""Forms before the finest."""
_THRESHOLDS = 200
_AIM = 0.6
"""While forms are chosen, lost examples may be this share of the bound, since the test needs room."""


@dataclass(frozen=True)
class Policy:
    """Which forms are asked in turn, how sure each is, and the risk at which an answer is taken."""

    forms: tuple[int, ...]
    """Places among the forms that were given; the last is the finest."""
    scores: tuple[Score, ...]
    """One for every form but the last."""
    threshold: float
    """An answer is taken where its risk is at most this; -inf: only the finest form answers."""

    def sure(self, place: int, now: Tensor, before: Tensor | None) -> Tensor:
        """Which examples stop at a form."""
        return self.scores[place].risk(now, before) <= self.threshold

    def stops(self, outputs: Sequence[Tensor]) -> Tensor:
        """For every example the place in `forms` where it stops, from the outputs of all forms that were given."""
        stop = torch.full((len(outputs[0]),), len(self.forms) - 1)
        for place in reversed(range(len(self.scores))):
            before = outputs[self.forms[place - 1]] if place else None
            stop[self.sure(place, outputs[self.forms[place]], before)] = place
        if self.threshold == -inf:
            stop[:] = len(self.forms) - 1
        return stop

    def answers(self, outputs: Sequence[Tensor]) -> Tensor:
        stop = self.stops(outputs)
        stacked = torch.stack([outputs[form] for form in self.forms])
        return stacked[stop, torch.arange(len(stop))]

    def evaluations(self, outputs: Sequence[Tensor], costs: Sequence[float]) -> Tensor:
        """What every example costs, all its passes added up."""
        used = [float(costs[form]) for form in self.forms]
        if self.threshold == -inf:
            used = [0.0] * (len(used) - 1) + used[-1:]
        return torch.tensor(used, dtype=torch.float64).cumsum(0)[self.stops(outputs)]


@dataclass(frozen=True)
class Calibration:
    """A policy, and what was found when it was chosen."""

    policy: Policy
    max_drop: float
    """Points."""
    confidence: float
    tested: int
    """Examples of the test."""
    lost: int
    """Of these at the chosen threshold."""
    has_labels: bool

    @property
    def guarantee(self) -> str:
        lost = "that the finest form answers right and this net wrong"
        other = "answered otherwise than by the finest form"
        return (
            f"with probability {self.confidence:g} over calibration examples drawn like those to come, the share of "
            f"examples {lost if self.has_labels else other}, and with it the drop in accuracy, is at most "
            f"{self.max_drop:g} points (exact binomial test on {self.tested:,} examples, {self.lost} lost)"
        )


def lost_of(answers: Tensor, finest: Tensor, labels: Tensor | None) -> Tensor:
    """Where the finest form is right and an answer wrong; without labels, where they differ."""
    given, best = scores(answers).argmax(-1), scores(finest).argmax(-1)
    return given != best if labels is None else (best == labels) & (given != labels)


def needed(max_drop: float, confidence: float) -> int:
    """The fewest examples of a test that can show a bound at all: none of them is lost."""
    return ceil(log(1 - confidence) / log(1 - max_drop / 100))


def least_examples(max_drop: float, confidence: float) -> int:
    """The fewest calibration examples whose test part is as large as that."""
    return ceil(needed(max_drop, confidence) / (1 - FIT_SHARE))


def calibrated(
    outputs: Sequence[Tensor],
    costs: Sequence[float],
    labels: Tensor | None,
    max_drop: float,
    confidence: float = CONFIDENCE,
    is_given: bool = False,
    plain: bool = False,
    seed: int = 0,
) -> Calibration:
    """A policy over forms, the cheapest first and the finest last, from their outputs on calibration examples.

    Args:
        is_given: use all forms in turn; by default the at most two coarse ones that promise the lowest cost.
        plain: stop by the largest probability instead of fitted risks.
    """
    check_bound(max_drop, confidence)
    count = len(outputs[0])
    fit, test = _parts(count, seed)
    if len(test) < needed(max_drop, confidence):
        least = least_examples(max_drop, confidence)
        raise DataError(
            f"{count:,} calibration examples cannot show a drop of at most {max_drop:g} points with confidence "
            f"{confidence:g}; give at least {least:,} examples, a larger max_drop or a lower confidence"
        )
    mine, its = ([out[part] for out in outputs] for part in (fit, test))
    truth = [None if labels is None else labels[part] for part in (fit, test)]
    policy, grid = _chosen(mine, costs, truth[0], max_drop, is_given, plain)
    threshold, lost = _tested(policy, grid, its, truth[1], max_drop, confidence)
    best = Policy(policy.forms, policy.scores, threshold)
    return Calibration(best, max_drop, confidence, len(test), lost, labels is not None)


def check_bound(max_drop: float, confidence: float) -> None:
    if not LEAST <= max_drop <= 100 - LEAST:
        raise ConfigError(f"max_drop must be points above 0 and below 100 (by at least {LEAST:g}), got {max_drop!r}")
    if not LEAST <= confidence <= 1 - LEAST:
        raise ConfigError(f"confidence must be a share between 0 and 1 (by at least {LEAST:g}), got {confidence!r}")


def _parts(count: int, seed: int) -> tuple[Tensor, Tensor]:
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    cut = round(FIT_SHARE * count)
    return order[:cut], order[cut:]


def _chosen(
    outputs: Sequence[Tensor],
    costs: Sequence[float],
    labels: Tensor | None,
    max_drop: float,
    is_given: bool,
    plain: bool,
) -> tuple[Policy, list[float]]:
    """The ladder that promises the lowest cost on these examples, and thresholds to be tested."""
    last = len(outputs) - 1
    lengths = (last,) if is_given else range(1, min(MOST_COARSE, last) + 1)
    ladders = [(*coarse, last) for n in lengths for coarse in combinations(range(last), n)]
    known: dict[tuple[int | None, int], Score] = {}
    best: tuple[float, Policy, list[float]] | None = None
    for forms in ladders or [(last,)]:
        pairs = [(forms[i - 1] if i else None, form) for i, form in enumerate(forms[:-1])]
        for before, form in pairs:
            if (before, form) not in known:
                known[before, form] = _score(outputs, before, form, labels, plain)
        ladder = Policy(forms, tuple(known[pair] for pair in pairs), -inf)
        grid = _grid(ladder, outputs)
        cost = _promised(ladder, grid, outputs, costs, labels, max_drop)
        if best is None or cost < best[0]:
            best = cost, ladder, grid
    assert best is not None
    return best[1], best[2]


def _score(outputs: Sequence[Tensor], before: int | None, form: int, labels: Tensor | None, plain: bool) -> Score:
    if plain:
        return Largest()
    earlier = None if before is None else outputs[before]
    return fitted(outputs[form], earlier, lost_of(outputs[form], outputs[-1], labels))


def _risks(ladder: Policy, outputs: Sequence[Tensor]) -> list[Tensor]:
    """Of every coarse form of a ladder."""
    before = [None, *(outputs[form] for form in ladder.forms)]
    pairs = zip(ladder.scores, ladder.forms, before, strict=False)
    return [score.risk(outputs[form], earlier) for score, form, earlier in pairs]


def _grid(ladder: Policy, outputs: Sequence[Tensor]) -> list[float]:
    """Thresholds from the most careful on."""
    risks = _risks(ladder, outputs)
    if not risks:
        return []
    places = torch.linspace(0, 1, _THRESHOLDS, dtype=torch.float64)
    return torch.cat(risks).quantile(places).unique().tolist()


def _at(ladder: Policy, risks: Sequence[Tensor], threshold: float, outputs: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Where examples stop at a threshold, and the class that each is given."""
    stop = torch.full((len(outputs[0]),), len(ladder.forms) - 1)
    for place in reversed(range(len(risks))):
        stop[risks[place] <= threshold] = place
    picks = torch.stack([scores(outputs[form]).argmax(-1) for form in ladder.forms])
    return stop, picks[stop, torch.arange(len(stop))]


def _lost(given: Tensor, best: Tensor, labels: Tensor | None) -> int:
    return int(((given != best) if labels is None else (best == labels) & (given != labels)).sum())


def _promised(
    ladder: Policy,
    grid: Sequence[float],
    outputs: Sequence[Tensor],
    costs: Sequence[float],
    labels: Tensor | None,
    max_drop: float,
) -> float:
    """The lowest mean cost with few enough lost, on the examples that the risks were fitted on."""
    risks, best = _risks(ladder, outputs), scores(outputs[-1]).argmax(-1)
    used = torch.tensor([float(costs[form]) for form in ladder.forms], dtype=torch.float64).cumsum(0)
    found, room = float(costs[-1]), _AIM * max_drop / 100 * len(best)
    for threshold in grid:
        stop, given = _at(ladder, risks, threshold, outputs)
        if _lost(given, best, labels) > room:
            break
        found = min(found, float(used[stop].mean()))
    return found


def _tested(
    ladder: Policy,
    grid: Sequence[float],
    outputs: Sequence[Tensor],
    labels: Tensor | None,
    max_drop: float,
    confidence: float,
) -> tuple[float, int]:
    """The last threshold in turn for which "more than max_drop is lost" is rejected, and how many were lost there."""
    risks, best = _risks(ladder, outputs), scores(outputs[-1]).argmax(-1)
    chosen, lost = -inf, 0
    for threshold in grid:
        found = _lost(_at(ladder, risks, threshold, outputs)[1], best, labels)
        if bdtr(found, len(best), max_drop / 100) > 1 - confidence:
            break
        chosen, lost = threshold, found
    return chosen, lost
