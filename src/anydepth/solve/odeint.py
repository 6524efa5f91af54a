"""The solvers for a plain vector field f(t, y)."""

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from anydepth.depth.grids import Grid
from anydepth.depth.schemes import SCHEMES, Scheme
from anydepth.depth.times import Instant, TimeLike, exact
from anydepth.errors import ConfigError
from anydepth.solve.adaptive import Adaptive, Tolerance
from anydepth.solve.checkpoint import checkpointed
from anydepth.solve.fixed import fixed, last
from anydepth.solve.plan import Plan
from anydepth.solve.tensors import State, check_finite, checked_slope, like, parts_of, wide

VectorField = Callable[[Tensor, Any], Any]


def odeint(
    f: VectorField,
    y0: Tensor | State,
    t: Tensor | Sequence[TimeLike],
    *,
    method: str = "dopri54",
    rtol: float | None = None,
    atol: float | None = None,
    max_steps: int | None = None,
    steps: int | None = None,
    breakpoints: Iterable[TimeLike] = (),
    gradient: str = "backprop",
) -> Tensor | State:
    """The solution of dy/dt = f(t, y), y(t[0]) = y0, at every time of t, on a new leading axis.

    Args:
        f: the field; gets t as a scalar tensor, and y as it was given, a tensor or a tuple of tensors.
        t: at least two times, increasing or decreasing.
        method: a scheme. Adaptive ones land on every time of t and every breakpoint.
        rtol, atol, max_steps: of adaptive schemes, by default 1e-7, 1e-9 and 100,000.
        steps: how many equal steps a fixed scheme takes between two times of t, by default one.
        breakpoints: times at which f jumps; at them f is read from the side of the step.
        gradient: "backprop", or "checkpoint" to compute every step again in the backward pass.
    """
    scheme, times = _scheme(method), _times(t)
    wrap = _wrap(gradient)
    limits = {"rtol": rtol, "atol": atol, "max_steps": max_steps}
    limits = {name: value for name, value in limits.items() if value is not None}
    if scheme.is_adaptive and steps is not None:
        raise ConfigError(f"method {method!r} chooses its own steps, got steps; give rtol and atol, or a fixed method")
    if limits and not scheme.is_adaptive:
        raise ConfigError(
            f"method {method!r} has fixed steps, got {', '.join(limits)}; give steps, or an adaptive method"
        )
    parts = parts_of(y0, "y0")
    check_finite(parts, "y0")
    field = FunctionField(f, isinstance(y0, tuple), parts, tuple(exact(b) for b in breakpoints))
    if scheme.is_adaptive:
        tolerance = Tolerance(**({"rtol": 1e-7, "atol": 1e-9, "max_steps": 100_000} | limits))
        found = Adaptive(field, scheme, tolerance, "odeint", wrap).states(wide(parts), times)
    else:
        found = [wide(parts)]
        for start, end in pairwise(times):
            plan = Plan(_interval(start, end, 1 if steps is None else steps), scheme, field.scale)
            stages = [field.stages(instants) for instants in plan.stages]
            found.append(last(fixed(stages, plan.steps, found[-1], wrap), found[-1]))
    stacked = tuple(torch.stack(column) for column in zip(*found, strict=True))
    return like(y0, stacked)


class FunctionField:
    """A plain function as a field of the solvers."""

    scale = Fraction(1)

    def __init__(self, f: VectorField, is_tuple: bool, y0: State, breakpoints: Sequence[Fraction]):
        self.f, self.is_tuple, self.breakpoints = f, is_tuple, breakpoints
        self.like, self.dtypes = y0[0], [part.dtype for part in y0]

    def stages(self, instants: Sequence[Instant]) -> "FunctionStages":
        return FunctionStages(self, instants)


class FunctionStages:
    """A function at the stages of one step."""

    def __init__(self, field: FunctionField, instants: Sequence[Instant]):
        self.field, self.instants = field, instants

    def __call__(self, stage: int, y: State) -> State:
        field = self.field
        time = torch.tensor(self._time(stage), dtype=field.like.dtype, device=field.like.device)
        given = tuple(part.to(dtype) for part, dtype in zip(y, field.dtypes, strict=True))
        slope = field.f(time, given if field.is_tuple else given[0])
        return checked_slope(slope, y, field.is_tuple, "f", "y0")

    def _time(self, stage: int) -> float:
        """The stage's time; on a breakpoint, the nearest number on the side that the step reads."""
        time, side = self.instants[stage]
        if time not in self.field.breakpoints:
            return float(time)
        dtype = self.field.like.dtype
        towards = torch.tensor(float("inf") * side, dtype=dtype)
        return float(torch.nextafter(torch.tensor(float(time), dtype=dtype), towards))

    def accept(self) -> None:
        """A plain function keeps nothing."""


@cache
def _scheme(name: str) -> Scheme:
    """A name is registered once and for all."""
    return SCHEMES[name]


def _times(t: Tensor | Sequence[TimeLike]) -> tuple[Fraction, ...]:
    if isinstance(t, Tensor) and t.requires_grad:
        raise ConfigError("t requires a gradient, and times have none here; pass t.detach()")
    listed = t.detach().double().tolist() if isinstance(t, Tensor) else list(t)
    if not isinstance(listed, list) or len(listed) < 2:
        raise ConfigError("t must hold at least two times")
    return Grid(tuple(exact(time) for time in listed)).times


def _interval(start: Fraction, end: Fraction, steps: int) -> Grid:
    if not isinstance(steps, int) or steps < 1:
        raise ConfigError(f"steps must be a whole number of at least 1, got {steps!r}")
    return Grid((start, end)).refined(steps)


def _wrap(gradient: str) -> Callable | None:
    if gradient not in ("backprop", "checkpoint"):
        raise ConfigError(f"gradient must be 'backprop' or 'checkpoint' for a plain field, got {gradient!r}")
    return checkpointed if gradient == "checkpoint" and torch.is_grad_enabled() else None
