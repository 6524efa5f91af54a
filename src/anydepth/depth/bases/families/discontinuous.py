"""Linear on every cell, free to jump between cells (Stateful ODE-Nets Fig 5)."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np

from anydepth.depth.bases import BASES
from anydepth.depth.bases.base import Basis, Knots, even, position
from anydepth.depth.times import Instant, Side
from anydepth.errors import ConfigError


@dataclass(frozen=True)
class Discontinuous(Basis):
    """Two values per cell, at its two ends; size 1 is a single constant."""

    name: ClassVar[str] = "discontinuous"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size > 1 and self.size % 2:
            raise ConfigError(f"basis 'discontinuous' needs size 1 or even, got {self.size}; try {self.size + 1}")

    @property
    def breakpoints(self) -> Knots:
        return even(max(self.size // 2, 1))

    @property
    def degree(self) -> int:
        return min(self.size - 1, 1)

    @property
    def control_points(self) -> tuple[Instant, ...]:
        if self.size == 1:
            return (Instant(Fraction(1, 2)),)
        knots = self.breakpoints
        ends = ((Instant(a, Side.RIGHT), Instant(b, Side.LEFT)) for a, b in itertools.pairwise(knots))
        return tuple(instant for pair in ends for instant in pair)

    def evaluate(self, instants: Sequence[Instant]) -> np.ndarray:
        if self.size == 1:
            return np.ones((len(instants), 1))
        cells, phi = self.size // 2, np.zeros((len(instants), self.size))
        for row, instant in zip(phi, instants, strict=True):
            cell, along = position(cells, instant)
            row[2 * cell], row[2 * cell + 1] = 1.0 - along, along
        return phi

    def refined(self) -> Self:
        return type(self)(2 * self.size)


BASES.add(Discontinuous.name, Discontinuous)
