"""What a basis of functions on [0, 1] must tell."""

import itertools
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral
from typing import ClassVar, Self

import numpy as np

from anydepth.depth.times import Instant
from anydepth.errors import ConfigError

MAX_SIZE = 4096
Knots = tuple[Fraction, ...]


@dataclass(frozen=True)
class Basis(ABC):
    """theta(t) = sum_k phi_k(t) coefficients_k; polynomial of `degree` between `breakpoints`."""

    name: ClassVar[str]
    size: int

    def __post_init__(self) -> None:
        if not isinstance(self.size, Integral) or isinstance(self.size, bool) or not 1 <= self.size <= MAX_SIZE:
            raise ConfigError(
                f"size of basis {self.name!r} must be a whole number from 1 to {MAX_SIZE}, got {self.size!r}"
            )
        object.__setattr__(self, "size", int(self.size))

    @property
    @abstractmethod
    def breakpoints(self) -> Knots:
        """Increasing, from 0 to 1: between two of them every function is a polynomial."""

    @property
    @abstractmethod
    def degree(self) -> int:
        """Largest polynomial degree between breakpoints."""

    @property
    @abstractmethod
    def control_points(self) -> tuple[Instant, ...]:
        """As many instants as functions, at which values determine the coefficients."""

    @abstractmethod
    def evaluate(self, instants: Sequence[Instant]) -> np.ndarray:
        """Design matrix Phi[instant, k], float64."""

    @abstractmethod
    def refined(self) -> Self:
        """The next larger basis of the family that contains this one."""

    @classmethod
    def on_knots(cls, knots: Knots) -> Self:
        """The basis on non-uniform knots, for families that have one."""
        raise ConfigError(f"basis {cls.name!r} has no non-uniform knots; use 'constant' or 'linear'")

    def resized(self, size: int) -> Self:
        """The basis of this family with another size; one on given knots has no rule for that."""
        if size != self.size and self != type(self)(self.size):
            raise ConfigError(
                f"basis {self.name!r} on given knots has size {self.size} and no rule for size {size}; "
                f"name the basis too ({self.name!r}) to go to equal cells"
            )
        return self if size == self.size else type(self)(size)

    def describe(self) -> dict:
        return {"basis": self.name, "size": self.size}

    def __str__(self) -> str:
        return f"{self.name}:{self.size}"


def locate(cells: int | Knots, instant: Instant) -> int:
    """Index of the cell that `instant` reads, among equal cells or between knots.

    The ends belong to the first and last cell.
    """
    time, side = instant
    top, bottom = time.numerator, time.denominator
    if not 0 <= top <= bottom:
        raise ConfigError(f"depth runs from 0 to 1, got time {time}")
    if isinstance(cells, int):
        index = top * cells // bottom if side > 0 else -(-top * cells // bottom) - 1
        return min(max(index, 0), cells - 1)
    index = bisect_right(cells, time) if side > 0 else bisect_left(cells, time)
    return min(max(index - 1, 0), len(cells) - 2)


def position(cells: int | Knots, instant: Instant) -> tuple[int, float]:
    """Cell of `instant`, and how far along the cell it lies, in [0, 1]."""
    cell = locate(cells, instant)
    if isinstance(cells, int):
        return cell, float(instant.time * cells - cell)
    start, end = cells[cell], cells[cell + 1]
    return cell, float((instant.time - start) / (end - start))


def even(cells: int) -> Knots:
    """0, 1/cells, ..., 1."""
    return tuple(Fraction(i, cells) for i in range(cells + 1))


def bisected(knots: Knots) -> Knots:
    """A knot added in the middle of every cell."""
    middles = [(a + b) / 2 for a, b in itertools.pairwise(knots)]
    return tuple(sorted((*knots, *middles)))


def check_knots(name: str, knots: Knots) -> None:
    rising = all(a < b for a, b in itertools.pairwise(knots))
    if len(knots) < 2 or knots[0] != 0 or knots[-1] != 1 or not rising:
        shown = ", ".join(str(knot) for knot in knots[:8])
        raise ConfigError(f"knots of basis {name!r} must increase strictly from 0 to 1, got {shown or 'none'}")
