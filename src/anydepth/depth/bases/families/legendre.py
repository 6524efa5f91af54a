"""Legendre polynomials on [0, 1] (the polynomial basis of Stateful ODE-Nets App. B, well conditioned)."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np
from numpy.polynomial.legendre import leggauss, legvander

from anydepth.depth.bases import BASES
from anydepth.depth.bases.base import Basis, Knots, even
from anydepth.depth.times import Instant
from anydepth.errors import ConfigError

MAX_LEGENDRE = 128


@dataclass(frozen=True)
class Legendre(Basis):
    """phi_k(t) = P_k(2 t - 1), k = 0 .. size - 1; control points are the Gauss points."""

    name: ClassVar[str] = "legendre"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size > MAX_LEGENDRE:
            raise ConfigError(f"basis 'legendre' goes up to size {MAX_LEGENDRE}, got {self.size}; use 'bspline' beyond")

    @property
    def breakpoints(self) -> Knots:
        return even(1)

    @property
    def degree(self) -> int:
        return self.size - 1

    @property
    def control_points(self) -> tuple[Instant, ...]:
        return tuple(Instant(Fraction((1.0 + point) / 2.0)) for point in leggauss(self.size)[0])

    def evaluate(self, instants: Sequence[Instant]) -> np.ndarray:
        return legvander(np.array([float(2 * instant.time - 1) for instant in instants]), self.size - 1)

    def refined(self) -> Self:
        return type(self)(2 * self.size)


BASES.add(Legendre.name, Legendre)
