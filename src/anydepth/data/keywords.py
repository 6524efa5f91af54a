"""Inputs that a model takes by keyword."""

from collections.abc import Iterable, Mapping

from torch import Tensor


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
