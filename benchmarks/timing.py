"""Interleaved timing, and peak memory in a process of its own."""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from anydepth.measure.cost import interleaved

__all__ = ["added_at_peak", "interleaved", "peak_memory", "ratios"]


def ratios(seconds: dict[str, list[float]], base: str) -> dict[str, dict[str, float]]:
    """Medians, and the median and quartiles of each round's ratio to the base."""
    found = {}
    for name, times in seconds.items():
        each = sorted(a / b for a, b in zip(times, seconds[base], strict=True))
        low, middle, high = statistics.quantiles(each, n=4) if len(each) > 1 else (each[0],) * 3
        found[name] = {
            "milliseconds": round(1e3 * statistics.median(times), 3),
            "ratio": round(middle, 3),
            "ratio_low": round(low, 3),
            "ratio_high": round(high, 3),
        }
    return found


def peak_memory(case: str, side: str) -> float:
    """Megabytes that one run adds at its peak, measured in a fresh process with large blocks mapped apart."""
    settings = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    program = [sys.executable, str(Path(__file__).parent / "run.py"), "--memory", case, side]
    done = subprocess.run(program, env=settings, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def added_at_peak(run: Callable[[], object]) -> float:
    """Peak resident memory of `run` above what was there before, in megabytes (Linux)."""
    run()
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    run()
    return (_status("VmHWM") - before) / 1024


def _status(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key))
