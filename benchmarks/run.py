"""Compare training steps side by side: time ratios with spread, and peak memory.

Run: .venv/bin/python benchmarks/run.py [CASE ...] [--rounds N] [--out FILE]
The sides of a case take turns within one process; ratios are taken round by round, and the median and quartiles
are reported. Peak memory is measured in a process of its own.
"""

import argparse
import datetime
import json
import os
import statistics
from pathlib import Path

import torch
from cases import CASES
from timing import added_at_peak, interleaved, peak_memory, ratios

MEMORY = ("rk4 16ch-32px", "rk4 32ch-16px", "rk4 64ch-8px", "checkpoint")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", default=[], help="by default all")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results.json"))
    parser.add_argument("--memory", nargs=2, metavar=("CASE", "SIDE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    torch.manual_seed(0)
    if given.memory:
        case, side = given.memory
        print(json.dumps(added_at_peak(CASES[case][0]()[side])))  # noqa: T201
        return
    results = {name: measure(name, given.rounds) for name in given.cases or CASES}
    about = {"date": str(datetime.date.today()), "torch": torch.__version__, "threads": torch.get_num_threads()}
    about["cores"] = os.cpu_count()
    given.out.write_text(json.dumps({"about": about, "cases": results}, indent=2) + "\n")
    print(f"\nwritten to {given.out}")  # noqa: T201


def measure(case: str, rounds: int) -> dict:
    make, base = CASES[case]
    sides = make()
    seconds = interleaved(sides, rounds * (5 if case == "small field" else 1))
    fastest = min((n for n in seconds if n.startswith(base)), key=lambda name: statistics.median(seconds[name]))
    found = ratios(seconds, fastest)
    if case in MEMORY:
        peaks = {name: peak_memory(case, name) for name in sides}
        for name, peak in peaks.items():
            found[name] |= {"megabytes": round(peak, 1), "memory_ratio": round(peak / peaks[fastest], 3)}
    print(f"\n{case} (base: {fastest})")  # noqa: T201
    for name, row in found.items():
        spread = f"{row['ratio']:.3f} [{row['ratio_low']:.3f}, {row['ratio_high']:.3f}]"
        memory = f"{row['megabytes']:9.1f} MB {row['memory_ratio']:.3f}" if "megabytes" in row else ""
        print(f"  {name:28} {row['milliseconds']:10.2f} ms  {spread:24} {memory}", flush=True)  # noqa: T201
    return {"base": fastest, "sides": found}


if __name__ == "__main__":
    main()
