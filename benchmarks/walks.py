"""The files of anydepth that run on the way of a call, found by tracing: the table of docs/architecture.md.

    python benchmarks/walks.py [--files]

A block is called with a unit of the user's own class. A first call also reads tables that later ones find made.
"""

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn

import anydepth as ad
from anydepth.cli.main import main as command
from anydepth.recipes import RECIPES
from anydepth.runs.override import override
from anydepth.train.trainer import Trainer
from anydepth.train.training import train

ROOT = str(Path(ad.__file__).parent) + "/"
SETTINGS = ("training.epochs=1", "refine.at=[]", "data.limit=320")


class Own(nn.Module):
    """A unit of the user's own, which no faster path knows."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(2, 8), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.up(x).softmax(-1))


class Trace:
    """Notes the files of anydepth whose functions are called, from outside a function to its end."""

    def __init__(self) -> None:
        self.files: set[str] = set()

    def _note(self, frame: FrameType, event: str, _arg: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(ROOT) and frame.f_code.co_name != "<module>":
            self.files.add(frame.f_code.co_filename.removeprefix(ROOT))

    def __call__(self, run: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        sys.setprofile(self._note)
        try:
            return run(*args, **kwargs)
        finally:
            sys.setprofile(None)


def traced(run: Callable[[], Any]) -> set[str]:
    trace = Trace()
    trace(run)
    return trace.files


def block_walks() -> Iterator[tuple[str, set[str]]]:
    x = torch.randn(4, 2)
    for kind, settings in (("fixed", {"scheme": "rk4", "steps": 2}), ("adaptive", {"scheme": "dopri54"})):
        block = ad.ContinuousBlock(Own, **settings)  # pyright: ignore[reportArgumentType]
        for when in ("first call", "later calls"):
            yield f"a block, {kind} steps, training, {when}", traced(lambda block=block: block(x).sum().backward())
        block.eval()
        with torch.no_grad():
            block(x)
            yield f"a block, {kind} steps, inference, later calls", traced(lambda block=block: block(x))


def odeint_walks() -> Iterator[tuple[str, set[str]]]:
    y, weight, odeint = torch.randn(4, 2), torch.randn(2, 2), ad.odeint
    for kind, settings in (("fixed", {"method": "rk4", "steps": 4}), ("adaptive", {"rtol": 1e-5})):

        def run(settings: dict[str, Any] = settings) -> None:
            odeint(lambda t, y: y @ weight, y, [0.0, 1.0], **settings)

        for when in ("first call", "later calls"):
            yield f"`ad.odeint`, {kind} steps, {when}", traced(run)


def run_walks() -> Iterator[tuple[str, set[str]]]:
    """A training of the recipe digits: its last batch, its last checkpoint, and a compression of its run."""
    found: dict[str, set[str]] = {}
    walks = {"take_step": "one batch of `anydepth train`", "save": "a checkpoint, from `Trainer.save` to the disk"}
    kept = {name: getattr(Trainer, name) for name in walks}

    def wrapped(name: str) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            trace = Trace()
            try:
                return trace(kept[name], *args, **kwargs)
            finally:
                found[name] = trace.files

        return run

    with tempfile.TemporaryDirectory() as folder, redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        for name in walks:
            setattr(Trainer, name, wrapped(name))
        try:
            train(override(RECIPES["digits"](), list(SETTINGS)), Path(folder) / "run", None)
        finally:
            for name, method in kept.items():
                setattr(Trainer, name, method)
        sys.argv = ["anydepth", "compress", f"{folder}/run", "--max-drop", "1", "--out", f"{folder}/small"]
        compressed = traced(_command)
    yield from ((walks[name], files) for name, files in found.items())
    yield "`anydepth compress RUN --max-drop 1`, with the sweep it needs", compressed


def _command() -> None:
    try:
        command()
    except SystemExit as ended:
        if ended.code:
            raise RuntimeError(f"compress ended with {ended.code}") from ended


def line(name: str, files: set[str]) -> str:
    rooms = Counter(f"`{file.split('/')[0]}/`" if "/" in file else f"`{file}`" for file in files)
    listed = ", ".join(f"{room} {count}" if room.endswith("/`") else room for room, count in sorted(rooms.items()))
    return f"| {name} | {len(files)}: {listed} |\n"


def main() -> int:
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--files", action="store_true", help="name every file")
    given = reader.parse_args()
    for walks in (block_walks, odeint_walks, run_walks):
        for name, files in walks():
            sys.stdout.write(line(name, files))
            sys.stdout.write("".join(f"    {file}\n" for file in sorted(files)) if given.files else "")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
