"""What models are called with and what they answer: tensors in order or by keyword, scores or a mapping of outputs."""

from collections.abc import Iterable, Mapping
from inspect import signature
from typing import Any

from torch import Tensor, nn

from anydepth.errors import ConfigError, ShapeError

SCORES = ("logits", "prediction_logits", "last_hidden_state")
"""What transformers calls the output that counts."""


class Keywords(tuple[Tensor, ...]):
    """Tensors that a model takes by keyword, in order."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, named: Mapping[str, Tensor]) -> "Keywords":
        return cls.renewed(named.values(), tuple(named))

    @classmethod
    def renewed(cls, tensors: Iterable[Tensor], names: tuple[str, ...]) -> "Keywords":
        made = cls(tensors)
        made.names = names
        return made


def like_inputs(inputs: tuple[Tensor, ...], tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """Other tensors in the place of the inputs."""
    return Keywords.renewed(tensors, inputs.names) if isinstance(inputs, Keywords) else tuple(tensors)


def call(model: nn.Module, inputs: tuple[Tensor, ...]) -> Any:
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
    return scores_in(call(model, inputs))


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
