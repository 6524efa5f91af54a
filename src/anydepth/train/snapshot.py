"""A trainer as a snapshot, and back: everything that decides how the training goes on."""

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.optim import Optimizer

from anydepth.block.form import weights_of
from anydepth.errors import ModelFileError
from anydepth.runs.checkpoint_files import FOLDER, Snapshot, take
from anydepth.runs.progress import Progress
from anydepth.surgery.store import describe_blocks, fill
from anydepth.train.optimization import make_optimizer
from anydepth.train.stall import refined_at

if TYPE_CHECKING:
    from anydepth.train.trainer import Trainer

_MODEL, _AVERAGE, _OPTIMIZER = "model/", "average/", "optimizer/"


def capture(trainer: "Trainer", metrics_bytes: int) -> Snapshot:
    """The training as it is; `metrics_bytes` tells how much of the metrics belongs to it."""
    tensors = {_MODEL + name: tensor for name, tensor in weights_of(trainer.model).items()}
    values: dict[str, Any] = {
        "run": trainer.run.record_hash(),
        "progress": trainer.progress.describe(),
        "metrics_bytes": metrics_bytes,
        "blocks": describe_blocks(trainer.model),
    }
    if trainer.average is not None:
        tensors |= {_AVERAGE + name: tensor for name, tensor in weights_of(trainer.average).items()}
        values["average_blocks"] = describe_blocks(trainer.average)
    tensors |= {_OPTIMIZER + name: tensor for name, tensor in _moments(trainer.model, trainer.optimizer).items()}
    return Snapshot(values, tensors)


def restore(trainer: "Trainer", snapshot: Snapshot) -> int:
    """Put a trainer where the snapshot was; returns the bytes of metrics that belong to it."""
    values, tensors = snapshot
    origin = trainer.run.folder / FOLDER
    try:
        progress = Progress.read(values["progress"])
        grows = refined_at(trainer.places, progress)
        due = sum(place < progress.step for place in grows)
        if progress.step > trainer.total or progress.level not in (due, due + (progress.step in grows)):
            raise ValueError(f"step {progress.step} of {trainer.total} at level {progress.level}")
        if trainer.controller is not None:
            trainer.controller.recall(progress.memory)
        fill(trainer.model, values["blocks"], take(tensors, _MODEL), origin)
        if trainer.average is not None:
            fill(trainer.average, values["average_blocks"], take(tensors, _AVERAGE), origin)
            trainer.average.requires_grad_(False)
        trainer.optimizer = make_optimizer(trainer.model, trainer.config.optimizer)
        _fill_moments(trainer.model, trainer.optimizer, take(tensors, _OPTIMIZER))
        trainer.progress = progress
        return int(values["metrics_bytes"])
    except (LookupError, TypeError, ValueError, RuntimeError) as error:
        raise ModelFileError(f"the checkpoint in {origin} does not fit this run: {error}") from error


def _moments(model: nn.Module, optimizer: Optimizer) -> dict[str, Tensor]:
    """What the optimiser remembers, by the names of the parameters: name/moment."""
    return {
        f"{name}/{key}": value
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
        if isinstance(value, Tensor)
    }


def _fill_moments(model: nn.Module, optimizer: Optimizer, moments: dict[str, Tensor]) -> None:
    parameters = dict(model.named_parameters())
    for path, value in moments.items():
        name, _, key = path.rpartition("/")
        parameter = parameters[name]
        if value.dim() and value.shape != parameter.shape:
            raise ValueError(f"moment {path!r} has shape {tuple(value.shape)}, expected {tuple(parameter.shape)}")
        is_counter = not value.dim()
        optimizer.state[parameter][key] = value if is_counter else value.to(parameter.device)
