"""Gradients by solving backward in time: the adjoint equation, with the state or along states that are known.

With alpha = -l, gamma = (dR/dtheta)^T alpha, the gradient of w0 and p is the integral of (dtheta/d(w0, p))^T gamma.
Along known states this solves eq 7c to 7e of ANODEV2 for any weight function: beta, the adjoint of the weights, is what
the derivative of the reading carries back from the instants to t = 0. (With the kernel in time, from t to 1 of
K(s - t)^T gamma(s), where eq 7c has a factor that would make it vanish.)
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Protocol

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

from anydepth.depth.bases.base import locate
from anydepth.depth.grids import Grid
from anydepth.depth.times import Instant, Side
from anydepth.solve.checkpoint import RepeatableField, check_leaves
from anydepth.solve.plan import Stages
from anydepth.solve.tensors import State


class ReadableField(RepeatableField, Protocol):
    """A field that can be read at any instant."""

    @property
    def scale(self) -> Fraction: ...

    @property
    def breakpoints(self) -> Sequence[Fraction]: ...

    def stages(self, instants: Sequence[Instant]) -> Stages: ...


class AdjointField:
    """d/dt (y, l, g) = (R, -l dR/dy, -l dR/dp): the state, its adjoint, and the gradient of the leaves p."""

    def __init__(self, field: ReadableField, leaves: Sequence[Tensor], width: int):
        self.field, self.leaves, self.width = field, leaves, width

    @property
    def scale(self) -> Fraction:
        return self.field.scale

    @property
    def breakpoints(self) -> Sequence[Fraction]:
        return self.field.breakpoints

    def stages(self, instants: Sequence[Instant]) -> "AdjointStages":
        return AdjointStages(self, instants)


class AdjointStages:
    """The adjoint field at the stages of one step."""

    def __init__(self, field: AdjointField, instants: Sequence[Instant]):
        self.field, self.instants = field, instants

    def __call__(self, stage: int, y: State) -> State:
        width = self.field.width
        slope, products = pulled_back(
            self.field.field, self.instants[stage], self.field.leaves, y[:width], y[width : 2 * width]
        )
        return (*slope, *products)

    def accept(self) -> None:
        """The backward pass leaves the block's state alone."""


def pulled_back(
    field: ReadableField, instant: Instant, leaves: Sequence[Tensor], y: State, costate: State
) -> tuple[State, State]:
    """R at y, and the slopes -l dR/dy, -l dR/dp of the costate l and of the leaves' gradient."""
    with torch.enable_grad():
        at = tuple(part.detach().requires_grad_() for part in y)
        slope = field.stages((instant,))(0, at)
        inputs = (*at, *leaves)
        check_leaves(field, slope, inputs)
        pairs = [(s, w.to(s.dtype)) for s, w in zip(slope, costate, strict=True) if s.requires_grad]
        if not pairs:
            return slope, tuple(torch.zeros_like(part) for part in inputs)
        outputs, weights = zip(*pairs, strict=True)
        found = torch.autograd.grad(outputs, inputs, weights, allow_unused=True)
    products = tuple(torch.zeros_like(p) if g is None else -g for p, g in zip(inputs, found, strict=True))
    return tuple(part.detach() for part in slope), products


Forward = Callable[[], tuple[State, Sequence[State]]]
"""Gives the result, and the states before it that the way back needs."""
Back = Callable[[State, Sequence[State], State, Sequence[Tensor]], Sequence[Tensor]]
"""Gradients from the result, the states before it, the result's gradient and the tensors given."""


class Kept(FunctionCtx):
    """What the pass keeps for its way back."""

    back: Back
    width: int
    count: int
    saved_tensors: tuple[Tensor, ...]


class AdjointSolve(torch.autograd.Function):
    """The result of a pass, and by solving back the gradients of all tensors given."""

    @staticmethod
    def forward(ctx: Kept, forward: Forward, back: Back, width: int, *tensors: Tensor) -> State:
        result, states = forward()
        ctx.back, ctx.width, ctx.count = back, width, len(states)
        # Saved as autograd saves, so that nothing holds the result but its users, and all is freed with the graph.
        ctx.save_for_backward(*result, *(part for state in states for part in state), *tensors)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Kept, *grads: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        saved, width = ctx.saved_tensors, ctx.width
        pieces = [saved[i : i + width] for i in range(0, (ctx.count + 1) * width, width)]
        found = ctx.back(pieces[0], pieces[1:], grads, saved[(ctx.count + 1) * width :])
        return (None, None, None, *found)


class Path:
    """The states of a forward pass at any time: linear between grid points, cubic from order 3 of the scheme on."""

    def __init__(self, field: ReadableField, grid: Grid, order: int, states: Sequence[State]):
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
