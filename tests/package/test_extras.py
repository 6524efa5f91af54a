"""The library alone needs few packages; what needs more says which extra has them."""

import subprocess
import sys

import pytest

BLOCKED = ("PIL", "matplotlib", "numba", "rich", "sklearn", "typer")
START = f"""
import sys
for name in {BLOCKED}:
    sys.modules[name] = None  # as if it were not installed
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name in {BLOCKED} else find(name, *rest)
"""

LIBRARY = """
import tempfile, torch
from torch import nn
import anydepth as ad
for name in ad.__all__:
    getattr(ad, name)
block = ad.ContinuousBlock(lambda: ad.units.MLP(4), "linear", 2, steps=2)
model = nn.Sequential(nn.Linear(3, 4), block, nn.Linear(4, 2))
x = torch.randn(12, 3)
ad.refine(model)
small = ad.compress(model, size=2, steps=2)
ad.check(model, [x])
ad.freeze(small)(x)
ad.sweep(model, [x], sizes=[2, 1], steps=[1], rounds=1)
folder = tempfile.mkdtemp()
ad.save(small, folder)
ad.load(folder, into=small)
print("works")
"""


def run(code: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-c", START + code], capture_output=True, text=True, timeout=100)


def test_the_library_works_without_the_packages_of_the_command_line():
    done = run(LIBRARY)
    assert done.stdout == "works\n", done.stderr


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("from anydepth.__main__ import main; main()", "the command line needs typer, rich"),
        ("from anydepth.data.source import SOURCES; SOURCES['digits'](None).read('train')", "'digits' needs sklearn"),
    ],
    ids=["command", "digits"],
)
def test_what_is_missing_is_told_with_the_extra_that_has_it(code, told):
    done = run(code)
    assert done.returncode
    assert told in done.stderr
    assert "pip install 'anydepth[cli]'" in done.stderr
