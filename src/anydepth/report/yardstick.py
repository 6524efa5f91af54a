"""How a metric is read: which way is better, and how much worse still counts as close."""

from dataclasses import dataclass
from math import inf, isfinite

PERCENT = frozenset({"accuracy"})
"""Metrics in per cent, of which more is better; of all others, such as rmse, less is better."""


@dataclass(frozen=True)
class Yardstick:
    """Close is within 1 point for a metric in per cent, within 10 % of the reference for any other."""

    metric: str
    base: str = "as trained"
    """What the reference is called."""

    @property
    def is_percent(self) -> bool:
        return self.metric in PERCENT

    @property
    def margin(self) -> str:
        return self.margins(1)

    def margins(self, count: float) -> str:
        """So many margins in words."""
        if not self.is_percent:
            return f"{10 * count:g} %"
        return f"{count:g} point" + ("" if count == 1 else "s")

    def axis(self, part: str = "") -> str:
        """What an axis or a table is called; a part of the data may be named."""
        return f"{part} {self.metric}".strip() + (" (%)" if self.is_percent else " (lower is better)")

    def lost(self, value: float | None, reference: float) -> float:
        """How much worse than the reference, in margins; infinite for what is not finite."""
        if value is None or not isfinite(value):
            return inf
        if self.is_percent:
            return reference - value
        if reference == 0:
            return 0.0 if value == 0 else inf
        return 10 * (value / reference - 1)

    def is_close(self, value: float | None, reference: float) -> bool:
        return self.lost(value, reference) <= 1

    def border(self, reference: float) -> float:
        """The worst value that is close."""
        return reference - 1 if self.is_percent else 1.1 * reference

    def number(self, value: float | None) -> str:
        """A value without its unit."""
        if value is None or not isfinite(value):
            return "not finite"
        return f"{value:.2f}" if self.is_percent else f"{value:.3g}"

    def text(self, value: float | None) -> str:
        shown = self.number(value)
        return f"{shown} %" if self.is_percent and shown != "not finite" else shown
