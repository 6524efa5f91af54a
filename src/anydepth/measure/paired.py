"""A form beside its source on the same examples: how much worse it may really be. Numbers, no torch."""

from dataclasses import dataclass
from math import exp, inf, isfinite, sqrt
from statistics import NormalDist

from scipy.special import stdtrit

_HALVINGS = 60
"""Of an interval of length 2 at most: less than the last bit is left."""
_LARGEST = 700.0
"""Logarithm of a number that is large enough, and finite."""


@dataclass(frozen=True)
class Answers:
    """Of right and wrong answers, only examples that exactly one of the two answers correctly carry information.

    Answers to one example, such as the tags of a sentence, count as one together.
    """

    count: int
    """Examples."""
    lost: float
    """How many the source answers correctly and the form does not."""
    gained: float
    """How many the form answers correctly and the source does not."""

    def upper(self, confidence: float) -> float:
        """Points that the form is below the source at most, so confident; one-sided.

        The largest d for which lost - gained lies within z standard deviations of count d (Tango 1998, Statistics in
        Medicine 17, 891). With nothing lost and nothing gained that is z^2 / (count + z^2).
        """
        low, high = max(-1.0, (self.lost - self.gained) / max(self.count, 1)), 1.0
        z = NormalDist().inv_cdf(confidence)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if self._is_possible(middle, z) else (low, middle)
        return 100 * high

    def _is_possible(self, drop: float, z: float) -> bool:
        """Whether that few were lost within z deviations; gains are as likely as that drop lets them be."""
        n, b, c = self.count, self.lost, self.gained
        middle = (2 * n - b + c) * drop - b - c
        root = sqrt(max(0.0, middle**2 + 8 * n * c * drop * (1 - drop)))
        gains = (root - middle) / (4 * n) if n else 0.0
        variance = n * (2 * gains + drop * (1 - drop))
        return n * drop - (b - c) <= z * sqrt(max(0.0, variance))


@dataclass(frozen=True)
class Errors:
    """Squared errors of numbers, summed for every example."""

    count: int
    """Examples."""
    ratio: float
    """The form's to the source's."""
    deviation: float
    """Standard error of the ratio's logarithm."""

    def upper(self, confidence: float) -> float:
        """Per cent that the form's root mean square is above the source's at most, so confident; one-sided.

        By Student's t for the logarithm: an approximation, good where no few examples make most of the error.
        """
        if self.count < 2:
            return inf
        most = float(stdtrit(self.count - 1, confidence)) * self.deviation
        return 100 * (sqrt(self.ratio) * exp(min(most, _LARGEST) / 2) - 1)


Paired = Answers | Errors


def errors_of(source: list[float], form: list[float]) -> Errors | None:
    """From the squared errors of both on every example; None where the source makes none.

    The logarithm of the ratio r of sums has the standard error sqrt(n / (n - 1) sum (form - r source)^2) / sum form.
    """
    n, total = len(source), sum(source)
    if not total:
        return None
    ratio = sum(form) / total
    left = sum((its - ratio * mine) ** 2 for mine, its in zip(source, form, strict=True))
    return Errors(n, ratio, sqrt(left * n / max(n - 1, 1)) / sum(form) if ratio else 0.0)


# Which way a metric is better, and how far below the source a form is

RISING = frozenset({"accuracy", "agreement"})
"""In per cent, of which more is better; of rmse and error, less is better."""


def loss_in(metric: str, value: float | None) -> float:
    """The metric turned so that less is better; infinite where there is none."""
    if value is None or not isfinite(value):
        return inf
    return -value if metric in RISING else value


def drop_of(metric: str, value: float | None, source: float | None) -> float:
    """How much worse than the source: points of accuracy, agreement or error; for rmse, per cent of the source's."""
    if value is None or source is None or not (isfinite(value) and isfinite(source)):
        return inf
    if metric == "rmse":
        return 100 * (value / source - 1) if source else (0.0 if value == source else inf)
    return loss_in(metric, value) - loss_in(metric, source)


CLOSE = {"accuracy": 1.0, "agreement": 1.0, "rmse": 10.0, "error": 10.0}
"""The drop up to which a form counts as close to the source."""


def closeness(metric: str) -> str:
    """That drop in words."""
    return "1 point" if metric in RISING else "10 %"


def shown(metric: str, value: float | None) -> str:
    """A value as people read it."""
    if value is None:
        return "not finite"
    return f"{value:.4g}" if metric == "rmse" else f"{value:.2f} %"
