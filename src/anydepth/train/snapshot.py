"""A training between two steps, as a checkpoint, and back: everything that decides how it continues."""

from dataclasses import dataclass
from warnings import warn

import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from anydepth.block.form import weights_of
from anydepth.errors import AnydepthWarning, ModelFileError, StorageError
from anydepth.runs.checkpoint_files import (
    FOLDER,
    Contents,
    Snapshot,
    manifests,
    read_checkpoint,
    remove_newer,
    take,
    write_checkpoint,
)
from anydepth.runs.config import RunConfig
from anydepth.runs.folder import Run
from anydepth.runs.progress import Progress
from anydepth.surgery.store import describe_blocks, fill
from anydepth.train.control.controller import Controller
from anydepth.train.optimization import make_optimizer
from anydepth.train.stall import refined_at

_MODEL, _AVERAGE, _OPTIMIZER = "model/", "average/", "optimizer/"


@dataclass(eq=False)
class Training:
    """What a training is, and where it is."""

    config: RunConfig
    run: Run
    model: nn.Module
    average: nn.Module | None
    optimizer: Optimizer
    progress: Progress
    controller: Controller | None
    total: int
    """Steps of the optimiser."""
    places: list[int]
    """The steps before which the model grows by its settings."""

    @property
    def refine_at(self) -> list[int]:
        """The steps before which the model grows, as far as they are known."""
        return refined_at(self.places, self.progress)


def write_snapshot(training: Training) -> None:
    """Add a checkpoint."""
    size = training.run.metrics_bytes()
    training.run.cut_metrics(size)  # and make it last, before a checkpoint relies on it
    progress = training.progress
    write_checkpoint(training.run.folder, progress.step, progress.level, _captured(training, size))


def _captured(training: Training, metrics_bytes: int) -> Snapshot:
    model, average = training.model, training.average
    tensors = {_MODEL + name: tensor for name, tensor in weights_of(model).items()}
    if average is not None:
        tensors |= {_AVERAGE + name: tensor for name, tensor in weights_of(average).items()}
    tensors |= {_OPTIMIZER + name: tensor for name, tensor in moments_of(model, training.optimizer).items()}
    contents = Contents(
        run=training.run.record_hash(),
        progress=training.progress,
        metrics_bytes=metrics_bytes,
        blocks=describe_blocks(model),
        average_blocks=None if average is None else describe_blocks(average),
    )
    return Snapshot(contents, tensors)


def _restore(training: Training, snapshot: Snapshot) -> int:
    """Put a training where the snapshot was; returns the bytes of metrics that belong to it."""
    contents, tensors = snapshot
    progress, origin = contents.progress, training.run.folder / FOLDER
    try:
        grows = refined_at(training.places, progress)
        due = sum(place < progress.step for place in grows)
        is_refined = progress.level in (due, due + (progress.step in grows))
        if progress.step > training.total or not is_refined or progress.sums.count < 0:
            raise ValueError(f"step {progress.step} of {training.total} at level {progress.level}")
        if training.controller is not None:
            training.controller.recall(progress.memory)
        fill(training.model, contents.blocks, take(tensors, _MODEL), origin)
        if training.average is not None:
            if contents.average_blocks is None:
                raise ValueError("it has no average of the weights")
            fill(training.average, contents.average_blocks, take(tensors, _AVERAGE), origin)
            training.average.requires_grad_(False)
        training.optimizer = make_optimizer(training.model, training.config.optimizer)
        fill_moments(training.model, training.optimizer, take(tensors, _OPTIMIZER))
        training.progress = progress
        return contents.metrics_bytes
    except (LookupError, TypeError, ValueError, RuntimeError) as error:
        raise ModelFileError(f"the checkpoint in {origin} does not fit this run: {error}") from error


def moments_of(model: nn.Module, optimizer: Optimizer) -> dict[str, Tensor]:
    """What the optimiser remembers, by the names of the parameters: name/moment."""
    return {
        f"{name}/{key}": value
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
        if isinstance(value, Tensor)
    }


def fill_moments(model: nn.Module, optimizer: Optimizer, moments: dict[str, Tensor]) -> None:
    """Give an optimiser of the model what `moments_of` found; it is unchanged when that does not fit."""
    parameters, found = dict(model.named_parameters()), dict[str, dict[str, Tensor]]()
    for path, value in moments.items():
        name, _, key = path.rpartition("/")
        found.setdefault(name, {})[key] = value
    for name, own in found.items():
        _check_moments(name, own, parameters[name], optimizer)
    for name, own in found.items():
        place = parameters[name].device
        optimizer.state[parameters[name]] = {k: v if k == _COUNT else v.to(place) for k, v in own.items()}


_COUNT = "step"


def _check_moments(name: str, found: dict[str, Tensor], parameter: Tensor, optimizer: Optimizer) -> None:
    """Refuse what would fail in the next step of the optimiser."""
    expected = {"momentum_buffer"} if isinstance(optimizer, SGD) else {_COUNT, "exp_avg", "exp_avg_sq"}
    if found.keys() != expected:
        raise ValueError(f"moments of {name!r} are {', '.join(sorted(found))}, expected {', '.join(sorted(expected))}")
    for key, value in found.items():
        shape, kind = (parameter.shape, parameter.dtype) if key != _COUNT else ((), torch.float32)
        if value.shape != shape or value.dtype != kind:
            told = f"{value.dtype} {tuple(value.shape)}, expected {kind} {tuple(shape)}"
            raise ValueError(f"moment {key!r} of {name!r} is {told}")
        if key == _COUNT and not 1 <= float(value) <= 2**53:
            raise ValueError(f"moment {key!r} of {name!r} is {float(value)}, expected the number of a step")


# Resuming


def resume_newest(training: Training) -> tuple[int, int] | None:
    """Put a training at the newest checkpoint that is whole and fits: its step and level; None if there never was one.

    One whose lines of metrics are lost is used only when no other can be.
    """
    run, found = training.run, manifests(training.run.folder)
    has_lines = run.metrics_bytes()
    for needed in (has_lines, None):
        for path in found:
            try:
                size = _restore(training, read_checkpoint(path, run.record_hash()))
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
            return training.progress.step, training.progress.level
    if found:
        raise ModelFileError(f"none of the checkpoints in {run.folder / FOLDER} can be used; train into another folder")
    run.cut_metrics(0)
    return None


def resume_at(training: Training, step: int, level: int) -> None:
    """Put a training at the checkpoint that the first rank chose."""
    name = f"step-{step:09d}-level-{level:03d}.json"
    _restore(training, read_checkpoint(training.run.folder / FOLDER / name, training.run.record_hash()))


def _say(message: str) -> None:
    warn(message, AnydepthWarning, stacklevel=4)
