"""Kernels in time: theta(t) as an average of the weights' past, the integral of K(t - s) w(s) over s from 0 to t."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import expm1, isfinite
from typing import Any

import numpy as np
from numpy.polynomial.legendre import leggauss

from anydepth.errors import ConfigError, choices

NAMES = ("dirac", "exponential", "box")
_NODES = 6
"""Values of the weights in a cell of their grid, and Gauss points of a panel of an integral."""


@dataclass(frozen=True)
class TimeKernel:
    """K(s): "dirac", the weights themselves; "exponential", exp(-s / width) / width; "box", 1 / width up to s = width.

    As the paper has it (ANODEV2 eq 5d) the average begins with nothing, theta(0) = 0. `normalised` divides by the
    integral of K from 0 to t, so that theta(0) = w(0).
    """

    name: str = "dirac"
    width: float = 1.0
    normalised: bool = False

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise ConfigError(f"unknown kernel in time {self.name!r}; {choices(self.name, NAMES)}")
        if not isinstance(self.width, (int, float)) or not (isfinite(self.width) and self.width >= 1e-6):
            raise ConfigError(f"the width of a kernel in time must be a number from 1e-6, got {self.width!r}")
        if not isinstance(self.normalised, bool):
            raise ConfigError(f"normalised is true or false, got {self.normalised!r}")

    def describe(self) -> dict[str, object]:
        """JSON values."""
        return {"name": self.name, "width": self.width, "normalised": self.normalised}

    def averages(self, times: Sequence[Fraction], grid: Sequence[Fraction]) -> tuple[list[Fraction], np.ndarray]:
        """Times of the weights, and the matrix from the weights there to theta at the given times.

        Between two points of the grid the weights are a polynomial through a few of their values.
        """
        if self.name == "dirac":
            return list(times), np.eye(len(times))
        nodes, _ = leggauss(_NODES)
        cells = list(pairwise(grid))
        places = [a + (b - a) * Fraction((1 + node) / 2) for a, b in cells for node in nodes]
        matrix = np.zeros((len(times), len(cells), _NODES))
        for row, time in zip(matrix, map(float, times), strict=True):
            for part, (a, b) in zip(row, cells, strict=True):
                part[:] = self._cell(time, float(a), float(b), nodes)
            if self.normalised:
                row /= self._whole(time) or 1.0
        flat = matrix.reshape(len(times), -1)
        if self.normalised and not all(times):  # an average over nothing is the value itself
            places, flat = [Fraction(0), *places], np.insert(flat, 0, [float(time == 0) for time in times], axis=1)
        return places, flat

    def _cell(self, time: float, a: float, b: float, nodes: np.ndarray) -> np.ndarray:
        """What each value in a cell contributes to theta at a time."""
        low = max(a, time - self.width) if self.name == "box" else a
        high = min(b, time)
        if low >= high:
            return np.zeros(_NODES)
        near = [time - self.width * 2.0**i for i in range(-1, 6)]
        cuts = np.array(sorted({low, high, *(cut for cut in near if low < cut < high)}))
        points, factors = leggauss(_NODES)
        middle, half = (cuts[1:] + cuts[:-1]) / 2, (cuts[1:] - cuts[:-1]) / 2
        at = (middle[:, None] + half[:, None] * points).ravel()
        weights = (half[:, None] * factors).ravel() * self._value(time - at)
        return weights @ _lagrange(nodes, (2 * at - a - b) / (b - a))

    def _value(self, past: np.ndarray) -> np.ndarray:
        return (
            np.exp(-past / self.width) / self.width
            if self.name == "exponential"
            else np.full_like(past, 1 / self.width)
        )

    def _whole(self, time: float) -> float:
        """The integral of K from 0 to a time."""
        return -expm1(-time / self.width) if self.name == "exponential" else min(time / self.width, 1.0)


def _lagrange(nodes: np.ndarray, at: np.ndarray) -> np.ndarray:
    """[place, j]: the polynomial that is one at node j and zero at the others."""
    found = np.ones((len(at), len(nodes)))
    for j, node in enumerate(nodes):
        others = np.delete(nodes, j)
        found[:, j] = np.prod((at[:, None] - others) / (node - others), axis=1)
    return found


DIRAC = TimeKernel()


def read_kernel(given: "TimeKernel | str | dict[str, Any]") -> TimeKernel:
    """A kernel from its name or its description."""
    if isinstance(given, TimeKernel):
        return given
    if isinstance(given, str):
        return TimeKernel(given)
    try:
        return TimeKernel(**given)
    except TypeError:
        raise ConfigError(f"a kernel in time is a name or has name, width and normalised, got {given!r}") from None
