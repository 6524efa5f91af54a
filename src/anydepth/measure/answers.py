"""What models are called with and what they answer: tensors in order or by keyword, scores or a mapping of outputs."""

from collections.abc import Mapping
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

from anydepth.data.table import Keywords
from anydepth.errors import ConfigError, ShapeError

SCORES = ("logits", "prediction_logits", "last_hidden_state")
"""What transformers calls the output that counts."""


def outputs_of(model: nn.Module, inputs: tuple[Tensor, ...]) -> Any:
    """A model's outputs as they are."""
    if not isinstance(inputs, Keywords):
        return model(*inputs)
    named = dict(zip(inputs.names, inputs, strict=True))
    try:
        signature(model.forward).bind(**named)
    except TypeError as error:
        raise ConfigError(
            f"{type(model).__name__} cannot be called with a batch of {', '.join(map(repr, named))}: {error}; the keys "
            "of a batch are the arguments of forward, and 'labels'"
        ) from None
    return model(**named)


def answer(model: nn.Module, inputs: tuple[Tensor, ...]) -> Any:
    """A model's scores: its output, or the one that counts in a mapping of outputs."""
    return scores_in(outputs_of(model, inputs))


def scores_in(outputs: object) -> Any:
    if not isinstance(outputs, Mapping):
        return outputs
    for name in SCORES:
        if isinstance(outputs.get(name), Tensor):
            return outputs[name]
    tensors = [value for value in outputs.values() if isinstance(value, Tensor)]
    if len(tensors) == 1:
        return tensors[0]
    raise ShapeError(
        f"the model returns {', '.join(map(repr, outputs))}, expected 'logits' or one tensor alone; wrap the model so "
        "that it returns the tensor to judge"
    )


# Classes: how far the first choice is ahead of the second, and how much of that a change of the scores can take


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
