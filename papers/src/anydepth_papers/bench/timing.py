"""Medians and quartiles of times."""

import statistics
from collections.abc import Mapping, Sequence


def ratios(seconds: Mapping[str, Sequence[float]], base: str) -> dict[str, dict[str, float]]:
    """The median and quartiles of the milliseconds, and of each round's ratio to the base."""
    found = {}
    for name, times in seconds.items():
        each = [a / b for a, b in zip(times, seconds[base], strict=True)]
        found[name] = _spread("milliseconds", [1e3 * t for t in times]) | _spread("ratio", each)
    return found


def _spread(name: str, values: Sequence[float]) -> dict[str, float]:
    low, middle, high = statistics.quantiles(values, n=4) if len(values) > 1 else (values[0],) * 3
    return {name: round(middle, 3), f"{name}_low": round(low, 3), f"{name}_high": round(high, 3)}


def fastest(seconds: Mapping[str, Sequence[float]], among: str) -> str:
    """Of the sides whose names begin so, the one with the least median."""
    names = [name for name in seconds if name.startswith(among)]
    return min(names, key=lambda name: statistics.median(seconds[name]))
