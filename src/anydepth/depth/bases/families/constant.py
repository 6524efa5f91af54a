"""Piecewise constants on half-open cells, the last one closed (ContinuousNet eq 23-25)."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from anydepth.depth.bases import BASES
from anydepth.depth.bases.base import Basis, Knots, bisected, check_knots, even, locate
from anydepth.depth.times import Instant


@dataclass(frozen=True)
class Constant(Basis):
    """One value per cell; `knots` are the cell boundaries, empty when uniform."""

    name: ClassVar[str] = "constant"
    knots: Knots = ()

    @classmethod
    def on_knots(cls, knots: Knots) -> Self:
        check_knots(cls.name, knots)
        size = len(knots) - 1
        return cls(size, () if knots == even(size) else knots)

    @property
    def breakpoints(self) -> Knots:
        return self.knots or even(self.size)

    @property
    def degree(self) -> int:
        return 0

    @property
    def control_points(self) -> tuple[Instant, ...]:
        knots = self.breakpoints
        return tuple(Instant((a + b) / 2) for a, b in itertools.pairwise(knots))

    def evaluate(self, instants: Sequence[Instant]) -> np.ndarray:
        cells, phi = self.knots or self.size, np.zeros((len(instants), self.size))
        for row, instant in zip(phi, instants, strict=True):
            row[locate(cells, instant)] = 1.0
        return phi

    def refined(self) -> Self:
        return type(self).on_knots(bisected(self.breakpoints))

    def describe(self) -> dict:
        return super().describe() | ({"knots": [str(knot) for knot in self.knots]} if self.knots else {})


BASES.add(Constant.name, Constant)
