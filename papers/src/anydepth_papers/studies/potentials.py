"""Potentials with a given number of minima, in which particles with friction come to rest.

K minima, D dimensions, n points.
"""

from abc import ABC, abstractmethod
from functools import cache, cached_property

import numpy as np
from numpy.polynomial import polynomial
from numpy.typing import NDArray

Real = NDArray[np.float64]

_TRAP_RADIUS = 0.2
"""A particle counts as at rest once it cannot leave the ball of this radius around a minimum."""
_SAFETY = 0.5
"""The rim of that ball is sampled, so only this share of its least height is relied on."""

_WIDTH = 0.3
_STRENGTH = 0.135
_SPACING = 1.25
_IRREGULARITY = 0.1
"""With these, barriers between neighbouring wells are 0.2 or so, as in the polynomial, whose are 0.08 to 0.35."""


class Potential(ABC):
    """V(x), which grows without bound, so that no particle escapes."""

    minima: Real
    """Where the minima are, (K, D)."""
    box: tuple[Real, Real]
    """Least and greatest starting positions, each (D,)."""
    time_step: float
    """About a tenth of the shortest time scale, at which RK4 errs by 1e-6 a step."""

    @abstractmethod
    def energy(self, x: Real) -> Real:
        """V at points (n, D)."""

    @abstractmethod
    def gradient(self, x: Real) -> Real:
        """The derivatives of V at points (n, D)."""

    @cached_property
    def trap_energies(self) -> Real:
        """Total energy below which a particle in the ball around each minimum must stay in it, (K,)."""
        dimensions = self.minima.shape[1]
        axes = np.eye(dimensions)
        random = np.random.default_rng(0).standard_normal((256, dimensions))
        directions = np.concatenate([axes, -axes, random / np.linalg.norm(random, axis=1, keepdims=True)])
        bottom = self.energy(self.minima)
        rims = [self.energy(centre + _TRAP_RADIUS * directions).min() for centre in self.minima]
        return bottom + _SAFETY * (np.array(rims) - bottom)

    def resting_place(self, x: Real, v: Real) -> NDArray[np.int64]:
        """The minimum in whose ball a particle is caught for good, -1 while there is none."""
        squares = ((x[:, None] - self.minima) ** 2).sum(2)
        nearest = squares.argmin(1)
        is_caught = squares[np.arange(len(x)), nearest] < _TRAP_RADIUS**2
        is_caught &= self.energy(x) + (v**2).sum(1) / 2 < self.trap_energies[nearest]
        return np.where(is_caught, nearest, -1)


class ThreeMinima(Potential):
    """V = 0.2 (x - 2)(x - 0.5)(x + 1)(x + 0.6)(x - 1.6) x, of Ott et al. 2020, sec. 3.2, started in [-1, 2]."""

    time_step = 0.03  # the slopes outside [-1, 2] are steep

    def __init__(self):
        self._coefficients = 0.2 * polynomial.polyfromroots((2, 0.5, -1, -0.6, 1.6, 0))
        self._slope = polynomial.polyder(self._coefficients)
        turning_points = np.sort(polynomial.polyroots(self._slope).real)
        self.minima = np.array(turning_points[::2, None], np.float64)  # minima and maxima take turns
        self.box = (np.array([-1.0]), np.array([2.0]))

    def energy(self, x: Real) -> Real:
        return np.asarray(polynomial.polyval(x[:, 0], self._coefficients), np.float64)

    def gradient(self, x: Real) -> Real:
        return np.asarray(polynomial.polyval(x, self._slope), np.float64)


class Wells(Potential):
    """V = -s log sum_k w_k exp(-|x - c_k|^2 / 2 sigma^2): a well near each c_k, paraboloids far out.

    The centres c_k sit in cells of a grid, each a little off the middle, and are of unequal depth w_k. The grid
    grows with the number of minima, so that distances, barriers and times of rest do not depend on it.
    """

    time_step = 0.1

    def __init__(self, minima: int, dimensions: int):
        random = np.random.default_rng([minima, dimensions])
        side = next(side for side in range(1, minima + 1) if side**dimensions >= minima)
        self._centres = _SPACING * (
            _cells(random, minima, dimensions, side)
            + 0.5
            + random.uniform(-_IRREGULARITY, _IRREGULARITY, (minima, dimensions))
        )
        self._log_weights = random.uniform(-0.3, 0.3, minima)
        self.box = (np.zeros(dimensions), np.full(dimensions, _SPACING * side))
        self.minima = self._find_minima()

    def _find_minima(self) -> Real:
        """At rest, x is the mean of the centres weighted by their shares: a contraction near each centre."""
        x = self._centres
        for _ in range(200):
            x = self._shares(x)[0] @ self._centres
        return x

    def _shares(self, x: Real) -> tuple[Real, Real]:
        """The share of each well in the sum (n, K), and the logarithm of the sum (n,)."""
        squares = (x**2).sum(1)[:, None] + (self._centres**2).sum(1) - 2 * x @ self._centres.T
        exponents = self._log_weights - squares / (2 * _WIDTH**2)
        most = exponents.max(1, keepdims=True)
        terms = np.exp(exponents - most)
        total = terms.sum(1, keepdims=True)
        return terms / total, (most + np.log(total))[:, 0]

    def energy(self, x: Real) -> Real:
        return -_STRENGTH * self._shares(x)[1]

    def gradient(self, x: Real) -> Real:
        return _STRENGTH / _WIDTH**2 * (x - self._shares(x)[0] @ self._centres)


def _cells(random: np.random.Generator, count: int, dimensions: int, side: int) -> NDArray[np.int64]:
    """Different cells of a grid, by their whole-number coordinates, (count, D)."""
    if dimensions == 1:
        return np.arange(count)[:, None]
    found: dict[tuple[int, ...], None] = {}
    while len(found) < count:
        found[tuple(random.integers(side, size=dimensions).tolist())] = None
    return np.array(list(found))


@cache
def potential(minima: int, dimensions: int) -> Potential:
    """The published polynomial for three minima on a line, else wells."""
    return ThreeMinima() if (minima, dimensions) == (3, 1) else Wells(minima, dimensions)
