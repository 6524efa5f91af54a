"""Peak memory of one side, in a process of its own: python -m anydepth_papers.bench.memory CASE SIDE."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def peak_memory(case: str, side: str) -> float | None:
    """Megabytes that one run adds at its peak, in a fresh process with large blocks mapped apart; None if unknown."""
    if not _CLEAR.exists():
        return None
    settings = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    program = [sys.executable, "-m", __name__, case, side]
    done = subprocess.run(program, env=settings, capture_output=True, text=True, check=False)
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None


def added_at_peak(run: Callable[[], object]) -> float:
    """Peak resident memory of `run` above what was there before, in megabytes (Linux)."""
    run()
    _CLEAR.write_text("5")
    before = _status("VmRSS")
    run()
    return (_status("VmHWM") - before) / 1024


def _status(key: str) -> int:
    return next(int(line.split()[1]) for line in _STATUS.read_text().splitlines() if line.startswith(key))


def main(case: str, side: str) -> None:
    import torch

    from anydepth_papers.bench.cases import CASES

    torch.manual_seed(0)
    sys.stdout.write(json.dumps(added_at_peak(CASES[case].make(False)[side])) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
