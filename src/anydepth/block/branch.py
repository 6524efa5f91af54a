"""Units and layers with skip connections: noticing one that a block would add twice, and taking it off."""

from typing import Any
from warnings import warn
from weakref import WeakSet

import torch
from torch import Tensor, nn

from anydepth.errors import AnydepthWarning, ConfigError
from anydepth.solve.tensors import State

_TOLD: "WeakSet[nn.Module]" = WeakSet()
_ACTIVATIONS = ("ReluBackward0", "GeluBackward0", "SiluBackward0", "LeakyReluBackward0")


class Branch(nn.Module):
    """layer(x) - x: what a layer with a skip connection adds to its input, which is what a unit is."""

    def __init__(self, layer: nn.Module):
        super().__init__()
        self.layer = layer

    def forward(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        out = self.layer(x, *args, **kwargs)
        return tuple(a - b for a, b in zip(out, x, strict=True)) if isinstance(x, tuple) else out - x


def branch(layer: nn.Module) -> Branch:
    """A layer x + f(x) as the unit f; with Euler, one step and scale 1 a block of it is the layer again."""
    if not isinstance(layer, nn.Module):
        raise ConfigError(f"branch takes an nn.Module, got {type(layer).__name__}")
    return Branch(layer)


def warn_of_skip(unit: nn.Module, y: State, slope: State) -> None:
    """Warn once of a unit that adds its input back, where the graph of its first evaluation tells so."""
    if unit not in _TOLD and any(map(_adds_back, y, slope)):
        tell_of_skip(unit)


def tell_of_skip(unit: nn.Module) -> None:
    """The warning, once for every unit."""
    if unit not in _TOLD:
        _TOLD.add(unit)
        warn(
            f"unit {type(unit).__name__} adds its input back, and so does every step of the solver; for a layer "
            "x + f(x) pass its branch f: ad.branch(layer)",
            AnydepthWarning,
            stacklevel=2,
        )


def _adds_back(x: Tensor, slope: Tensor) -> bool:
    """Whether the slope is a sum with x itself, or an activation of one."""
    node = slope.grad_fn
    while node is not None and node.name() in _ACTIVATIONS:
        node = node.next_functions[0][0]
    if node is None or node.name() != "AddBackward0" or not x.requires_grad:
        return False
    ends = [end for end, _ in node.next_functions if end is not None]
    return any(end is x.grad_fn if x.grad_fn is not None else getattr(end, "variable", None) is x for end in ends)


def can_tell(slope: State) -> bool:
    """Whether there is a graph to look at."""
    return not torch.compiler.is_compiling() and any(part.grad_fn is not None for part in slope)
