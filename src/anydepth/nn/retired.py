"""Parameters that have been replaced, and optimisers that do not know it yet."""

from collections.abc import Sequence
from typing import Any
from warnings import warn
from weakref import ref

from torch import nn
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook

from anydepth.errors import AnydepthWarning


def watch_retired(parameters: Sequence[nn.Parameter]) -> None:
    """Warn once when an optimiser steps while it still holds one of these replaced parameters."""
    retired = [ref(parameter) for parameter in parameters if parameter.requires_grad]
    if not retired:
        return

    def after_step(optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
        alive = {id(p) for p in (weak() for weak in retired) if p is not None}
        held = sum(id(p) in alive for group in optimizer.param_groups for p in group["params"])
        if held:
            warn(
                f"{type(optimizer).__name__} still steps {held} parameters that were replaced when a block was resized, and not the new ones; "
                "call refine(model, optimizer=optimizer), or make a new optimiser",
                AnydepthWarning,
                stacklevel=4,
            )
        if held or not alive:
            handle.remove()

    handle = register_optimizer_step_post_hook(after_step)
