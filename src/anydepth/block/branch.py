"""Units and layers with skip connections: noticing one that a block would add twice, and taking it off."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from warnings import warn
from weakref import WeakSet

from torch import Tensor, nn

from anydepth.errors import AnydepthWarning, ConfigError, UnitError
from anydepth.solve.plan import Plan
from anydepth.solve.tensors import State

_TOLD: "WeakSet[nn.Module]" = WeakSet()
_ACTIVATIONS = ("ReluBackward0", "GeluBackward0", "SiluBackward0", "LeakyReluBackward0")


class Returns:
    """How a layer returns its state, noted when it is called: bare, or first in a tuple of things it was given."""

    def __init__(self) -> None:
        self.layout: tuple[int | str | None, ...] | None = None

    def head(self, out: object, args: tuple, kwargs: dict[str, object], name: str) -> object:
        """The state in a layer's result; what comes besides must be None or an argument handed on."""
        if not isinstance(out, tuple):
            self.layout = None
            return out
        places = {id(value): place for place, value in [*enumerate(args), *kwargs.items()] if value is not None}
        if not all(extra is None or id(extra) in places for extra in out[1:]):
            raise UnitError(
                f"layer {name} returns more than the state (attention weights?), which a block cannot pass on; "
                "switch that off, for example output_attentions=False"
            )
        self.layout = tuple(None if extra is None else places[id(extra)] for extra in out[1:])
        return out[0]

    def filled(self, state: object, args: tuple, kwargs: dict[str, object]) -> object:
        """A state, returned as the layer does."""
        if self.layout is None:
            return state
        given = {**dict(enumerate(args)), **kwargs}
        return (state, *(None if place is None else given.get(place) for place in self.layout))


@dataclass(frozen=True)
class Origin:
    """Of layers that became one unit: their names, and the settings in which they differed, by dotted name."""

    names: tuple[str, ...]
    varying: Mapping[str, tuple[object, ...]]


class Whole(nn.Module):
    """A layer that makes the next state of a state; of a tuple that it returns, the state is the first."""

    def __init__(self, layer: nn.Module, returns: Returns | None = None):
        super().__init__()
        self.layer, self.returns = layer, returns or Returns()

    def forward(self, x: Any, *args: object, **kwargs: object) -> Any:
        name = type(self.layer).__name__
        _refuse_cache(args, kwargs, name)
        out = self.layer(x, *args, **kwargs)
        out = out if isinstance(x, tuple) else self.returns.head(out, args, kwargs, name)
        if isinstance(x, Tensor) and isinstance(out, Tensor) and out.shape != x.shape:
            raise UnitError(
                f"layer {name} makes shape {tuple(out.shape)} of shape {tuple(x.shape)}, and a block's state keeps its "
                "shape; leave layers that change it in front: nn.Sequential(layers[0], ad.from_layers(layers[1:]))"
            )
        return out


class Branch(Whole):
    """layer(x) - x: what a layer adds to its input, which is what a unit is.

    Args:
        is_bare: the layer is the branch f of x + f(x) already.
    """

    def __init__(self, layer: nn.Module, is_bare: bool = False):
        super().__init__(layer)
        self.is_bare = is_bare
        self.origin: Origin | None = None

    def forward(self, x: Any, *args: object, **kwargs: object) -> Any:
        out = super().forward(x, *args, **kwargs)
        if self.is_bare:
            return out
        return tuple(a - b for a, b in zip(out, x, strict=True)) if isinstance(x, tuple) else out - x


def is_layered(unit: nn.Module, plan: Plan) -> bool:
    """Whether every step is a layer: y + 1 (layer(y) - y), by Euler's method."""
    if type(unit) is not Branch or unit.is_bare:
        return False
    return all((step.stages, step.result) == (((),), ((0, 1.0),)) for step in plan.steps)


_CACHES = ("past_key_values", "past_key_value", "layer_past", "past_kv", "kv_cache")


def _refuse_cache(args: tuple, kwargs: dict[str, object], name: str) -> None:
    """A cache has one entry per layer, and a block has no layers."""
    is_used = kwargs.get("use_cache") or any(kwargs.get(key) is not None for key in _CACHES)
    if is_used or any(hasattr(type(value), "get_seq_length") for value in (*args, *kwargs.values())):
        raise UnitError(
            f"layer {name} is part of a block, which keeps no cache of keys and values; give use_cache=False"
        )


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
