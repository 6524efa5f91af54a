"""Figures of several seeds in words, for verdicts and tables."""

from collections.abc import Sequence

import numpy as np


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Mean, lowest and highest."""
    mean, low, high = (f"{value:.{digits}f}" for value in (np.mean(values), min(values), max(values)))
    return mean if low == high else f"{mean} ({low} to {high})"


def differences(a: Sequence[float], b: Sequence[float]) -> list[float]:
    """a - b, seed by seed."""
    return [x - y for x, y in zip(a, b, strict=True)]


def mean_and_range(values: Sequence[float | None]) -> tuple[float, float, float]:
    """Mean, lowest and highest as numbers; an accuracy that could not be had counts as 0."""
    numbers = [value or 0.0 for value in values]
    return float(np.mean(numbers)), min(numbers), max(numbers)


def points(values: Sequence[float]) -> str:
    """One number, or from the lowest to the highest."""
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return low if low == high else f"{low} to {high}"
