"""Resuming: the newest checkpoint that is whole and fits the run."""

from typing import TYPE_CHECKING
from warnings import warn

from anydepth.errors import AnydepthWarning, ModelFileError, StorageError
from anydepth.runs.checkpoint_files import FOLDER, manifests, read_checkpoint, remove_newer
from anydepth.train.snapshot import restore

if TYPE_CHECKING:
    from anydepth.train.trainer import Trainer


def resume_newest(trainer: "Trainer") -> tuple[int, int] | None:
    """Put a trainer at the newest usable checkpoint: its step and level; None if there never was one.

    One whose lines of metrics are lost is used only when no other can be.
    """
    run, found = trainer.run, manifests(trainer.run.folder)
    has_lines = run.metrics_bytes()
    for needed in (has_lines, None):
        for path in found:
            try:
                size = restore(trainer, read_checkpoint(path, run.record_hash()))
            except (ModelFileError, StorageError) as error:
                if needed is not None:
                    _say(f"checkpoint {path.stem} cannot be used: {error}; trying the one before")
                continue
            if needed is not None and size > needed:
                continue
            if needed is None:
                _say(f"lines of {run.folder}'s metrics are lost; continuing without them")
            remove_newer(run.folder, path)
            run.cut_metrics(size)
            return trainer.progress.step, trainer.progress.level
    if found:
        raise ModelFileError(f"none of the checkpoints in {run.folder / FOLDER} can be used; train into another folder")
    run.cut_metrics(0)
    return None


def resume_at(trainer: "Trainer", step: int, level: int) -> None:
    """Put a trainer at the checkpoint that the first rank chose."""
    name = f"step-{step:09d}-level-{level:03d}.json"
    restore(trainer, read_checkpoint(trainer.run.folder / FOLDER / name, trainer.run.record_hash()))


def _say(message: str) -> None:
    warn(message, AnydepthWarning, stacklevel=4)
