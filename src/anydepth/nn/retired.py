"""Parameters that have been replaced, and optimisers that do not know it yet."""

from collections.abc import Iterable
from typing import Any
from warnings import warn
from weakref import WeakValueDictionary

from torch import nn
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook

from anydepth.errors import AnydepthWarning

_retired: WeakValueDictionary[int, nn.Parameter] = WeakValueDictionary()
"""Replaced parameters that something still holds, by identity."""

_hooks: list[Any] = []


def watch_retired(parameters: Iterable[nn.Parameter]) -> None:
    """Warn once when an optimiser steps while it still holds one of these replaced parameters."""
    _retired.update({id(parameter): parameter for parameter in parameters if parameter.requires_grad})
    if not _hooks and _retired:
        _hooks.append(register_optimizer_step_post_hook(_after_step))


def _after_step(optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
    if not _retired:
        return
    held = [p for group in optimizer.param_groups for p in group["params"] if _retired.get(id(p)) is p]
    if held:
        for parameter in held:
            del _retired[id(parameter)]
        warn(
            f"{type(optimizer).__name__} still steps {len(held)} parameters that were replaced when a block was "
            "resized, and not the new ones; call refine(model, optimizer=optimizer), or make a new optimiser",
            AnydepthWarning,
            stacklevel=4,
        )
