"""When to refine in somebody else's loop, and whether it was done already."""

from collections.abc import Iterable, Mapping
from typing import Any

from torch import nn
from torch.optim import Optimizer

from anydepth.errors import ConfigError
from anydepth.surgery.resize import refine

Epochs = Iterable[int] | Mapping[int, Mapping[str, Any]]


class Schedule:
    """Refinements at the beginning of epochs, counted from 0; each is done once, also in a training that is resumed.

    Args:
        at: epochs; or by epoch the arguments of `refine`: {10: {"size": 4, "steps": 8}, 20: {}}.
    """

    def __init__(self, at: Epochs):
        given = dict(at) if isinstance(at, Mapping) else {epoch: {} for epoch in at}
        for epoch, settings in given.items():
            if not isinstance(epoch, int) or isinstance(epoch, bool) or epoch < 0:
                raise ConfigError(f"epochs to refine at are whole numbers from 0, got {epoch!r}")
            if not isinstance(settings, Mapping):
                raise ConfigError(f"the refinement at epoch {epoch} must be a dict for refine, got {settings!r:.40}")
        self.at = {epoch: dict(settings) for epoch, settings in given.items()}
        self.done: list[int] = []

    def run(self, epoch: int, model: nn.Module, optimizers: Optimizer | Iterable[Optimizer] | None, world: int) -> bool:
        """Refine if it is time; whether it was."""
        if epoch not in self.at or epoch in self.done:
            return False
        if world > 1:
            raise ConfigError(
                f"a refinement replaces parameters that the {world} processes of this loop share; refine in one "
                "process, or train with torchrun -m anydepth train"
            )
        refine(model, optimizer=optimizers, **self.at[epoch])
        self.done.append(epoch)
        return True
