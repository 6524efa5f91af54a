"""Attacks on blocks at work: readers beside threads that infer, interrupts and forks in the middle of a pass.

    python benchmarks/attacks.py [--rounds 1000] [--interrupts 20000] [--forks 100]

Prints one JSON object: what went wrong (nothing should), and the throughput of two threads over that of one.
"""

import argparse
import copy
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

import anydepth as ad
from anydepth.surgery.change import Form


class Opaque(ad.units.PreactConv):
    """The same unit under another class, which takes the general path."""


def block_of(unit: Callable[[], nn.Module]) -> ad.ContinuousBlock:
    torch.manual_seed(0)
    return ad.ContinuousBlock(unit, "linear", 3, scheme="rk4", steps=2).eval()


def readers(rounds: int) -> dict[str, int]:
    """Six threads infer while one saves, copies, compresses and reads state dicts, so many times each."""
    block, x = block_of(lambda: Opaque(4)), torch.randn(2, 4, 5, 5)
    with torch.no_grad():
        wanted = block(x)
    shapes = {name: tensor.shape for name, tensor in block.state_dict().items()}
    stop, counts = threading.Event(), {"wrong": 0, "raised": 0, "passes": 0}
    threads = [threading.Thread(target=_infer, args=(block, x, wanted, stop, counts)) for _ in range(6)]
    for thread in threads:
        thread.start()
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            for look in (_saved, _copied, _compressed, _read):
                try:
                    counts["wrong"] += not look(block, x, wanted, shapes, folder)
                except Exception:  # whatever it is, it is counted
                    counts["raised"] += 1
    stop.set()
    for thread in threads:
        thread.join()
    return counts


def _infer(block: nn.Module, x: Tensor, wanted: Tensor, stop: threading.Event, counts: dict[str, int]) -> None:
    with torch.no_grad():
        while not stop.is_set():
            try:
                counts["wrong"] += not torch.equal(block(x), wanted)
            except Exception:
                counts["raised"] += 1
            counts["passes"] += 1


def _saved(block: ad.ContinuousBlock, x: Tensor, wanted: Tensor, shapes: dict, folder: str) -> bool:
    ad.save(block, folder)
    again = block_of(lambda: Opaque(4))
    ad.load(folder, into=again)
    with torch.no_grad():
        return torch.equal(again(x), wanted)


def _copied(block: ad.ContinuousBlock, x: Tensor, wanted: Tensor, shapes: dict, folder: str) -> bool:
    with torch.no_grad():
        return torch.equal(copy.deepcopy(block)(x), wanted)


def _compressed(block: ad.ContinuousBlock, x: Tensor, wanted: Tensor, shapes: dict, folder: str) -> bool:
    return ad.compress(block, basis="constant", size=2).size == 2


def _read(block: ad.ContinuousBlock, x: Tensor, wanted: Tensor, shapes: dict, folder: str) -> bool:
    return all(tensor.shape == shapes[name] for name, tensor in block.state_dict().items())


def interrupts(count: int) -> dict[str, int]:
    """Ctrl-C at random points of training passes; shapes, form and state must be whole afterwards."""
    block, x = block_of(lambda: ad.units.MLP(4, 8, 1)).train(), torch.randn(4, 4)
    norms = ad.ContinuousBlock(lambda: nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 4)), "linear", 3, steps=2)
    found = {"interrupted": 0, "harmed": 0}
    signal.signal(signal.SIGALRM, _interrupt)
    for number in range(count):
        target = norms if number % 2 else block
        form, shapes = str(Form.of(target)), [t.shape for t in target.state_dict().values()]
        tracked = _counters(target)
        try:
            signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, 4e-3))
            with ad.fast_paths(False):
                target(x)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            found["interrupted"] += 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        whole = [t.shape for t in target.state_dict().values()] == shapes and str(Form.of(target)) == form
        finite = all(bool(t.isfinite().all()) for t in target.buffers())
        found["harmed"] += not (whole and finite and set(_counters(target)) <= {*tracked, *(n + 1 for n in tracked)})
    return found


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _counters(block: nn.Module) -> list[int]:
    return [int(tensor) for name, tensor in block.named_buffers() if name.endswith("tracked")]


def forks(count: int) -> dict[str, int]:
    """Forks while another thread is in the middle of a pass; children that have not answered in 20 s hang."""
    x = torch.randn(2, 4, 5, 5)
    plain = Opaque(4).eval()
    return {"block": _forked(block_of(lambda: Opaque(4)), x, count), "bare unit": _forked(plain, x, count)}


def _forked(model: nn.Module, x: Tensor, count: int) -> int:
    stop, hangs = threading.Event(), 0
    thread = threading.Thread(target=_infer, args=(model, x, model(x), stop, {"wrong": 0, "raised": 0, "passes": 0}))
    thread.start()
    for _ in range(count):
        time.sleep(random.uniform(0, 2e-3))
        child = os.fork()
        if child == 0:
            torch.set_num_threads(1)
            with torch.no_grad():
                model(x)
            os._exit(0)
        hangs += not _ends(child, 20.0)
    stop.set()
    thread.join()
    return hangs


def _ends(child: int, limit: float) -> bool:
    start = time.monotonic()
    while time.monotonic() - start < limit:
        if os.waitpid(child, os.WNOHANG)[0]:
            return True
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def turns(seconds: float = 3.0) -> float:
    """Passes of two threads over those of one, with one thread of the maths library each."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    block = ad.ContinuousBlock(lambda: Opaque(32), steps=2).eval()
    x = torch.randn(64, 32, 16, 16)
    return _passes(block, x, 2, seconds) / _passes(block, x, 1, seconds)


def _passes(block: nn.Module, x: Tensor, threads: int, seconds: float) -> float:
    counts, stop = {"wrong": 0, "raised": 0, "passes": 0}, threading.Event()
    with torch.no_grad():
        wanted = block(x)
    crew = [threading.Thread(target=_infer, args=(block, x, wanted, stop, counts)) for _ in range(threads)]
    start = time.monotonic()
    for thread in crew:
        thread.start()
    time.sleep(seconds)
    stop.set()
    for thread in crew:
        thread.join()
    return counts["passes"] / (time.monotonic() - start)


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--rounds", type=int, default=1000)
    reader.add_argument("--interrupts", type=int, default=20_000)
    reader.add_argument("--forks", type=int, default=100)
    given = reader.parse_args()
    torch.set_num_threads(1)
    found = {
        "readers": readers(given.rounds),
        "interrupts": interrupts(given.interrupts),
        "hanging forks": forks(given.forks),
        "two threads over one": round(turns(), 2),
    }
    sys.stdout.write(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
