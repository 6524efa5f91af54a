"""torchdiffeq's own tests and its example, run against the drop-in.

Run: .venv/bin/python benchmarks/torchdiffeq_tests.py CHECKOUT [--demo] [--iterations N] [--rounds N] [--out FILE]

CHECKOUT is a clone of torchdiffeq's repository. Its files are copied to a temporary folder with the import changed, and
nothing else. Every sub-test passes, is refused by one of the typed errors for what is left out, or fails; FILE lists
every sub-test that is left out under its reason, and counts are printed. With --demo
the example ode_demo runs too, in turns with itself on torchdiffeq, with one thread.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

FILES = ("odeint_tests", "gradient_tests", "api_tests", "norm_tests")
REFUSED = re.compile(r"method '(\w+)' is not supported|(callback)s are not supported")


SEED = "import numpy, torch\nnumpy.random.seed(0), torch.manual_seed(0)\n"


class Tally(unittest.TestResult):
    """Counts sub-tests, and tests without any, by how they end."""

    def __init__(self) -> None:
        super().__init__()
        self.passed, self.failed = 0, []
        self.refused: dict[str, list[str]] = defaultdict(list)
        self.had_parts = False

    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        super().startTest(test)
        self.had_parts = False

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802
        self.had_parts = True
        self._count(subtest, err)

    def addSuccess(self, test: Any) -> None:  # noqa: N802
        self.passed += not self.had_parts

    def addError(self, test: Any, err: Any) -> None:  # noqa: N802
        self._count(test, err)

    addFailure = addError

    def _count(self, test: Any, err: Any) -> None:
        found = REFUSED.search(str(err[1])) if err is not None else None
        if err is None:
            self.passed += 1
        elif found:
            self.refused[found[1] or found[2]].append(test.id())
        else:
            self.failed.append(f"{test.id()}: {err[0].__name__}: {str(err[1])[:200]}")


def copied(checkout: Path, folder: Path) -> None:
    """The test files with the import changed."""
    for name in (*FILES, "problems"):
        text = (checkout / "tests" / f"{name}.py").read_text()
        changed = re.sub(r"^import torchdiffeq$", "import anydepth.torchdiffeq as torchdiffeq", text, flags=re.M)
        (folder / f"{name}.py").write_text(changed)


def run_tests(checkout: Path) -> dict[str, Any]:
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        copied(checkout, Path(folder))
        sys.path.insert(0, folder)
        for name in FILES:
            tally = Tally()
            unittest.defaultTestLoader.loadTestsFromName(name).run(tally)
            found[name] = {"passed": tally.passed, "left out": dict(tally.refused), "failed": tally.failed}
            counts = {reason: len(tests) for reason, tests in tally.refused.items()}
            print(name, json.dumps(found[name] | {"left out": counts}, indent=1), flush=True)  # noqa: T201
    return found


def run_demo(checkout: Path, iterations: int, rounds: int) -> dict[str, Any]:
    """Seconds of ode_demo on both sides, in turns; by backpropagation and by the adjoint."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        text = (checkout / "examples" / "ode_demo.py").read_text()
        sides = {
            "torchdiffeq": text,
            "anydepth": text.replace("from torchdiffeq import", "from anydepth.torchdiffeq import"),
        }
        for side, code in sides.items():
            (Path(folder) / f"demo_on_{side}.py").write_text(SEED + code)
        for mode, flags in (("odeint", []), ("odeint_adjoint", ["--adjoint"])):
            seconds: dict[str, list[float]] = {side: [] for side in sides}
            for _ in range(rounds):
                for side in sides:
                    seconds[side].append(_timed([f"{folder}/demo_on_{side}.py", "--niters", str(iterations), *flags]))
            found[mode] = {side: round(median(times), 2) for side, times in seconds.items()}
            found[mode]["ratio"] = round(median(seconds["anydepth"]) / median(seconds["torchdiffeq"]), 2)
            print(mode, found[mode], flush=True)  # noqa: T201
    return found


def _timed(command: list[str]) -> float:
    """Seconds of the processor that a script takes, so that other processes do not count."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    before = os.times()
    start = time.perf_counter()
    done = subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    side, last = Path(command[0]).stem, done.stdout.split("\n")[-2]
    print(f"{side}: {time.perf_counter() - start:.1f} s, processor {spent:.1f} s; {last}", flush=True)  # noqa: T201
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--demo", action="store_true", help="the example instead of the tests")
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    demo = (given.iterations, given.rounds)
    found = run_demo(given.checkout, *demo) if given.demo else run_tests(given.checkout)
    if given.out:
        given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
