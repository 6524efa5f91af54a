"""Windows of series: channels over some times, with classes or with numbers to be found from them."""

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from anydepth.data.facts import Facts
from anydepth.data.order import Draw, Indices
from anydepth.data.table import Augment, Batch
from anydepth.data.vectors import Examples, TargetStatistics, target_statistics
from anydepth.errors import DataError


@dataclass(frozen=True, eq=False)
class Windows(Examples):
    """inputs (count, times, channels); targets are classes if there are labels, else (count, targets)."""

    _last: list[tuple[Facts, NDArray[np.float32]]] = field(default_factory=list, init=False, repr=False)

    def facts(self) -> Facts:
        """Mean and spread of every channel over all examples and times; a channel of one value is of spread one."""
        if not len(self):
            raise DataError("the training part holds no windows")
        mean, std = self.inputs.mean((0, 1)), self.inputs.std((0, 1))
        # a channel of one value may have a spread that is only rounding
        spread = np.where(std <= 1e-12 * np.abs(mean), 1.0, std)
        about: TargetStatistics = {} if self.labels else target_statistics(self.targets)
        return Facts(
            task="classify" if self.labels else "regress",
            kind="series",
            shape=self.inputs.shape[1:],
            labels=self.labels,
            mean=tuple(mean.tolist()),
            std=tuple(spread.tolist()),
            **about,
        )

    def batch(self, indices: Indices, facts: Facts, augment: Augment | None = None, draw: Draw | None = None) -> Batch:
        """Standardised by channel; runs that took windows for vectors have facts of flat ones."""
        if not self._last or self._last[0][0] is not facts:
            shaped = self.inputs.reshape(len(self), *facts.shape)
            self._last[:] = [(facts, ((shaped - np.array(facts.mean)) / np.array(facts.std)).astype(np.float32))]
        return Batch((torch.from_numpy(self._last[0][1][indices]),), torch.from_numpy(self.targets[indices]))
