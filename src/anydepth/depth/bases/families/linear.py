"""Continuous piecewise linear functions: hats centred at the nodes (Stateful ODE-Nets eq 6, corrected)."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np

from anydepth.depth.bases import BASES
from anydepth.depth.bases.base import Basis, Knots, bisected, check_knots, even, position
from anydepth.depth.times import Instant, Side


@dataclass(frozen=True)
class Linear(Basis):
    """One value per node, nodes at (k-1)/(K-1); `knots` are the nodes, empty when uniform."""

    name: ClassVar[str] = "linear"
    knots: Knots = ()

    @classmethod
    def on_knots(cls, knots: Knots) -> Self:
        check_knots(cls.name, knots)
        return cls(len(knots), () if knots == even(len(knots) - 1) else knots)

    @property
    def breakpoints(self) -> Knots:
        return self.knots or even(max(self.size - 1, 1))

    @property
    def degree(self) -> int:
        return min(self.size - 1, 1)

    @property
    def control_points(self) -> tuple[Instant, ...]:
        if self.size == 1:
            return (Instant(Fraction(1, 2)),)
        *nodes, end = self.breakpoints
        return (*(Instant(node) for node in nodes), Instant(end, Side.LEFT))

    def evaluate(self, instants: Sequence[Instant]) -> np.ndarray:
        if self.size == 1:
            return np.ones((len(instants), 1))
        cells, phi = self.knots or self.size - 1, np.zeros((len(instants), self.size))
        for row, instant in zip(phi, instants, strict=True):
            cell, along = position(cells, instant)
            row[cell], row[cell + 1] = 1.0 - along, along
        return phi

    def refined(self) -> Self:
        return type(self)(2) if self.size == 1 else type(self).on_knots(bisected(self.breakpoints))

    def describe(self) -> dict:
        return super().describe() | ({"knots": [str(knot) for knot in self.knots]} if self.knots else {})


BASES.add(Linear.name, Linear)
