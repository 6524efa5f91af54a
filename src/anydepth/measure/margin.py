"""How far a classifier's first choice is ahead of its second, and how much of that a change of its scores can take."""

import torch
from torch import Tensor

from anydepth.errors import ShapeError


def scores(outputs: Tensor) -> Tensor:
    """Scores of classes along the last axis; a single score z stands for the two classes (0, z)."""
    if not outputs.dim():
        raise ShapeError(
            "scores of classes lie along the last axis, got outputs without any axis; "
            "give outputs [examples, classes], or classes=False if they are numbers"
        )
    single = outputs.unsqueeze(-1) if outputs.dim() == 1 else outputs
    return torch.cat([torch.zeros_like(single), single], -1) if single.shape[-1] == 1 else single


def margins(outputs: Tensor) -> Tensor:
    """The highest score minus the second highest, for every prediction."""
    first, second = scores(outputs).double().topk(2, -1).values.unbind(-1)
    return first - second


def shifts(before: Tensor, after: Tensor) -> Tensor:
    """The most that the difference of any two scores changed, for every prediction.

    Where it is below the margin, the prediction cannot have changed.
    """
    change = scores(after).double() - scores(before).double()
    return change.amax(-1) - change.amin(-1)
