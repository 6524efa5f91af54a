"""A smoothing between two steps, kept in a hidden folder beside its result, so that a stopped one resumes."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from warnings import warn

from torch import nn
from torch.optim import Optimizer

from anydepth import artifact
from anydepth.block.form import weights_of
from anydepth.errors import AnydepthWarning, ModelFileError, StoppedError, StorageError
from anydepth.runs.checkpoint_files import (
    FOLDER,
    Contents,
    Snapshot,
    manifests,
    read_checkpoint,
    take,
    tidy,
    write_checkpoint,
)
from anydepth.runs.lock import locked
from anydepth.runs.progress import Progress
from anydepth.surgery.store import describe_blocks, fill
from anydepth.train.interrupt import Interrupt, interruptible
from anydepth.train.snapshot import fill_moments, moments_of

_MODEL, _OPTIMIZER = "model/", "optimizer/"
_EVERY = 30.0
"""Seconds between checkpoints."""


class SmoothingState:
    """Checkpoints of one smoothing; those of one with other settings are dropped."""

    def __init__(self, folder: Path, identity: str, interrupt: Interrupt):
        self.folder, self._identity, self._interrupt = folder, identity, interrupt
        self._saved = monotonic()

    def restore(self, student: nn.Module, optimizer: Optimizer) -> tuple[int, int]:
        """Put a smoothing at its newest intact checkpoint; steps and evaluations done, none if there is none."""
        for path in manifests(self.folder):
            try:
                contents, tensors = read_checkpoint(path, self._identity)
                if contents.blocks != json.loads(json.dumps(describe_blocks(student))):
                    raise ValueError("it is of another form of the model")
                fill_moments(student, optimizer, take(tensors, _OPTIMIZER))
                fill(student, contents.blocks, take(tensors, _MODEL), self.folder)
                return contents.progress.step, contents.progress.evaluations
            except (ModelFileError, StorageError, LookupError, ValueError) as error:
                optimizer.state.clear()
                _say(f"{path} cannot be used ({error}); trying the one before")
        return 0, 0

    def keep(self, student: nn.Module, optimizer: Optimizer, step: int, spent: int, total: int) -> None:
        """Save what is due after a step; stop if a signal came."""
        signal = self._interrupt.received
        if step < total and not signal and monotonic() - self._saved < _EVERY:
            return
        tensors = {_MODEL + name: tensor for name, tensor in weights_of(student).items()}
        tensors |= {_OPTIMIZER + name: tensor for name, tensor in moments_of(student, optimizer).items()}
        progress, blocks = Progress(step=step, evaluations=spent), describe_blocks(student)
        contents = Contents(run=self._identity, progress=progress, metrics_bytes=0, blocks=blocks)
        write_checkpoint(self.folder, step, 0, Snapshot(contents, tensors))
        self._saved = monotonic()
        if signal and step < total:
            raise StoppedError(
                f"stopped by signal {signal} after step {step} of {total}, which is saved; "
                "give the same command again to resume",
                signal,
            )


@contextmanager
def smoothing_state(target: Path, about: dict[str, object]) -> Iterator[SmoothingState]:
    """The state of the smoothing that is to fill `target`; `about` is everything that decides the result."""
    identity = artifact.digest(json.dumps(about, sort_keys=True).encode())
    folder = _folder(target)
    if folder.is_symlink():
        raise ModelFileError(f"{folder} is a link, expected a folder; nothing is written through it")
    artifact.make_folder(folder)
    with locked(folder), interruptible() as interrupt:
        if any(not _is_of(path, identity) for path in manifests(folder)):
            _say(f"a stopped smoothing with other settings or data in {folder} is discarded")
            shutil.rmtree(folder / FOLDER)
        tidy(folder)
        try:
            yield SmoothingState(folder, identity, interrupt)
        finally:
            if not manifests(folder):
                shutil.rmtree(folder, ignore_errors=True)


def remove_state(target: Path) -> None:
    """Once `target` is there, what led to it is no longer needed."""
    shutil.rmtree(_folder(target), ignore_errors=True)


def _folder(target: Path) -> Path:
    place = Path(os.path.realpath(target))
    return place.parent / f".{place.name}.smoothing"


def _is_of(manifest: Path, identity: str) -> bool:
    try:
        return artifact.read_json(manifest).get("run") == identity
    except (ModelFileError, StorageError):
        return True  # damaged: restore says so


def _say(message: str) -> None:
    warn(message, AnydepthWarning, stacklevel=4)
