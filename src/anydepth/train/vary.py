"""Other numbers of steps in every pass of a training: a field that meets many grids does not tie itself to one.

A case of any-depth training: one form a step, every block with steps of its own around those that it has.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from torch import nn

from anydepth.errors import ConfigError
from anydepth.runs.config import RunConfig
from anydepth.surgery.blocks import blocks_in
from anydepth.surgery.views import PartialForm, View
from anydepth.train.any_depth import AsItIs, Drawing, Drawn, sandwich_of

STEADY = 0.4
"""The share under the control `steady`."""
_STREAM = 2
"""Of random numbers, beside those that other parts of a training draw from its seed."""


class Vary:
    """Runs a model's blocks with numbers of steps around their own, drawn from the seed and the optimiser's step."""

    def __init__(self, share: float, seed: int):
        self.share, self.seed = share, seed

    def drawn(self, model: nn.Module, step: int) -> Drawn:
        """One pass with other numbers of steps, which commits its state."""
        if not self.share:
            return [(1.0, None)]
        draw = np.random.default_rng((self.seed, _STREAM, step))
        found = {}
        for name, block in blocks_in(model).items():
            around = draw.uniform(1 - self.share, 1 + self.share)
            found[name] = PartialForm(steps=max(1, round((block.solver.steps or 1) * around)))
        return [(1.0, View(model, found))]

    @contextmanager
    def __call__(self, model: nn.Module, step: int) -> Iterator[None]:
        """While in it, other numbers of steps; the blocks' own afterwards."""
        ((_, view),) = self.drawn(model, step)
        if view is None:
            yield
            return
        with view():
            yield


def drawing_of(config: RunConfig) -> Drawing:
    """The forms that a training runs its model in."""
    if config.training.any_depth is not None:
        return sandwich_of(config.training.any_depth, config.seed)
    share = share_of(config)
    return Vary(share, config.seed) if share else AsItIs()


def share_of(config: RunConfig) -> float:
    """What `training.vary_steps` says, or by default what the controller wants."""
    wanted = config.training.vary_steps
    is_steady = config.control.name == "steady" and config.training.any_depth is None
    return (STEADY if is_steady else 0.0) if wanted is None else wanted


def check_vary(share: float, model: nn.Module) -> None:
    """Refuse, before training, blocks without steps of their own."""
    odd = [name for name, block in blocks_in(model).items() if share and block.solver.steps is None]
    if odd:
        raise ConfigError(f"training.vary_steps needs fixed steps, but {', '.join(odd)} is adaptive; set it to 0")
