"""A fork in the middle of a pass: the child has no lock to wait for."""

import os

import pytest

from processes import Started

SCRIPT = """
import os, signal, threading, time, warnings
import torch
from torch import nn
import anydepth as ad

warnings.simplefilter("ignore")


class Wave(nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = nn.Parameter(torch.randn(4, 1, 1))

    def forward(self, x):
        return torch.sin(self.factor * x)


UNITS = {"general": Wave, "image": lambda: ad.units.PreactConv(4)}


def infer(block, x, stop):
    with torch.no_grad(), ad.fast_paths(path != "general"):
        while not stop.is_set():
            block(x)


def child_ends(block, x, wanted):
    child = os.fork()
    if child == 0:
        torch.set_num_threads(1)
        with torch.no_grad(), ad.fast_paths(path != "general"):
            os._exit(0 if torch.equal(block(x), wanted) else 1)
    for _ in range(1_000):
        ended, code = os.waitpid(child, os.WNOHANG)
        if ended:
            assert code == 0, code
            return
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError("a forked child hangs")


torch.set_num_threads(1)
block, x = ad.ContinuousBlock(UNITS[path], "linear", 3, steps=2).eval(), torch.randn(2, 4, 5, 5)
stop = threading.Event()
with torch.no_grad(), ad.fast_paths(path != "general"):
    wanted = block(x)
thread = threading.Thread(target=infer, args=(block, x, stop))
thread.start()
try:
    for round in range(5):
        time.sleep(1e-3 * round / 5)
        child_ends(block, x, wanted)
finally:
    stop.set()
    thread.join()
assert block.stats.path == path
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
@pytest.mark.parametrize("path", ["general", "image"])
def test_a_child_forked_while_a_thread_infers_can_call_the_block(path, tmp_path):
    process = Started(tmp_path, exec, SCRIPT, {"path": path})
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
