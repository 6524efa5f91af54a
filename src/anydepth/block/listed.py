"""Units that are chains of layers, one after another: what a faster path may know about a unit."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

Named = tuple[tuple[str, nn.Module], ...]
"""Layers in order, by their names in the unit."""

LISTED: dict[type[nn.Module], Callable[[Any], Named]] = {}
"""How a unit lists its layers, by its exact class: a subclass may do anything."""

RELU = ("", nn.ReLU())
"""A ReLU that a unit calls as a function."""

_GLOBAL_HOOKS = (
    torch.nn.modules.module._global_forward_hooks,
    torch.nn.modules.module._global_forward_pre_hooks,
    torch.nn.modules.module._global_backward_hooks,
    torch.nn.modules.module._global_backward_pre_hooks,
)


def listed(unit: nn.Module) -> Named | None:
    """The layers of a unit, if it is known to be a chain of them."""
    if type(unit) is nn.Sequential:
        return tuple(unit._modules.items())  # pyright: ignore[reportReturnType]
    return LISTED[type(unit)](unit) if type(unit) in LISTED else None


def is_unwatched(unit: nn.Module) -> bool:
    """Whether calling a unit's modules does no more than their classes do."""
    return are_unwatched(unit.modules())


def are_unwatched(modules: Iterable[nn.Module]) -> bool:
    """The same of modules that are at hand."""
    return not any(_GLOBAL_HOOKS) and not any(_is_watched(module) for module in modules)


def _is_watched(module: nn.Module) -> bool:
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return any(hooks) or "forward" in vars(module) or module._compiled_call_impl is not None
