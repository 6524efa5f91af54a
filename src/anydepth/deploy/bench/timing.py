"""Interleaved timing, with medians and quartiles."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence

Run = Callable[[], object]


def interleaved(runs: Mapping[str, Run], rounds: int, warm_up: int = 2) -> dict[str, list[float]]:
    """Seconds of every run, the sides taking turns."""
    for _ in range(warm_up):
        for run in runs.values():
            run()
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            began = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - began)
    return seconds


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
