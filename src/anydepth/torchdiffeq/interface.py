"""odeint with torchdiffeq's signature."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NoReturn

import torch
from torch import Tensor

from anydepth.errors import ConfigError
from anydepth.solve.tensors import State
from anydepth.torchdiffeq.embedded_steps import Adaptive, Judge
from anydepth.torchdiffeq.grid_steps import Fixed
from anydepth.torchdiffeq.norms import StateNorm, state_norm
from anydepth.torchdiffeq.options import given_options, refuse_callbacks, solver_of, with_grid
from anydepth.torchdiffeq.problem import Func, Packing, checked_times, packed, tolerance


def odeint(
    func: Func,
    y0: Tensor | State,
    t: Tensor,
    *,
    rtol: object = 1e-7,
    atol: object = 1e-9,
    method: str | None = None,
    options: Mapping[str, object] | None = None,
    event_fn: Callable | None = None,
) -> object:
    """The solution of dy/dt = func(t, y), y(t[0]) = y0, at every time of t, on a new leading axis.

    Args:
        func: the field; gets t as a scalar tensor and y as it was given, a tensor or a tuple of tensors.
        t: times in strict order, increasing or decreasing, or one alone. They may require a gradient.
        rtol, atol: of adaptive methods: a number, one for each part of a tuple, or one for each element of y0.
        method: "dopri5" by default; also dopri8, bosh3, fehlberg2, adaptive_heun, and with fixed steps euler, midpoint,
            heun2, heun3, rk4 (the 3/8 rule), explicit_adams.
        options: adaptive: norm, first_step, min_step, max_step, step_t, jump_t, max_num_steps, safety, ifactor,
            dfactor; fixed: step_size, grid_constructor, interp ("linear", "cubic"), perturb; explicit_adams: max_order.
    """
    return prepared(func, y0, t, rtol, atol, method, options, event_fn).solved()


@dataclass(frozen=True)
class Prepared:
    """A problem that has been checked, and its solver."""

    packing: Packing
    y: Tensor
    t: Tensor
    norm: StateNorm
    solver: Adaptive | Fixed

    def states(self) -> Tensor:
        """The packed state at every time."""
        pieces = self.solver.solve((self.y,), self.t)[0] if len(self.t) > 1 else []
        return torch.cat([self.y[None], *pieces]).to(self.packing.dtype)

    def solved(self) -> object:
        return self.packing.unpacked(self.states(), (len(self.t),))


def prepared(
    func: Func,
    y0: Tensor | State,
    t: Tensor,
    rtol: object,
    atol: object,
    method: str | None,
    options: Mapping[str, object] | None,
    event_fn: Callable | None,
) -> Prepared:
    """A problem, refused before anything is computed where it cannot be solved."""
    if event_fn is not None:
        raise ConfigError(
            "event_fn is not supported: events are left out; look for them among the states at many times"
        )
    refuse_callbacks(func)
    packing, y = packed(y0)
    t, options = checked_times(t, y), given_options("options", options)
    norm = state_norm(options.get("norm"), packing)
    judge = Judge(
        tolerance("rtol", rtol, packing, y), tolerance("atol", atol, packing, y), lambda parts: norm(parts[0])
    )
    options = with_grid(options, func, lambda state: packing.unpacked(state[0]))
    solver = solver_of(method, options, lambda time, at: (packing.slope(func, time, at[0]),), judge)
    return Prepared(packing, y, t, norm, solver)


def odeint_event(*args: object, **kwargs: object) -> NoReturn:
    """Events are left out."""
    raise ConfigError("odeint_event is not supported: events are left out; use torchdiffeq for them")


def odeint_dense(*args: object, **kwargs: object) -> NoReturn:
    """Solutions as functions are left out."""
    raise ConfigError("odeint_dense is not supported; give odeint all times in t, more times cost no more steps")
