"""The adjoint equation along states that are known: the optimality conditions of ANODEV2 (eq 7).

With alpha = -l, gamma = (dR/dtheta)^T alpha, the gradient of w0 and p is the integral of (dtheta/d(w0, p))^T gamma.
This solves eq 7c to 7e for any weight function: beta, the adjoint of the weights, is what the derivative of the reading
carries back from the instants to t = 0. (With the kernel in time, from t to 1 of K(s - t)^T gamma(s), where eq 7c
has a factor that would make it vanish.)
"""

from collections.abc import Sequence
from fractions import Fraction

import torch
from torch import Tensor

from anydepth.depth.bases.base import locate
from anydepth.depth.grids import Grid
from anydepth.depth.times import Instant, Side
from anydepth.nn.field import UnitField
from anydepth.nn.gradient import pulled_back
from anydepth.nn.structure import State


class Path:
    """The states of a forward pass at any time: linear between grid points, cubic from order 3 of the scheme on."""

    def __init__(self, field: UnitField, grid: Grid, order: int, states: Sequence[State]):
        self.field, self.times, self.order, self.states = field, grid.times, order, states
        self._slopes: dict[int, tuple[State, State]] = {}

    def at(self, instant: Instant) -> State:
        cell = locate(self.times, instant)
        start, end = self.times[cell], self.times[cell + 1]
        share = (instant.time - start) / (end - start)
        if share in (0, 1):
            return self.states[cell + int(share)]
        before, after = self.states[cell], self.states[cell + 1]
        if self.order < 3:
            return tuple(torch.lerp(a, b, float(share)) for a, b in zip(before, after, strict=True))
        return self._cubic(cell, end - start, float(share))

    def _cubic(self, cell: int, width: Fraction, s: float) -> State:
        """Hermite's polynomial through both states and slopes."""
        if cell not in self._slopes:
            self._slopes[cell] = self._ends(cell)
        reach = float(width * self.field.scale)
        first, last = self._slopes[cell]
        parts = zip(self.states[cell], self.states[cell + 1], first, last, strict=True)
        rise = s * s * (3 - 2 * s)
        return tuple(
            a + rise * (b - a) + reach * s * (1 - s) * ((1 - s) * start - s * end) for a, b, start, end in parts
        )

    def _ends(self, cell: int) -> tuple[State, State]:
        ends = Instant(self.times[cell], Side.RIGHT), Instant(self.times[cell + 1], Side.LEFT)
        with torch.no_grad():
            stages = self.field.stages(ends)
            return stages(0, self.states[cell]), stages(1, self.states[cell + 1])


class CostateStages:
    """d/dt (l, g) = (-l dR/dy, -l dR/dp) at the stages of one step."""

    def __init__(self, path: Path, leaves: Sequence[Tensor], instants: Sequence[Instant]):
        self.path, self.leaves, self.instants = path, leaves, instants

    def __call__(self, stage: int, y: State) -> State:
        instant = self.instants[stage]
        known = self.path.at(instant)
        return pulled_back(self.path.field, instant, self.leaves, known, y[: len(known)])[1]

    def accept(self) -> None:
        """The backward pass leaves the block's state alone."""
