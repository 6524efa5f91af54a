"""Numbers over seeds, for tables and verdicts."""

from collections.abc import Sequence

import numpy as np


def spread(values: Sequence[float | None]) -> tuple[float, float, float]:
    """Mean, lowest and highest; an accuracy that could not be had counts as 0."""
    numbers = [value or 0.0 for value in values]
    return float(np.mean(numbers)), min(numbers), max(numbers)


def points(values: Sequence[float]) -> str:
    """One number, or from the lowest to the highest."""
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return low if low == high else f"{low} to {high}"
