"""Verdicts from numbers that were measured once per seed."""

from collections.abc import Sequence
from math import sqrt

import numpy as np

RULE = (
    "A comparison is decided where the mean of the differences, paired by seed, is more than two standard errors "
    "away from 0."
)


def is_above(differences: Sequence[float]) -> bool | None:
    """Whether paired differences are above 0: None where they are within two standard errors of it, or too few."""
    if len(differences) < 2:
        return None
    mean = float(np.mean(differences))
    error = float(np.std(differences, ddof=1)) / sqrt(len(differences))
    return mean > 0 if abs(mean) > 2 * error else None


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
