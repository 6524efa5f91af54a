"""What is learnt: the loss of a batch, and what counts as right."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from anydepth.data.facts import Task
from anydepth.data.table import IGNORED
from anydepth.errors import ConfigError


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
