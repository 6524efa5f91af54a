"""Processes that start in a moment: forked from a server that has imported torch and anydepth, and run neither yet."""

import multiprocessing
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from anydepth.cli.main import main

_IMPORTED = [
    "anydepth.train.training",
    "anydepth.data.sources.digits",
    "sklearn.model_selection",
    "torch._dynamo",
    "processes",
]
"""What a training needs, and torch imports late."""
_FORKED = multiprocessing.get_context("forkserver")
_FORKED.set_forkserver_preload(_IMPORTED)


class Started:
    """A process, with the part of `subprocess.Popen` that the tests need."""

    def __init__(self, folder: Path, work: Callable[..., Any], *given: Any, **environment: str):
        folder.mkdir(parents=True, exist_ok=True)
        self.told = [folder / f"{os.getpid()}-{id(self)}.{name}" for name in ("out", "err")]
        self._process = _FORKED.Process(target=_run, args=(self.told, environment, work, given), daemon=True)
        self._process.start()

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for its end; what it wrote to standard output and standard error."""
        self._process.join(timeout)
        assert self.returncode is not None, f"still running after {timeout} s"
        out, err = (path.read_text() if path.exists() else "" for path in self.told)
        return out, err

    def send_signal(self, number: int) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def kill(self) -> None:
        self._process.kill()


def _run(told: list[Path], environment: dict[str, str], work: Callable[..., Any], given: tuple[Any, ...]) -> None:
    for descriptor, path in zip((1, 2), told, strict=True):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
    os.environ.update(environment)
    work(*given)


def command(folder: Path, *words: object, **environment: str) -> Started:
    """`anydepth WORDS` in a process of its own; what it says is kept in the folder."""
    return Started(folder, main, [str(word) for word in words], **environment)


def ranks(folder: Path, count: int, *words: object) -> list[Started]:
    """`anydepth WORDS` in processes that find each other as those of torchrun do."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    common = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port), "WORLD_SIZE": str(count)}
    return [command(folder, *words, **common, RANK=str(rank), LOCAL_RANK=str(rank)) for rank in range(count)]
