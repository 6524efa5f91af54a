"""Callbacks for Lightning: refinement at given epochs, and a verdict on the model after others.

Checkpoints need nothing: a block's form is in the state dict, and Lightning loads that before it makes optimisers.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer  # pyright: ignore[reportMissingImports]
from torch import nn

from anydepth.errors import ConfigError
from anydepth.integrations.schedule import Epochs, Schedule
from anydepth.verdict.check import Verdict, check


class Refine(Callback):
    """Grow the blocks of a module at the beginning of epochs, with the moments of its optimisers.

    Args:
        at: epochs from 0, or by epoch the arguments of `ad.refine`: {10: {"size": 4, "steps": 8}}.
    """

    def __init__(self, at: Epochs):
        self.schedule = Schedule(at)

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.schedule.run(trainer.current_epoch, pl_module, trainer.optimizers, trainer.world_size)

    def state_dict(self) -> dict[str, object]:
        return {"done": list(self.schedule.done)}

    def load_state_dict(self, state_dict: dict[str, list[int]]) -> None:
        self.schedule.done = list(state_dict["done"])


class CheckProper(Callback):
    """Judge the model after epochs, and log `proper` as 1 or 0; the verdicts are kept in `verdicts`, by epoch.

    Args:
        batches: what `ad.check` is given; by default the first batches of the validation data.
        every: how many epochs apart.
        model: the name of the part to judge; by default the module itself, if it has a forward, or its only child.
        limit: how many batches are taken of the validation data.
        settings: further arguments of `ad.check`.
    """

    def __init__(
        self,
        batches: Iterable[object] | None = None,
        every: int = 1,
        model: str | None = None,
        limit: int = 4,
        **settings: Any,
    ):
        if every < 1 or limit < 1:
            raise ConfigError(f"every and limit must be at least 1, got {every} and {limit}")
        self.batches = None if batches is None else list(batches)
        self.every, self.model, self.limit, self.settings = every, model, limit, settings
        self.verdicts: dict[int, Verdict] = {}

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        epoch = trainer.current_epoch
        if (epoch + 1) % self.every:
            return
        verdict = check(self._judged(pl_module), self._batches(trainer), **self.settings)
        self.verdicts[epoch] = verdict
        pl_module.log("proper", float(verdict.proper))

    def _judged(self, module: LightningModule) -> nn.Module:
        if self.model is not None:
            return module.get_submodule(self.model)
        if type(module).forward is not LightningModule.forward:
            return module
        children = list(module.children())
        if len(children) != 1:
            raise ConfigError(f"{type(module).__name__} has no forward; name the part to judge: CheckProper(model=...)")
        return children[0]

    def _batches(self, trainer: Trainer) -> list[object]:
        if self.batches is not None:
            return self.batches
        loaders = trainer.val_dataloaders
        loader = next(iter(loaders), None) if isinstance(loaders, (list, tuple)) else loaders
        if loader is None:
            raise ConfigError("CheckProper needs batches, or a module with validation data")
        return list(islice(loader, self.limit))
