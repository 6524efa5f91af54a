"""Gradient modes: what is kept of the forward pass, and what is computed again."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from anydepth.depth.times import Instant
from anydepth.nn.field import BlockField
from anydepth.nn.integrate import Run
from anydepth.nn.plan import State

GRADIENTS = ("backprop", "checkpoint", "adjoint")
"""backprop keeps every activation; checkpoint keeps the state between segments of steps and computes the
rest again, with the same random numbers: exact; adjoint keeps the result only and integrates the adjoint
equation backward in time: approximate, as good as the solver."""


def checkpointed(run: Run) -> Run:
    """`run`, whose inside is forgotten and computed again in the backward pass."""
    return lambda *inputs: checkpoint(run, *inputs, use_reentrant=False)


class AdjointField:
    """d/dt (y, l, g) = (R, -l dR/dy, -l dR/dp): the state, its adjoint, and the gradient of the leaves p."""

    def __init__(self, field: BlockField, leaves: Sequence[Tensor], width: int):
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
        width, leaves = self.field.width, self.field.leaves
        with torch.enable_grad():
            at = tuple(part.detach().requires_grad_() for part in y[:width])
            slope = self.field.field.stages((self.instants[stage],))(0, at)
            inputs = (*at, *leaves)
            weights = tuple(w.to(s.dtype) for w, s in zip(y[width : 2 * width], slope, strict=True))
            if not any(part.requires_grad for part in slope):
                return (*slope, *(torch.zeros_like(part) for part in inputs))
            found = torch.autograd.grad(slope, inputs, weights, allow_unused=True)
        products = (torch.zeros_like(p) if g is None else -g for p, g in zip(inputs, found, strict=True))
        return (*(part.detach() for part in slope), *products)

    def accept(self) -> None:
        """The backward pass leaves the block's state alone."""


class AdjointSolve(torch.autograd.Function):
    """The result of `solve`, and by `solve_back` the gradients of all tensors given."""

    @staticmethod
    def forward(ctx: Any, solve: Callable[[], State], solve_back: Callable, width: int, *tensors: Tensor) -> State:
        result = solve()
        ctx.solve_back, ctx.width = solve_back, width
        ctx.save_for_backward(*result, *tensors)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        saved = ctx.saved_tensors
        found = ctx.solve_back(saved[: ctx.width], grads, saved[ctx.width :])
        return (None, None, None, *found)
