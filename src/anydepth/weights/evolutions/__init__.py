"""Evolutions: how the weights themselves change over depth, dw/dt = q(w; p). One file each, found by the registry."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from anydepth.errors import ConfigError
from anydepth.registry import Registry
from anydepth.solve.fixed import rk_step
from anydepth.solve.plan import Step


class Evolution(nn.Module):
    """dw/dt = q(w; p) for a tensor of a given shape; the module's parameters are p.

    A kernel (outputs, inputs, *space) evolves along its spatial axes; a tensor of one or two axes along the last one.
    Subclasses define q in `forward`; those with a solution in closed form define it in `flow` and set `has_flow`.
    """

    has_flow: bool = False
    """Whether w(t) is known in closed form."""

    def __init__(self, shape: Sequence[int]):
        super().__init__()
        if not shape:
            raise ConfigError("a single number cannot evolve; give it a basis in the weights of the block")
        self.shape = tuple(shape)
        self.space = self.shape[2:] if len(self.shape) > 2 else self.shape[-1:]

    def forward(self, w: Tensor) -> Tensor:
        """dw/dt."""
        raise NotImplementedError

    def flow(self, w: Tensor, times: Tensor) -> Tensor:
        """w at times from now, stacked on a new leading axis."""
        raise NotImplementedError

    def step(self, w: Tensor, step: Step, width: float) -> Tensor:
        """w after one step of a Runge-Kutta scheme, whose coefficients have the width in them."""
        return rk_step(_Stages(self), (w,), step)[0][0]


class _Stages:
    """The right-hand side as a Runge-Kutta step asks for it."""

    def __init__(self, evolution: Evolution):
        self.evolution = evolution

    def __call__(self, stage: int, y: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (self.evolution(y[0]),)

    def accept(self) -> None:
        """Nothing is sampled."""


def flattened(w: Tensor, axes: int) -> Tensor:
    """w with its last axes as one."""
    return w.flatten(-axes) if axes > 1 else w


def zeros(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.zeros(shape))


EVOLUTIONS: Registry[type[Evolution]] = Registry("evolution", package="anydepth.weights.evolutions")
"""Evolutions by name. One is made by evolution(shape, **options)."""
