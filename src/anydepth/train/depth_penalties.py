"""Penalties on what happens over depth: how far states travel, and how fast kernels change."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

import torch
from torch import Tensor, nn

from anydepth.block.passes import Pass
from anydepth.block.paths import states_watched
from anydepth.block.roles import Kind
from anydepth.depth.times import Instant
from anydepth.errors import ConfigError
from anydepth.runs.config import RunConfig
from anydepth.solve.tensors import State
from anydepth.surgery.blocks import blocks_in
from anydepth.weights.protocol import Reading, WeightFunction


class KineticEnergy:
    """The kinetic energy of the states' paths in the passes that are watched (RNODE, Finlay et al. 2020, eq 6).

    Of each block the integral over depth of |dx/dt|^2, per number of the state, along straight lines between grid
    points: with Euler's method, where dx/dt is the field itself, exactly sum h |f|^2.
    """

    def __init__(self) -> None:
        self.parts: list[Tensor] = []

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """While in it, passes count."""
        with states_watched(self._watch):
            yield

    def total(self) -> Tensor:
        return torch.stack(self.parts).sum()

    def _watch(self, given: Pass, states: Sequence[State]) -> None:
        grid = given.solver.grid
        assert grid is not None, "adaptive blocks are refused before training"
        widths = [float(after - before) for before, after in pairwise(grid.times)]
        for (before, after), width in zip(pairwise(states), widths, strict=True):
            pairs = zip(before, after, strict=True)
            self.parts += [(new - old).square().mean() / width for old, new in pairs]


def roughness(model: nn.Module) -> Tensor | None:
    """Of every kernel of K numbers of coefficients, K times the squared differences between neighbouring depths.

    Depths are the middles of K equal parts, so that for constants the differences are those of neighbouring layers,
    and the sum is about the integral of |d theta / dt|^2. None where nothing varies over depth.
    """
    terms = []
    for block in blocks_in(model).values():
        for name, part in block.lifted.items():
            is_kernel = part.kind is Kind.PARAMETER and len(part.shape) >= 2
            if is_kernel and part.function.is_linear and part.function.size > 1:
                reading = _middles(part.function)
                rows = reading.rows(*block.held(name))
                theta = torch.stack([rows[i] for i in reading.index])
                terms.append(part.function.size * (theta[1:] - theta[:-1]).square().sum())
    return torch.stack(terms).sum() if terms else None


@lru_cache(maxsize=256)
def _middles(function: WeightFunction) -> Reading:
    size = function.size
    return function.reading(tuple(Instant(Fraction(2 * i + 1, 2 * size)) for i in range(size)))


def check_penalties(config: RunConfig, model: nn.Module) -> None:
    """Refuse, before training, what has no blocks, no grid points, or does not give gradients there."""
    training, blocks = config.training, blocks_in(model)
    for name in ("penalty_kinetic", "penalty_roughness"):
        if getattr(training, name) and not blocks:
            raise ConfigError(f"training.{name} needs continuous blocks, and this model has none; set it to 0")
    if not training.penalty_kinetic:
        return
    odd = [name for name, block in blocks.items() if block.solver.steps is None]
    if odd:
        raise ConfigError(f"training.penalty_kinetic needs fixed steps, but {', '.join(odd)} is adaptive; set it to 0")
    if config.model.gradient != "backprop":
        raise ConfigError(f"training.penalty_kinetic needs model.gradient 'backprop', got {config.model.gradient!r}")
