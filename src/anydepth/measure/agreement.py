"""A share that was counted, and how well the count determines it."""

from math import sqrt

Z95 = 1.959963984540054
"""Of the standard normal distribution, 95 % lie within this distance of the middle."""


def wilson(successes: int, count: int, z: float = Z95) -> tuple[float, float]:
    """Wilson's interval for the share of successes, from 0 to 1; without any count it is all of that.

    The shares p for which the count lies within z standard deviations, sqrt(p (1 - p) / count), of its mean.
    """
    if count <= 0:
        return 0.0, 1.0
    share, weight = successes / count, z * z / count
    middle = (share + weight / 2) / (1 + weight)
    half = z * sqrt(share * (1 - share) / count + weight / (4 * count)) / (1 + weight)
    low = 0.0 if successes == 0 else max(0.0, middle - half)
    high = 1.0 if successes == count else min(1.0, middle + half)
    return low, high
