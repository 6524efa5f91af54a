"""How well a model does: the loss of a batch, what counts as right, and both over a part of the data."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from time import perf_counter

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from anydepth.block.block import ContinuousBlock
from anydepth.data.facts import Facts, Task
from anydepth.data.table import IGNORED, Batch, Table
from anydepth.errors import ConfigError, DataError, NumericalError
from anydepth.json_values import JsonObject
from anydepth.reporting import Report


@dataclass(frozen=True)
class Tally:
    """Sums over examples (words, for tagging): of losses, of how many are right or squared errors, and their number."""

    loss: float = 0.0
    right: float = 0.0
    count: int = 0

    def numbers(self) -> tuple[float, float, float]:
        return self.loss, self.right, float(self.count)

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(self.loss + other.loss, self.right + other.right, self.count + other.count)


METRIC = {"classify": "accuracy", "tag": "accuracy", "regress": "rmse"}
"""What a task reports beside the loss: per cent right, or the root of the mean squared error."""


def loss_of(task: Task, outputs: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
    """Mean over the examples of a batch, in at least float32."""
    outputs = outputs if outputs.dtype == torch.float64 else outputs.float()
    if task == "regress":
        _check_shapes(outputs, targets)
        return (outputs - targets).square().mean()
    if not bool((targets != IGNORED).any()):
        return 0 * outputs.sum()  # a share of a batch without a word
    return cross_entropy(outputs.flatten(0, -2), targets.flatten(), label_smoothing=smoothing, ignore_index=IGNORED)


def tally(task: Task, outputs: Tensor, targets: Tensor, loss: float) -> Tally:
    """What one batch adds to the sums; `loss` is its mean."""
    if task == "regress":
        count = len(targets)
        squared = (outputs.detach() - targets).double().square().mean().item()
        return Tally(loss * count, squared * count, count)
    counted = targets != IGNORED
    right = ((outputs.detach().argmax(-1) == targets) & counted).sum().item()
    count = int(counted.sum())
    return Tally(loss * count, right, count)


def metric(task: Task, sums: Tally) -> float:
    """Per cent right, or root mean squared error."""
    share = sums.right / max(1, sums.count)
    return share**0.5 if task == "regress" else 100 * share


def _check_shapes(outputs: Tensor, targets: Tensor) -> None:
    if outputs.shape != targets.shape:
        raise ConfigError(
            f"the model gives {tuple(outputs.shape)}, the targets are {tuple(targets.shape)}; choose a model that fits"
        )


@dataclass(frozen=True)
class Score:
    """How a model does on one part."""

    loss: float
    metric: str
    value: float
    examples: int
    nfe: int
    seconds: float

    def named(self, part: str) -> JsonObject:
        """JSON values whose names carry the part."""
        return {f"{part}_loss": self.loss, f"{part}_{self.metric}": self.value}


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode and no gradients; afterwards every module is in the mode it was in."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def batches_of(table: Table, facts: Facts, size: int) -> Iterator[Batch]:
    """All examples in order; those of like length together where lengths vary."""
    order = np.arange(len(table)) if table.lengths is None else np.argsort(table.lengths, kind="stable")
    for start in range(0, len(table), size):
        yield table.batch(order[start : start + size], facts)


def nfe_of(model: nn.Module) -> int:
    """Evaluations of all units in the last forward pass."""
    return sum(module.nfe for module in model.modules() if isinstance(module, ContinuousBlock))


def nfe_by_plan(model: nn.Module) -> int:
    """Evaluations of all units in a pass with the blocks' own steps; of adaptive blocks, in the last pass."""
    blocks = [module for module in model.modules() if isinstance(module, ContinuousBlock)]
    return sum(block.nfe if block.plan is None else block.plan.evaluations for block in blocks)


def evaluate(
    model: nn.Module,
    table: Table,
    facts: Facts,
    batch: int = 500,
    precision: AbstractContextManager | None = None,
    report: Report | None = None,
    total: Callable[[Sequence[float]], list[float]] = list,
) -> Score:
    """Loss and metric of a model on one part of the data; `total` adds up numbers over ranks that share the part."""
    examples = int(total([float(len(table))])[0])
    if not examples:
        raise DataError("this part of the data is empty; there is nothing to evaluate")
    sums, done, began = Tally(), 0, perf_counter()
    with evaluating(model), precision or nullcontext():
        for inputs, targets in (fitting(model, part) for part in batches_of(table, facts, batch)):
            outputs = model(*inputs)
            loss = float(loss_of(facts.task, outputs, targets))
            sums += tally(facts.task, outputs, targets, loss)
            done += len(targets)
            if report is not None:
                report("evaluating", done / len(table))
    loss, right, count = total(sums.numbers())
    sums = Tally(loss, right, int(count)) if np.isfinite(loss) else Tally(loss)
    if not np.isfinite(sums.loss):
        raise NumericalError("the model's outputs are not finite; run it with a finer or a more stable solver")
    seconds = perf_counter() - began
    return Score(sums.loss / sums.count, METRIC[facts.task], metric(facts.task, sums), examples, nfe_of(model), seconds)


def fitting(model: nn.Module, batch: Batch) -> Batch:
    """A batch on the device and in the precision of the model."""
    first = next(model.parameters())
    return batch.to(first.device, first.dtype, channels_last=True)
