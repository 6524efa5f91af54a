"""torchdiffeq's `options` dictionaries, checked and turned into settings; what is left out is refused by name."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from math import inf, isfinite
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor

from anydepth.errors import AnydepthWarning, ConfigError
from anydepth.solve.tensors import State
from anydepth.torchdiffeq.adams import FIRST_ORDER, MAX_ORDER
from anydepth.torchdiffeq.embedded_steps import Adaptive, Control, Judge
from anydepth.torchdiffeq.grid_steps import Fixed, Layout
from anydepth.torchdiffeq.methods import scheme_of
from anydepth.torchdiffeq.steps import Field

CALLBACKS = tuple(f"callback_{what}step{where}" for where in ("", "_adjoint") for what in ("", "accept_", "reject_"))
_IGNORED = ("dtype", "norm")
"""Times are always double; the norm is dealt with by the caller, and fixed steps have no use for one."""


def given_options(name: str, options: object) -> dict[str, object]:
    """Options as a dictionary of their own."""
    if options is not None and not isinstance(options, Mapping):
        raise ConfigError(f"{name} must be a dictionary, got {options!r}")
    return dict(options or {})


def refuse_callbacks(func: object) -> None:
    found = [name for name in CALLBACKS if hasattr(func, name)]
    if found:
        raise ConfigError(f"callbacks are not supported, got {', '.join(found)} on func; call it inside func instead")


def with_grid(options: Mapping[str, object], func: object, shown: Callable[[State], object]) -> dict[str, object]:
    """The options with a grid constructor that a solver can call: it sees func and the state as users know them."""
    make = options.get("grid_constructor")
    if not callable(make):
        return dict(options)
    return {**options, "grid_constructor": lambda y, t: make(func, shown(y), t)}


def solver_of(
    method: str | None, options: Mapping[str, object], field: Field, judge: Judge, active: int = 1
) -> Adaptive | Fixed:
    """A method with its options, ready to solve."""
    name = "dopri5" if method is None else method
    if not isinstance(name, str):
        raise ConfigError(f"method must be a name such as 'dopri5', got {name!r}")
    scheme = scheme_of(name)
    if scheme.is_adaptive:
        return Adaptive(field, scheme, control_of(options, judge), active)
    return Fixed(field, scheme, layout_of(options, name == "explicit_adams"), active)


def control_of(options: Mapping[str, object], judge: Judge) -> Control:
    """The settings of an adaptive method."""
    names = {field.name for field in fields(Control)} - {"judge"}
    given = _known(options, names, "an adaptive method")
    read: dict[str, Any] = {name: _READERS[name](name, value) for name, value in given.items() if value is not None}
    control = Control(judge, **read)
    if set(control.step_t) & set(control.jump_t):
        raise ConfigError("step_t and jump_t share a time; give it in one of them")
    if control.min_step > control.max_step:
        raise ConfigError(f"min_step must be at most max_step, got {control.min_step:g} and {control.max_step:g}")
    return control


def layout_of(options: Mapping[str, object], is_adams: bool) -> Layout:
    """The settings of a fixed method."""
    names = {field.name for field in fields(Layout)} - (set() if is_adams else {"max_order"})
    given = _known(options, names, "a fixed method")
    read: dict[str, Any] = {name: _READERS[name](name, value) for name, value in given.items() if value is not None}
    layout = Layout(**read)
    if layout.step_size is not None and layout.grid_constructor is not None:
        raise ConfigError("step_size and grid_constructor exclude each other; give one of them")
    return replace(layout, max_order=layout.max_order or MAX_ORDER) if is_adams else layout


def _known(options: Mapping[str, object], names: set[str], of: str) -> dict[str, object]:
    unknown = sorted(set(options) - names - set(_IGNORED))
    if unknown:
        warnings.warn(f"{', '.join(unknown)} is not an option of {of} and has no effect", AnydepthWarning, stacklevel=6)
    return {name: value for name, value in options.items() if name in names}


def _number(name: str, value: object) -> float:
    """A plain number from a number or a tensor of one."""
    if isinstance(value, Tensor) and value.numel() == 1:
        value = value.item()
    if not isinstance(value, Real) or isinstance(value, bool) or value != value:
        raise ConfigError(f"{name} must be a number, got {value!r}")
    return float(value)


def _positive(name: str, value: object) -> float:
    number = _number(name, value)
    if not 0 < number < inf:
        raise ConfigError(f"{name} must be a positive number, got {number:g}")
    return number


def _bound(name: str, value: object) -> float:
    number = _number(name, value)
    if number < 0:
        raise ConfigError(f"{name} must be at least 0, got {number:g}")
    return number


def _times(name: str, value: object) -> tuple[float, ...]:
    listed = torch.as_tensor(value, dtype=torch.float64).detach()
    if listed.dim() != 1 or not bool(torch.isfinite(listed).all()):
        raise ConfigError(f"{name} must be a one-dimensional tensor of finite times, got shape {tuple(listed.shape)}")
    found = tuple(listed.tolist())
    if len(set(found)) < len(found):
        raise ConfigError(f"{name} repeats a time; give every time once")
    return found


def _count(name: str, value: object) -> int:
    number = _number(name, value)
    if not isinstance(value, Integral | Tensor) or not isfinite(number) or number < 1:
        raise ConfigError(f"{name} must be a whole number of at least 1, got {value!r}")
    return int(number)


def _order(name: str, value: object) -> int:
    order = _count(name, value)
    if not FIRST_ORDER < order <= MAX_ORDER:
        raise ConfigError(f"{name} must lie from {FIRST_ORDER + 1} to {MAX_ORDER}, got {order}; below it is 'rk4'")
    return order


def _interp(name: str, value: object) -> str:
    if value not in ("linear", "cubic"):
        raise ConfigError(f"{name} must be 'linear' or 'cubic', got {value!r}")
    return value


def _function(name: str, value: object) -> object:
    if not callable(value):
        raise ConfigError(f"{name} must be a function, got {type(value).__name__}")
    return value


_READERS = {
    "min_step": _bound,
    "max_step": _bound,
    "first_step": _positive,
    "step_t": _times,
    "jump_t": _times,
    "safety": _positive,
    "ifactor": _positive,
    "dfactor": _positive,
    "max_num_steps": _count,
    "step_size": _positive,
    "grid_constructor": _function,
    "interp": _interp,
    "perturb": lambda name, value: bool(value),
    "max_order": _order,
}
