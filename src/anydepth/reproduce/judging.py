"""Verdicts from numbers that were measured once per seed."""

from collections.abc import Sequence
from math import sqrt

import numpy as np

from anydepth.reproduce.wording import differences, mean_and_range, points, spread

__all__ = ["RULE", "differences", "is_above", "mean_and_range", "points", "spread"]

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
