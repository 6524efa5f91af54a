"""The order at which errors shrink."""

from collections.abc import Sequence
from math import isfinite, log, nan


def observed_order(errors: Sequence[float], factor: float = 2) -> float:
    """p such that errors fall like h^p, from the last two of them; each belongs to a step `factor` times smaller.

    Errors may be distances from the exact solution, or (Richardson) between neighbours: y(h) - y(h/2), y(h/2) - y(h/4),
    ... Not a number where fewer than two are given, or the last two are not positive and finite.
    """
    last = [float(error) for error in errors[-2:]]
    if len(last) < 2 or not all(isfinite(error) and error > 0 for error in last):
        return nan
    return log(last[0] / last[1]) / log(factor)
