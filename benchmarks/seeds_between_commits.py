"""A training step of `proper-landscape` as published for several seeds at once: now and at an earlier commit, in turns.

    python benchmarks/seeds_between_commits.py OTHER_CHECKOUT [--turns 9]

Both run with this Python. OTHER_CHECKOUT trains one and five seeds at once, this one twenty as well.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

HERE = Path(__file__).parents[1]

STEPS = """
import json, sys, time
from anydepth.recipes import RECIPES
from anydepth.runs.folder import dataset_of
from anydepth.runs.override import override
from anydepth.train.prepare import prepare
try:
    from anydepth_papers.nets.ensemble import Ensemble
except ImportError:
    from anydepth_papers.ensemble import Ensemble
base = RECIPES["proper-landscape"]()
data, found = dataset_of(base, None), {}
for count in map(int, sys.argv[1:]):
    nets = Ensemble([prepare(override(base, [f"seed={seed}"]), data) for seed in range(count)])
    order, times = nets._order(0), []
    for i in range(60):
        began = time.perf_counter()
        nets.step(0, order[i % len(order)])
        times.append(time.perf_counter() - began)
    found[count] = 1e3 * sorted(times[10:])[25]
print(json.dumps(found))
"""


def milliseconds(checkout: Path, counts: list[str]) -> dict[str, float]:
    """The median step by the number of seeds, in a process of its own."""
    places = os.pathsep.join(str(checkout / place) for place in ("src", "papers/src"))
    program = [sys.executable, "-c", STEPS, *counts]
    done = subprocess.run(program, env=os.environ | {"PYTHONPATH": places}, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("other", type=Path)
    reader.add_argument("--turns", type=int, default=9)
    given = reader.parse_args()
    then, now = [], []
    for _ in range(given.turns):
        then.append(milliseconds(given.other.absolute(), ["1", "5"]))
        now.append(milliseconds(HERE, ["1", "5", "20"]))
    five = median(turn["5"] for turn in then)
    for name, turns in (("then", then), ("now", now)):
        for count in turns[0]:
            value = median(turn[count] for turn in turns)
            sys.stdout.write(f"{name}, {count} at once: {value:.2f} ms, {value / five:.2f} of then's five\n")


if __name__ == "__main__":
    main()
