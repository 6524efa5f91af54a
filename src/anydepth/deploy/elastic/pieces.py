"""A basis as polynomials on its cells: tables from which a graph works out the weights at any rational time.

On a cell only a few functions are not zero, and each is a polynomial there. So theta at a time is a combination of a
few rows of the coefficients, whose factors are polynomials of how far along its cell the time lies. Which cell that is,
is found by whole numbers.
"""

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.polynomial.legendre import leggauss, legvander

from anydepth.depth.bases import Basis
from anydepth.depth.times import Instant

_ZERO = 1e-13
"""Factors of functions that are this small on a whole cell are none."""


@dataclass(frozen=True)
class Pieces:
    """Tables of a basis: C cells, D powers (Legendre polynomials on the cell), S functions that live on a cell."""

    knots: tuple[Fraction, ...]
    support_CS: np.ndarray
    """Which functions live on each cell."""
    factors_CDS: np.ndarray

    @property
    def is_one_hot(self) -> bool:
        """Whether one function alone is theta on each cell."""
        return self.factors_CDS.shape[1:] == (1, 1) and bool((self.factors_CDS == 1).all())

    def for_all(self, size: int) -> np.ndarray:
        """The same for all functions of the basis; of those that do not live on a cell they are 0."""
        cells, degrees, _ = self.factors_CDS.shape
        found_CDK = np.zeros((cells, degrees, size))
        for cell, support in enumerate(self.support_CS):
            for place, function in enumerate(support):
                found_CDK[cell, :, function] += self.factors_CDS[cell, :, place]
        return found_CDK


def pieces_of(basis: Basis) -> Pieces:
    """By interpolation at as many points of each cell as the degree asks for."""
    knots, degree = tuple(basis.breakpoints), basis.degree
    points = leggauss(degree + 1)[0]
    inverse = np.linalg.inv(legvander(points, degree))
    found = []
    for start, end in pairwise(knots):
        shares = [Fraction((1 + float(point)) / 2) for point in points]
        values = basis.evaluate([Instant(start + (end - start) * share) for share in shares])
        found.append(inverse @ values)
    whole_CDK = np.stack(found)
    alive_CK = np.abs(whole_CDK).max(1) > _ZERO
    width = int(alive_CK.sum(1).max())
    order = np.argsort(~alive_CK, axis=1, kind="stable")[:, :width]
    factors = np.take_along_axis(whole_CDK, order[:, None, :], axis=2)
    factors = np.where(np.abs(factors) > _ZERO, factors, 0.0)
    rounded = np.round(factors)
    return Pieces(knots, order, np.where(np.abs(factors - rounded) < _ZERO, rounded, factors))
