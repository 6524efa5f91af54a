"""The whole fault matrix, resumable.

    python tests/soak/run.py [--share 1.0] [--only WORD] [--again] [--minutes M] [--table FILE]
                             [--state DIR] [--ledger FILE]

Every chunk of tries is noted in the ledger (tests/soak/ledger.jsonl, or another FILE) when it is over; started again,
the soak goes on with what is missing. Processes work in DIR (soak-output). --share 0.01 tries a hundredth of
everything. --again repeats chunks that failed. The table is printed; with --table docs/reliability.md it is also put
between the marks of that page.
"""

import argparse
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")
os.environ.setdefault("MKL_CBWR", "AVX2")
TESTS = Path(__file__).parents[1]
PLACES = [str(TESTS), str(TESTS / "support")]
sys.path[:0] = PLACES
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (*PLACES, os.environ.get("PYTHONPATH"))))


def parts():
    from soak import damage, kills, long, paths, readers
    from soak.ledger import Part

    found = [
        Part(
            f"SIGKILL of train: {kind}", "F1, F3" if kind != "two ranks" else "F15", 100, 2, kills.killed_training(kind)
        )
        for kind in kills.KINDS
    ]
    found += [
        Part("named points of a checkpoint and a refinement", "F2", 5 * len(kills.POINTS), 1, kills.named_points),
        Part("SIGKILL of compress, sweep, export", "F19", 100, 10, kills.killed_commands),
        Part("writing fails: no space, I/O error, read-only, quota", "F4", 40, 1, damage.failing_disk),
        Part("the kernel refuses files above 20 sizes", "F4", 20, 1, damage.small_disk),
        Part("flipped bits of a checkpoint", "F5", 10_000, 200, damage.flipped_bits, "bits"),
        Part("truncated checkpoints, every kilobyte", "F5", 500, 50, damage.truncated),
    ]
    found += [
        Part(f"fuzzing of {name}", "F6, F7" if name not in DATA else "F7, F8", 300, 60, readers.fuzzed(name), "s")
        for name in readers.READERS
    ]
    found += [Part(name, fault, 1, 1, long.cases_of(*where), "run") for fault, name, *where in TESTED]
    return [
        *found,
        Part("paths against a plain pass", "F10", 100_000, 100, paths.differences, "cases"),
        Part("threads, interrupts, forks", "-", 1_000, 100, long.attacks, "rounds"),
        Part("serving 16 clients, a fifth of their requests malformed", "F20", 120, 120, long.served, "s"),
        Part("memory over steps of training", "-", 10_000, 10_000, long.memory, "steps"),
        Part("tests left out of make test", "all", len(long.unused()), 1, long.left_out, "pieces"),
    ]


TESTED = (
    ("F6", "hostile files", "journeys/test_hostile.py journeys/test_edges.py"),
    ("F8", "corrupt data sets", "data/test_data_files.py journeys/test_commands.py", "data_files or corrupt"),
    ("F9", "losses and gradients that are not finite", "train/test_train.py journeys/test_commands.py", "finite"),
    ("F10", "diverging, stiff and NaN fields", "solve/test_adaptive.py solve/test_detest.py"),
    ("F11", "wrong values of every config field", "runs/test_config.py"),
    (
        "F12",
        "predict with bad inputs",
        "journeys/test_commands.py journeys/test_edges.py",
        "predict or arrays or formats",
    ),
    ("F13", "two processes in one folder", "journeys/test_crash.py", "in_use"),
    ("F14", "SIGTERM and Ctrl-C", "journeys/test_crash.py", "signal"),
    ("F16", "another number of ranks", "journeys/test_ranks.py"),
    ("F17", "pictures that threads cannot read", "data/test_own_files.py", "pictures"),
    ("F18", "export parity", "deploy/test_export.py deploy/test_freeze.py"),
    ("F19", "whole or nothing", "journeys/test_whole.py"),
)
DATA = ("idx", "CIFAR", "CoNLL-U", "imagefolder", "csv", "npz")


def main() -> int:
    from soak.ledger import Ledger, attempt, put_table, table

    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--share", type=float, default=1.0)
    reader.add_argument("--only", default="")
    reader.add_argument("--again", action="store_true")
    reader.add_argument("--minutes", type=float, default=float("inf"))
    reader.add_argument("--state", type=Path, default=Path("soak-output"))
    reader.add_argument("--ledger", type=Path, default=Path(__file__).with_name("ledger.jsonl"))
    reader.add_argument("--table", type=Path)
    given = reader.parse_args()
    work = given.state.absolute() / "work"
    work.mkdir(parents=True, exist_ok=True)
    ledger, deadline = Ledger(given.ledger), time.monotonic() + 60 * given.minutes
    import torch

    torch.set_num_threads(1)
    wanted = [part for part in parts() if given.only.lower() in part.name.lower()]
    for part in wanted:
        for number, tries in part.chunks(given.share):
            if ledger.is_done(part, number, tries, given.again) or time.monotonic() > deadline:
                continue
            line = attempt(part, number, tries, work)
            ledger.add(line)
            told = f"FAILED {line['failure']}" if line["failure"] else "fine"
            sys.stderr.write(f"{part.name} {number}: {tries} {part.unit} in {line['processor']} s, {told}\n")
    text = table(parts(), ledger)
    sys.stdout.write(f"{text}\n")
    if given.table is not None:
        put_table(given.table, text)
    return int(any(line["failure"] for part in wanted for line in ledger.of(part)))


if __name__ == "__main__":
    sys.exit(main())
