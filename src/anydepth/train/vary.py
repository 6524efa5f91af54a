"""Other numbers of steps in every pass of a training: a field that meets many grids does not tie itself to one."""

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction

import numpy as np
from torch import nn

from anydepth.errors import ConfigError
from anydepth.runs.config import RunConfig
from anydepth.solve.plan import Plan
from anydepth.solve.solver import Solver
from anydepth.surgery.blocks import blocks_in

STEADY = 0.4
"""The share under the control `steady`."""
_STREAM = 2
"""Of random numbers, beside those that other parts of a training draw from its seed."""


class Vary:
    """Runs a model's blocks with numbers of steps around their own, drawn from the seed and the optimiser's step."""

    def __init__(self, share: float, seed: int):
        self.share, self.seed = share, seed
        self._made: dict[tuple[str, Fraction, int], tuple[Solver, Plan | None]] = {}

    @contextmanager
    def __call__(self, model: nn.Module, step: int) -> Iterator[None]:
        """While in it, other numbers of steps; the blocks' own afterwards."""
        if not self.share:
            yield
            return
        draw = np.random.default_rng((self.seed, _STREAM, step))
        own = [(block, block.solver, block.plan) for block in blocks_in(model).values()]
        try:
            for block, solver, _ in own:
                steps = max(1, round((solver.steps or 1) * draw.uniform(1 - self.share, 1 + self.share)))
                key = (solver.scheme.name, block.scale, steps)
                if key not in self._made:
                    block.set_solver(steps=steps)
                    self._made[key] = block.solver, block.plan
                block.solver, block.plan = self._made[key]
            yield
        finally:
            for block, solver, plan in own:
                block.solver, block.plan = solver, plan


def share_of(config: RunConfig) -> float:
    """What `training.vary_steps` says, or by default what the controller wants."""
    wanted = config.training.vary_steps
    return (STEADY if config.control.name == "steady" else 0.0) if wanted is None else wanted


def check_vary(share: float, model: nn.Module) -> None:
    """Refuse, before training, blocks without steps of their own."""
    odd = [name for name, block in blocks_in(model).items() if share and block.solver.steps is None]
    if odd:
        raise ConfigError(f"training.vary_steps needs fixed steps, but {', '.join(odd)} is adaptive; set it to 0")
