"""One part of a dataset in memory, and batches of it."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from anydepth.data.facts import Facts
from anydepth.data.order import Draw, Indices


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


IGNORED = -100
"""Target of positions that do not count, such as padding."""


def hash_of(*parts: object) -> str:
    """Of arrays or bytes."""
    found = blake2b(digest_size=16)
    for part in parts:
        found.update(part if isinstance(part, bytes) else np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
    return found.hexdigest()


class Batch(NamedTuple):
    """What the model is called with, and what it should say."""

    inputs: tuple[Tensor, ...]
    targets: Tensor

    def to(self, device: torch.device, dtype: torch.dtype, channels_last: bool = False) -> "Batch":
        """Moved to a device; what is floating also to a dtype, images also to a layout."""

        def moved(x: Tensor) -> Tensor:
            x = x.to(device, dtype) if x.is_floating_point() else x.to(device)
            return x.to(memory_format=torch.channels_last) if channels_last and x.dim() == 4 else x

        return Batch(like_inputs(self.inputs, [moved(x) for x in self.inputs]), moved(self.targets))


class Augment(NamedTuple):
    """Random changes of training examples.

    Images are shifted by up to `crop` pixels and mirrored; a word that was seen n times is shown as unknown with
    probability hide / (hide + n), so that a model learns what to make of words that it does not know.
    """

    crop: int = 0
    flip: bool = False
    hide: float = 0.0


class Table(ABC):
    """Examples of one part: images, vectors or sentences."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def take(self, indices: Indices) -> Self:
        """Some of the examples."""

    def some(self, count: int | None) -> Self:
        """As many examples as asked for, spread over the part; None: all."""
        if count is None or count >= len(self):
            return self
        return self.take(np.linspace(0, len(self) - 1, count).round().astype(np.int64))

    @abstractmethod
    def facts(self) -> Facts:
        """What a model needs to know; asked of the training part only."""

    @abstractmethod
    def batch(self, indices: Indices, facts: Facts, augment: Augment | None = None, draw: Draw | None = None) -> Batch:
        """Inputs ready for the model; changed at random if both `augment` and `draw` are given."""

    @abstractmethod
    def digest(self) -> str:
        """A hash of all examples, to tell whether data is the same."""

    @property
    def lengths(self) -> Indices | None:
        """How long each example is, where that varies."""
        return None
