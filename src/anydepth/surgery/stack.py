"""Modules in the place of layers: a block that is called as they were, and layers that are called as a block was."""

from collections.abc import Mapping
from inspect import Parameter, signature
from typing import Any

from torch import Tensor, nn

from anydepth.block.block import ContinuousBlock
from anydepth.block.branch import Branch, Returns
from anydepth.errors import UnitError


class EulerLayer(nn.Module):
    """x + factor * unit(x): one step of Euler's method as a layer."""

    def __init__(self, unit: nn.Module, factor: float, time: float | None = None):
        super().__init__()
        self.unit, self.factor, self.time = unit, factor, time

    def forward(self, x: Any, *args: object, **kwargs: object) -> Any:
        first: Tensor = x[0] if isinstance(x, tuple) else x
        lead = () if self.time is None else (first.new_tensor(self.time),)
        return _sum(x, self.unit(*lead, x, *args, **kwargs), self.factor)

    def extra_repr(self) -> str:
        return f"factor={self.factor:g}" + ("" if self.time is None else f", time={self.time:g}")


class Stack(nn.Module):
    """A block, or one step of it, in a list of layers, called by a loop over them as each of them was.

    Settings of the layers (`stack.self_attn.batch_first`) can be read as those of each of them could.
    """

    def __init__(self, block: ContinuousBlock | EulerLayer, before: Mapping[str, object] | None = None):
        super().__init__()
        if not isinstance(block.unit, Branch):
            raise UnitError(f"a stack is made of layers, got a block of {type(block.unit).__name__}; use from_layers")
        self.returns: Returns = block.unit.returns
        self.is_bare = block.unit.is_bare
        self.first = _first_argument(block.unit.layer)
        self.before = dict(before or {})
        """Settings of the model around it that were switched off, as they were."""
        self.block = block

    def forward(self, *args: object, **kwargs: object) -> object:
        if not args:
            if self.first not in kwargs:
                raise UnitError(f"a stack of layers needs its state, as first argument or as {self.first}=")
            args = (kwargs.pop(self.first),)
        x, *rest = args
        y = self.block(x, *rest, **kwargs)
        if isinstance(x, tuple):
            return tuple(a - b for a, b in zip(y, x, strict=True)) if self.is_bare else y
        return self.returns.filled(y - x if self.is_bare else y, tuple(rest), kwargs)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            block = vars(self).get("_modules", {}).get("block")
            layer = getattr(getattr(block, "unit", None), "layer", None)
            if layer is None or name.startswith("_"):
                raise
            return getattr(layer, name)


class Layers(nn.ModuleList):
    """Layers in order, to be looped over, or called as one."""

    is_bare = False
    """Whether the layers are branches f, to be called as x + f(x)."""

    def forward(self, x: Any, *args: object, **kwargs: object) -> Any:
        for layer in self:
            out = layer(x, *args, **kwargs)
            out = out[0] if isinstance(out, tuple) and not isinstance(x, tuple) else out
            x = _sum(x, out, 1) if self.is_bare else out
        return x


def _sum(x: Any, slope: Any, factor: float) -> Any:
    if isinstance(x, tuple):
        return tuple(part + factor * other for part, other in zip(x, slope, strict=True))
    return x + factor * slope


def _first_argument(layer: nn.Module) -> str:
    """What a layer calls its state."""
    positional = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    named = [name for name, found in signature(layer.forward).parameters.items() if found.kind in positional]
    return named[0] if named else "x"
