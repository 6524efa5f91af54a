"""Vectors: points with classes, or with other vectors to be found from them."""

from dataclasses import dataclass
from typing import Self, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray

from anydepth.data.facts import Facts
from anydepth.data.order import Draw, Indices
from anydepth.data.table import Augment, Batch, Table, hash_of


@dataclass(frozen=True, eq=False)
class Examples(Table):
    """Inputs as one array of numbers, an example in a row; targets are classes if there are labels."""

    inputs: NDArray[np.floating]
    targets: NDArray[np.float32] | Indices
    labels: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.inputs)

    def take(self, indices: Indices) -> Self:
        return type(self)(self.inputs[indices], self.targets[indices], self.labels)

    def digest(self) -> str:
        return hash_of(self.inputs, self.targets)


@dataclass(frozen=True, eq=False)
class Vectors(Examples):
    """inputs (count, features) in float32; targets are classes if there are labels, else vectors."""

    def facts(self) -> Facts:
        task = "classify" if self.labels else "regress"
        about: TargetStatistics = {} if self.labels or self.targets.ndim != 2 else target_statistics(self.targets)
        return Facts(task=task, kind="vectors", shape=self.inputs.shape[1:], labels=self.labels, **about)

    def batch(self, indices: Indices, facts: Facts, augment: Augment | None = None, draw: Draw | None = None) -> Batch:
        return Batch((torch.from_numpy(self.inputs[indices]),), torch.from_numpy(self.targets[indices]))


class TargetStatistics(TypedDict, total=False):
    """Settings of `Facts`: none for classes."""

    target_mean: tuple[float, ...]
    target_std: tuple[float, ...]


def target_statistics(targets: NDArray) -> TargetStatistics:
    """Mean and spread of every number that is to be found; those of one value are of spread one."""
    wide = targets.astype(np.float64)
    std = wide.std(0)
    return {"target_mean": tuple(wide.mean(0).tolist()), "target_std": tuple(np.where(std > 0, std, 1.0).tolist())}
