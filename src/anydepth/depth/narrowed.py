"""Coefficients of one basis read as functions of a smaller one: what projecting them would give, without doing it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from anydepth.depth.bases.base import Basis, Knots
from anydepth.depth.times import Instant
from anydepth.depth.transfer import transfer
from anydepth.errors import ConfigError


@dataclass(frozen=True)
class Narrowed(Basis):
    """psi_k(t) = sum_j phi_j(t) T[j, k], where T projects `own` onto `small` and phi are the functions of `small`.

    The coefficients stay those of `own`, and gradients reach them through T. The functions are dependent, so that this
    basis is for reading only.
    """

    name: ClassVar[str] = "narrowed"
    own: Basis
    small: Basis

    @property
    def breakpoints(self) -> Knots:
        return self.small.breakpoints

    @property
    def degree(self) -> int:
        return self.small.degree

    @property
    def control_points(self) -> tuple[Instant, ...]:
        return self.own.control_points

    def evaluate(self, instants: Sequence[Instant]) -> np.ndarray:
        return self.small.evaluate(instants) @ transfer(self.own, self.small, "project")

    def refined(self) -> Self:
        raise ConfigError("a narrowed basis is for reading; refine the model in its own form")

    def describe(self) -> dict:
        """What is stored belongs to the wider basis."""
        return self.own.describe()

    def __str__(self) -> str:
        return f"{self.own} as {self.small}"


def narrowed(own: Basis, small: Basis) -> Basis:
    """`own` itself where there is nothing to narrow."""
    return own if small == own else Narrowed(own.size, own, small)
