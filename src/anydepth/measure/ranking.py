"""Metrics that forms of a model are ranked by: which way is better, and how far below the source one is."""

from math import inf, isfinite

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
