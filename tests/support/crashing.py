"""Runs that are stopped in the middle, and what is left of them."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from anydepth import artifact
from anydepth.train.training import train
from processes import command
from small_runs import tiny

POINTS = (
    ".safetensors half written",
    ".safetensors written",
    ".safetensors renamed",
    ".json half written",
    ".json written",
    ".json renamed",
    "voucher staged",
    "checkpoint removed",
    "model grown",
    "refinement logged",
)


def config(*settings):
    """Nine steps with a refinement within an epoch and one after it, an average, and a checkpoint after every step."""
    grown = ('refine={"at": [4, 6], "unit": "step"}', "checkpoint_minutes=0", "training.ema=0.5", "data.crop=1")
    return tiny("training.epochs=3", "model.options.basis=linear", *grown, *settings)


class Crash(BaseException):
    """Ends a training on the spot, as a kill does: nothing catches it."""


def stopped_at(point, times):
    """A watcher that ends the process's training when a point is reached for the n-th time."""
    left = [times]

    def watcher(reached):
        if reached == point:
            left[0] -= 1
            if left[0] == 0:
                raise Crash

    return watcher


def train_and_crash(folder, settings, point, times):
    """Train until the point is reached for the n-th time; whether it was."""
    artifact.watchers.append(stopped_at(point, times))
    try:
        train(settings, folder, resume=True)
    except Crash:
        return True
    finally:
        artifact.watchers.pop()
    return False


def remains(folder):
    """What a run leaves behind, but for times: the bytes of its model, and its metrics."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    timeless = [{key: value for key, value in line.items() if key != "seconds"} for line in lines]
    return (folder / "model.safetensors").read_bytes(), (folder / "model.json").read_bytes(), timeless


def orphans(folder):
    """Files that no run should have when it is over."""
    kept = {"run.json", "model.json", "model.safetensors", "metrics.jsonl", ".lock"}
    found = [path.name for path in folder.iterdir() if path.is_file() and path.name not in kept]
    stems = {path.stem for path in (folder / "checkpoints").glob("*.json")}
    return found + [path.name for path in (folder / "checkpoints").iterdir() if path.stem not in stems]


def words_of(folder, settings):
    """Words of the command line that train a config, or go on with it."""
    path = Path(f"{folder}.config.json")
    path.write_text(json.dumps(settings.plain()))
    return ["train", str(path), "--out", str(folder), "--resume"]


def start(folder, settings, processes=1, code=None):
    """`anydepth train` in a process of its own, or in several under torchrun."""
    words = words_of(folder, settings)
    if processes == 1 and code is None:
        return command(Path(f"{folder}.told"), *words)
    program = ["-c", code]
    if processes > 1:
        program = ["-m", "torch.distributed.run", f"--nproc-per-node={processes}", "-m", "anydepth"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "MKL_CBWR": "AVX2"}
    call = [sys.executable, *map(str, program), *words]
    return subprocess.Popen(call, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def kill_after(process, seconds, number=signal.SIGKILL):
    """Send a signal after a while; the exit code, or None if it was over before."""
    deadline = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    if process.poll() is not None:
        return process.communicate() and process.returncode
    process.send_signal(number)
    process.communicate()
    return None


def wait_for_step(folder, step, process, seconds=60):
    """Until a checkpoint of a step is there."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        if any(int(p.name[5:14]) >= step for p in (folder / "checkpoints").glob("step-*.json")):
            return True
        time.sleep(0.005)
    return False
