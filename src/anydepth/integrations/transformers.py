"""A callback for the Trainer of transformers: refinement at given epochs.

Checkpoints need nothing: the Trainer loads the weights, and with them the forms, before it makes the optimiser.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from torch import nn
from torch.optim import Optimizer
from transformers import TrainerCallback  # pyright: ignore[reportMissingImports]
from transformers.trainer_callback import ExportableState  # pyright: ignore[reportMissingImports]

from anydepth.integrations.schedule import Epochs, Schedule


class Refine(TrainerCallback, ExportableState):  # pyright: ignore[reportGeneralTypeIssues]
    """Grow the blocks of a model at the beginning of epochs, with the moments of its optimiser.

    Args:
        at: epochs from 0, or by epoch the arguments of `ad.refine`: {10: {"size": 4, "steps": 8}}.
        done: epochs at which it was done already, in a training that is resumed.
    """

    def __init__(self, at: Epochs, done: Iterable[int] = ()):
        given = {int(epoch): settings for epoch, settings in at.items()} if isinstance(at, Mapping) else at
        self.schedule = Schedule(given)  # the Trainer keeps epochs as text
        self.schedule.done = list(done)

    def on_train_begin(self, args: object, state: Any, control: object, **others: object) -> None:
        """Take on what a checkpoint says was done."""
        kept = state.stateful_callbacks.get(type(self).__name__, {})
        if isinstance(kept, Mapping):
            self.schedule.done = sorted({*self.schedule.done, *kept.get("args", {}).get("done", ())})

    def on_epoch_begin(
        self,
        args: Any,
        state: Any,
        control: object,
        model: nn.Module | None = None,
        optimizer: Optimizer | None = None,
        **others: object,
    ) -> None:
        assert model is not None
        self.schedule.run(round(state.epoch or 0), model, optimizer, args.world_size)

    def state(self) -> dict[str, object]:
        """What the Trainer keeps in its checkpoints."""
        at = {str(epoch): settings for epoch, settings in self.schedule.at.items()}
        return {"args": {"at": at, "done": list(self.schedule.done)}, "attributes": {}}
