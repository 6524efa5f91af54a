"""SIGKILL: trainings at random moments and at named points, and the commands that make folders and files."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from functools import cache
from pathlib import Path

from anydepth import artifact
from anydepth.runs.folder import open_run
from anydepth.train.training import train
from crashing import POINTS, config, kill_after, orphans, remains, start, train_and_crash, words_of
from journeys.test_whole import check_compressed, check_exported, check_swept
from processes import command, ranks
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


TORCHRUN = 10
"""Of trainings over ranks, every tenth is started by torchrun, which imports torch anew in three processes; all others
fork ranks from a server that has imported it, in the environment that torchrun gives them."""


def begun(folder, settings, processes):
    """`anydepth train` over one process or several, all forked."""
    if processes == 1:
        return [start(folder, settings)]
    return ranks(Path(f"{folder}.told"), processes, *words_of(folder, settings))


def finished(folder, settings, processes):
    """Go on to the end; the run must say that all went well."""
    for process in begun(folder, settings, processes):
        _, err = process.communicate()
        assert process.returncode == 0, err[-300:]


@cache
def whole(kind, work):
    """The run that nothing interrupts, and how long it takes once all is imported."""
    settings, processes = KINDS[kind]
    folder = work / f"whole {kind}"
    for _ in range(2):
        shutil.rmtree(folder, ignore_errors=True)
        began = time.monotonic()
        finished(folder, settings, processes)
    return remains(folder), time.monotonic() - began


def killed_training(kind):
    """A part: one chunk is a training that is killed as often as the chunk has tries, then finished and compared.

    A kill that comes after the end is none: the training begins anew.
    """

    def run(number, tries, work):
        settings, processes = KINDS[kind]
        wanted, seconds = whole(kind, work)
        chance, folder = random.Random(f"{kind} {number}"), work / f"killed {kind} {number}"
        kill = killed if processes == 1 else launched if number % TORCHRUN == 0 else lost
        shutil.rmtree(folder, ignore_errors=True)
        for _ in range(tries):
            while not kill(folder, settings, chance, seconds):
                shutil.rmtree(folder)
        finished(folder, settings, processes)
        assert remains(folder) == wanted, "other bytes than the run that nothing interrupts"
        assert orphans(folder) == [], orphans(folder)
        shutil.rmtree(folder)

    return run


def killed(folder, settings, chance, seconds):
    """Kill a training at a random moment; whether it was still running."""
    return kill_after(start(folder, settings), chance.uniform(0, seconds)) is None


def launched(folder, settings, chance, seconds):
    """Kill one of two ranks under torchrun, which ends the other; whether it was still running."""
    process = start(folder, settings, processes=2)
    time.sleep(chance.uniform(0, 10 + seconds))
    found = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout
    workers, runs = re.findall(r"\d+", found), process.poll() is None
    if runs:
        os.kill(int(chance.choice(workers)) if workers else process.pid, signal.SIGKILL)
    process.communicate()
    return runs


def lost(folder, settings, chance, seconds):
    """Kill one of two ranks; whether it was still running. The other one must notice by itself, and say what happened.

    Before it is connected it cannot; then it is ended, as torchrun would.
    """
    before = said(folder)
    victim, other = chance.sample(begun(folder, settings, 2), 2)
    if kill_after(victim, chance.uniform(0, seconds)) is not None:
        other.communicate()
        return False
    for _ in range(2_000):  # ten seconds, but a machine that stands still makes no difference
        if other.poll() is not None:
            break
        time.sleep(0.005)
    else:
        assert said(folder) == before, "a rank waits for one that is gone"
        other.kill()
    _, err = other.communicate()
    assert other.returncode in (0, 6, -signal.SIGKILL), f"exit {other.returncode}: {err[-300:]}"
    return True


def said(folder):
    """How much the metrics of a run hold: more, and its ranks are connected."""
    path = folder / "metrics.jsonl"
    return path.stat().st_size if path.exists() else 0


def named_points(number, tries, work):
    """Every named point of a checkpoint and of a refinement, when it is reached for the first time, the second, ..."""
    wanted, passed = in_process(work)
    for place in range(number, number + tries):
        point = POINTS[place % len(POINTS)]
        times = place // len(POINTS) % passed[point] + 1
        folder = work / f"point {place}"
        shutil.rmtree(folder, ignore_errors=True)
        assert train_and_crash(folder, config(), point, times), f"{point} was not reached"
        train(config(), folder, resume=True)
        assert remains(folder) == wanted, (point, times)
        assert orphans(folder) == [], (point, times)
        shutil.rmtree(folder)


@cache
def in_process(work):
    """The run that nothing interrupts, in this process, and how often it passes each named point."""
    folder, passed = work / "whole in process", Counter()
    shutil.rmtree(folder, ignore_errors=True)
    artifact.watchers.append(lambda point: passed.update([point]))
    try:
        train(config(), folder)
    finally:
        artifact.watchers.pop()
    return remains(folder), passed


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


@cache
def takes(name, work):
    """How long a command takes once all is imported."""
    run, _ = source(work)
    where = work / f"whole {name}"
    for _ in range(2):
        shutil.rmtree(where, ignore_errors=True)
        where.mkdir()
        began = time.monotonic()
        process = command(where / "told", name, run, *placed(COMMANDS[name][0], where))
        _, err = process.communicate()
        assert process.returncode == 0, err[-300:]
    return time.monotonic() - began


def placed(words, where):
    """Words of a command that writes into a folder."""
    return [where / word if str(word).startswith("made") else word for word in words]


def killed_commands(number, tries, work):
    """compress, sweep and export in turns; after the kill whole or nothing, then made again; the source untouched."""
    run, before = source(work)
    for place in range(number * 10, number * 10 + tries):
        name = list(COMMANDS)[place % len(COMMANDS)]
        check = COMMANDS[name][1]
        where = work / f"command {place}"
        shutil.rmtree(where, ignore_errors=True)
        where.mkdir()
        words = placed(COMMANDS[name][0], where)
        chance = random.Random(place)
        while kill_after(command(where / "told", name, run, *words), chance.uniform(0, takes(name, work))) is not None:
            shutil.rmtree(where)  # it was over before
            where.mkdir()
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
