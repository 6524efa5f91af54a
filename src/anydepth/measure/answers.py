"""What models are called with and what they answer: tensors in order or by keyword, scores or a mapping of outputs."""

from collections.abc import Mapping
from inspect import signature
from typing import Any

from torch import Tensor, nn

from anydepth.data.keywords import Keywords
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


def scores_in(outputs: Any) -> Any:
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
