"""Cubic B-splines on uniform cells, of lower degree while there are fewer than four functions."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np

from anydepth.depth.bases import BASES
from anydepth.depth.bases.base import Basis, Knots, even, locate
from anydepth.depth.times import Instant, Side


@dataclass(frozen=True)
class BSpline(Basis):
    """Clamped B-splines of degree min(3, size - 1); control points are the Greville points."""

    name: ClassVar[str] = "bspline"

    @property
    def degree(self) -> int:
        return min(3, self.size - 1)

    @property
    def breakpoints(self) -> Knots:
        return even(self.size - self.degree)

    @property
    def _clamped(self) -> Knots:
        ends = (Fraction(0),) * self.degree, (Fraction(1),) * self.degree
        return ends[0] + self.breakpoints + ends[1]

    @property
    def control_points(self) -> tuple[Instant, ...]:
        if self.degree == 0:
            return (Instant(Fraction(1, 2)),)
        knots = self._clamped
        means = (sum(knots[k + 1 : k + 1 + self.degree], Fraction(0)) / self.degree for k in range(self.size))
        return tuple(Instant(mean, Side.LEFT if mean == 1 else Side.RIGHT) for mean in means)

    def evaluate(self, instants: Sequence[Instant]) -> np.ndarray:
        cells, knots, phi = self.size - self.degree, self._clamped, np.zeros((len(instants), self.size))
        for row, instant in zip(phi, instants, strict=True):
            cell = locate(cells, instant)
            row[cell : cell + self.degree + 1] = _local(knots, self.degree, cell, instant.time)
        return phi

    def refined(self) -> Self:
        """Raise the degree to cubic (1, 2, 4), then insert a knot in every cell."""
        return type(self)({1: 2, 2: 4, 3: 4}.get(self.size, 2 * self.size - 3))


def _local(knots: Knots, degree: int, cell: int, time: Fraction) -> list[float]:
    """The degree + 1 splines that live on a cell, by the Cox-de Boor recursion."""
    values = [1.0]
    span = cell + degree
    for d in range(1, degree + 1):
        raised = [0.0] * (d + 1)
        for j, value in enumerate(values):
            left, right = knots[span - d + 1 + j], knots[span + 1 + j]
            share = float((time - left) / (right - left))
            raised[j] += (1.0 - share) * value
            raised[j + 1] += share * value
        values = raised
    return values


BASES.add(BSpline.name, BSpline)
