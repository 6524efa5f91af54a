"""SIGKILL: trainings at random moments and at named points, and the commands that make folders and files."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
from functools import cache

from anydepth.runs.folder import open_run
from anydepth.train.training import train
from crashing import POINTS, config, kill_after, orphans, remains, start, train_and_crash
from journeys.test_whole import check_compressed, check_exported, check_swept
from processes import command
from small_runs import tiny

LONGER = "training.epochs=12"
KINDS = {
    "SGD and refinement": (config("training.ema=null", LONGER), 1),
    "AdamW, average, steady": (
        config("optimizer.name=adamw", "optimizer.lr=0.01", "refine.at=[]", 'control={"name": "steady"}', LONGER),
        1,
    ),
    "two ranks": (config(LONGER), 2),
}


def finished(folder, settings, processes):
    """Go on to the end; the run must say that all went well."""
    process = start(folder, settings, processes=processes)
    _, err = process.communicate()
    assert process.returncode == 0, err[-300:]


@cache
def whole(kind, work):
    """The run that nothing interrupts, and how long it takes; kept between starts of the soak."""
    settings, processes = KINDS[kind]
    folder = work / f"whole {kind}"
    took = folder.with_suffix(".seconds")
    if not took.exists():
        shutil.rmtree(folder, ignore_errors=True)
        began = time.monotonic()
        finished(folder, settings, processes)
        took.write_text(str(time.monotonic() - began))
    return remains(folder), float(took.read_text())


def killed_training(kind):
    """A part: one chunk is a training that is killed as often as the chunk has tries, then finished and compared."""

    def run(number, tries, work):
        settings, processes = KINDS[kind]
        wanted, seconds = whole(kind, work)
        chance, folder = random.Random(f"{kind} {number}"), work / f"killed {kind} {number}"
        shutil.rmtree(folder, ignore_errors=True)
        for _ in range(tries):
            process = start(folder, settings, processes=processes)
            if processes == 1:
                kill_after(process, chance.uniform(0, seconds))
            else:
                kill_a_rank(process, chance, chance.uniform(0, seconds))
        finished(folder, settings, processes)
        assert remains(folder) == wanted, "other bytes than the run that nothing interrupts"
        assert orphans(folder) == [], orphans(folder)
        shutil.rmtree(folder)

    return run


def kill_a_rank(process, chance, seconds):
    time.sleep(seconds)
    found = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout
    workers = re.findall(r"\d+", found)
    if process.poll() is None:
        os.kill(int(chance.choice(workers)) if workers else process.pid, signal.SIGKILL)
    process.communicate()


def named_points(number, tries, work):
    """Every named point of a checkpoint and of a refinement, reached for the first to the fifth time."""
    wanted, _ = in_process(work)
    for place in range(number, number + tries):
        point, times = POINTS[place % len(POINTS)], place // len(POINTS) + 1
        folder = work / f"point {place}"
        shutil.rmtree(folder, ignore_errors=True)
        train_and_crash(folder, config(), point, times)
        train(config(), folder, resume=True)
        assert remains(folder) == wanted, (point, times)
        assert orphans(folder) == [], (point, times)
        shutil.rmtree(folder)


@cache
def in_process(work):
    folder = work / "whole in process"
    shutil.rmtree(folder, ignore_errors=True)
    train(config(), folder)
    return remains(folder), folder


COMMANDS = {
    "compress": (("--size", 1, "--out", "made"), check_compressed),
    "sweep": (
        ("--sizes", "1,2", "--steps", "1,2", "--schemes", "euler", "--rounds", 1, "--no-data", "--out", "made"),
        check_swept,
    ),
    "export": (("--to", "made.pt2", "--no-check"), check_exported),
}


@cache
def source(work):
    folder = work / "source"
    if not (folder / "model.json").exists():
        shutil.rmtree(folder, ignore_errors=True)
        train(tiny("model.options.basis=constant", "model.options.size=2", "training.epochs=1"), folder)
    return folder, {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def killed_commands(number, tries, work):
    """compress, sweep and export in turns; after the kill whole or nothing, then made again; the source untouched."""
    run, before = source(work)
    for place in range(number * 10, number * 10 + tries):
        name = list(COMMANDS)[place % len(COMMANDS)]
        words, check = COMMANDS[name]
        where = work / f"command {place}"
        shutil.rmtree(where, ignore_errors=True)
        where.mkdir()
        words = [where / word if str(word).startswith("made") else word for word in words]
        process = command(where / "told", name, run, *words)
        kill_after(process, random.Random(place).uniform(0, 1.5))
        check(where)
        if not (name == "compress" and (where / "made").exists()):
            again = command(where / "told", name, run, *words)
            _, err = again.communicate()
            assert again.returncode == 0, err[-300:]
        check(where)
        assert list(where.rglob("*.tmp")) == []
        assert {p.name: p.read_bytes() for p in run.iterdir() if p.is_file() and p.name in before} == before
        assert json.loads((run / "run.json").read_text())["parent"] is None
        shutil.rmtree(where)
    assert open_run(run).is_finished
