"""Measuring cases: what was found, as JSON values.

python -m anydepth_papers.bench.run CASE ROUNDS DEVICE PRECISION [quick] measures one in a process of its own.
"""

import json
import os
import platform
import subprocess
import sys
from contextlib import nullcontext
from datetime import date
from fnmatch import fnmatchcase
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from anydepth.errors import ConfigError
from anydepth.measure.cost import interleaved
from anydepth_papers.bench.cases import CASES
from anydepth_papers.bench.goals import with_goals
from anydepth_papers.bench.memory import peak_memory
from anydepth_papers.bench.peers import INSTALL, PEERS, missing
from anydepth_papers.bench.scaling import GROWTH, exponent, growing
from anydepth_papers.bench.sides import Sides, close, use_precision
from anydepth_papers.bench.timing import fastest, ratios


def chosen(only: str | None, growth: bool) -> list[str]:
    """The names that fit a pattern, or hold it; `growth` adds the three of growing."""
    names = [*CASES, *(f"growth {axis}" for axis in GROWTH if growth or (only or "").startswith("growth"))]
    found = [name for name in names if only is None or only in name or fnmatchcase(name, only)]
    if not found:
        raise ConfigError(f"no case fits {only!r}; expected a part of one of: {'; '.join(names)}")
    return found


def absent() -> dict[str, str]:
    """Peers that are not compared, with the reason."""
    found = {name: missing(peer.module) for name, peer in PEERS.items()}
    found["diffrax"] = None if find_spec("diffrax") else f"not installed: {INSTALL}"
    return {name: reason for name, reason in found.items() if reason is not None}


def about() -> dict[str, Any]:
    return {
        "date": str(date.today()),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "cpu": _cpu(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "vectors": torch.backends.cpu.get_cpu_capability(),
        "numba": version("numba") if find_spec("numba") else None,
    }


def _cpu() -> str:
    """What the processor calls itself."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def measure_apart(
    name: str, rounds: int, quick: bool = False, device: str = "cpu", precision: str = "float32"
) -> dict[str, Any]:
    """One case in a fresh process: what earlier ones leave of the heap and of caches decides nothing."""
    program = [sys.executable, "-m", __name__, name, str(rounds), device, precision, *(["quick"] if quick else [])]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the process of case {name!r} ended with {done.returncode}: {done.stderr[-500:]}")
    return json.loads(done.stdout.splitlines()[-1])


def measure(
    name: str, rounds: int, quick: bool = False, device: str = "cpu", precision: str = "float32"
) -> dict[str, Any]:
    """One case: every side's time, its ratio to the base, and where it is asked for its peak memory.

    A side that cannot run is left out, with the reason. `quick` leaves out compiled sides and memory.
    """
    torch.manual_seed(0)
    torch.compiler.reset()
    use_precision(precision)
    with nullcontext() if device == "cpu" else torch.device(device):  # a mode, which the native path sees
        return _measured(name, rounds, quick or device != "cpu")


def _measured(name: str, rounds: int, quick: bool) -> dict[str, Any]:
    axis = name.removeprefix("growth ") if name not in CASES else None
    sides = growing(axis) if axis else CASES[name].make(not quick)
    try:
        failed = _warmed(sides)
        seconds = interleaved(sides, rounds * (1 if axis else CASES[name].more_rounds), warm_up=1)
    finally:
        close(sides)
    if axis:
        found = ratios(seconds, next(iter(seconds)))
        return {"base": next(iter(found)), "sides": found, "exponent": exponent(axis, found), "failed": failed}
    case = CASES[name]
    base = fastest(seconds, case.base if any(n.startswith(case.base) for n in seconds) else "")
    found: dict[str, dict[str, Any]] = dict(ratios(seconds, base))
    if case.has_memory and not quick:
        _add_memory(name, found, base)
    return {"base": base, "sides": with_goals(name, found), "failed": failed}


def _warmed(sides: Sides) -> dict[str, str]:
    """Run every side once, which compiles what is to be compiled; those that fail are taken out."""
    failed: dict[str, str] = {}
    for name, run in list(sides.items()):
        try:
            run()
        except Exception as error:
            failed[name] = f"{type(error).__name__}: {' '.join(str(error).split()):.200}"
            close({name: sides.pop(name)})
    return failed


def _add_memory(case: str, found: dict[str, dict[str, Any]], base: str) -> None:
    """Of the sides that are not compiled, relative to the base as it is without the compiler."""
    peaks: dict[str, float] = {}
    for name in (n for n in found if not n.endswith("compiled")):
        peak = peak_memory(case, name)
        if peak is not None:
            peaks[name] = peak
    whole = peaks.get(base.removesuffix(", compiled"))
    for name, peak in peaks.items():
        found[name] |= {"megabytes": round(peak, 1)} | ({"memory_ratio": round(peak / whole, 3)} if whole else {})


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measure(sys.argv[1], int(sys.argv[2]), "quick" in sys.argv[5:], *sys.argv[3:5])) + "\n")
