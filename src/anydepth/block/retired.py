"""Parameters that have been replaced, and optimisers that do not know it yet."""

from collections.abc import Iterable
from warnings import warn
from weakref import WeakValueDictionary

from torch import nn
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from anydepth.errors import AnydepthWarning, ConfigError

_grown: WeakValueDictionary[int, nn.Parameter] = WeakValueDictionary()
_overwritten: WeakValueDictionary[int, nn.Parameter] = WeakValueDictionary()
"""Replaced parameters that something still holds, by identity: by growing a block, and by loading into it."""

_hooks: list[object] = []


def watch_retired(parameters: Iterable[nn.Parameter], is_fatal: bool = False) -> None:
    """Warn once when an optimiser steps while it still holds one of these, or refuse the step."""
    retired = {id(parameter): parameter for parameter in parameters if parameter.requires_grad}
    (_overwritten if is_fatal else _grown).update(retired)
    if not _hooks and retired:
        _hooks.append(register_optimizer_step_pre_hook(_before_step))
        _hooks.append(register_optimizer_step_post_hook(_after_step))


def _held(optimizer: Optimizer, retired: WeakValueDictionary[int, nn.Parameter]) -> list[nn.Parameter]:
    if not retired:
        return []
    return [p for group in optimizer.param_groups for p in group["params"] if retired.get(id(p)) is p]


def _before_step(optimizer: Optimizer, _args: object, _kwargs: object) -> None:
    held = _held(optimizer, _overwritten)
    if held:
        raise ConfigError(
            f"{type(optimizer).__name__} holds {len(held)} parameters that were replaced when weights of another size "
            "were loaded, and not the new ones; load with load_state_dict(model, state_dict, optimizer=optimizer) of "
            "anydepth, or load before the optimiser is made"
        )


def _after_step(optimizer: Optimizer, _args: object, _kwargs: object) -> None:
    held = _held(optimizer, _grown)
    for parameter in held:
        del _grown[id(parameter)]
    if held:
        warn(
            f"{type(optimizer).__name__} still steps {len(held)} parameters that were replaced when a block was "
            "resized, and not the new ones; call refine(model, optimizer=optimizer), or make a new optimiser",
            AnydepthWarning,
            stacklevel=4,
        )
