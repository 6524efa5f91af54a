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
from anydepth.solve.per_example import PerExample
from anydepth.solve.plan import Plan
from anydepth.solve.tensors import State, check_finite, checked_slope, like, parts_of, wide
from anydepth.solve.walkers import Span, picked

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
    per_example: bool = False,
    args: tuple[object, ...] = (),
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
        per_example: every example along the first axis of y0 has its own adaptive steps and its own error. f then gets
            t as a tensor with one time for each example that is under way, y of these, and their rows of `args`.
        args: more arguments of f; with `per_example`, tensors with a row for each example, or one row for all.
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
    field = FunctionField(f, isinstance(y0, tuple), parts, tuple(exact(b) for b in breakpoints), args)
    if per_example or scheme.is_adaptive:
        tolerance = Tolerance(**({"rtol": 1e-7, "atol": 1e-9, "max_steps": 100_000} | limits))
        if per_example:
            _check_per_example(scheme, gradient)
            found = PerExample(FunctionRows(field), scheme, tolerance, "odeint").states(wide(parts), times)
        else:
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

    def __init__(
        self, f: VectorField, is_tuple: bool, y0: State, breakpoints: Sequence[Fraction], args: tuple[object, ...] = ()
    ):
        self.f, self.is_tuple, self.breakpoints, self.args = f, is_tuple, breakpoints, args
        self.like, self.dtypes = y0[0], [part.dtype for part in y0]

    def slope(self, time: Tensor, y: State, args: tuple[object, ...]) -> State:
        given = tuple(part.to(dtype) for part, dtype in zip(y, self.dtypes, strict=True))
        slope = self.f(time, given if self.is_tuple else given[0], *args)
        return checked_slope(slope, y, self.is_tuple, "f", "y0")

    def stages(self, instants: Sequence[Instant]) -> "FunctionStages":
        return FunctionStages(self, instants)


class FunctionStages:
    """A function at the stages of one step."""

    def __init__(self, field: FunctionField, instants: Sequence[Instant]):
        self.field, self.instants = field, instants

    def __call__(self, stage: int, y: State) -> State:
        field = self.field
        time = torch.tensor(self._time(stage), dtype=field.like.dtype, device=field.like.device)
        return field.slope(time, y, field.args)

    def _time(self, stage: int) -> float:
        return told_time(self.field, self.instants[stage])

    def accept(self) -> None:
        """A plain function keeps nothing."""


def told_time(field: FunctionField, instant: Instant) -> float:
    """What a function is told; on a breakpoint, the nearest number on the side that the step reads."""
    time, side = instant
    if time not in field.breakpoints:
        return float(time)
    dtype = field.like.dtype
    towards = torch.tensor(float("inf") * side, dtype=dtype)
    return float(torch.nextafter(torch.tensor(float(time), dtype=dtype), towards))


class FunctionRows:
    """A plain function that is read at another time for every example."""

    scale = Fraction(1)

    def __init__(self, field: FunctionField):
        self.field, self.breakpoints = field, field.breakpoints
        self._picked: tuple[Tensor, tuple[Any, ...]] | None = None

    def slopes(self, span: Span, times: Tensor, y: State, rows: Tensor) -> State:
        field = self.field
        for end in span.ends if self.breakpoints else ():
            times = torch.where(times == float(end.time), told_time(field, end), times)
        if self._picked is None or self._picked[0] is not rows:
            self._picked = rows, picked(field.args, rows, len(field.like))
        return field.slope(times.to(field.like.device, field.like.dtype), y, self._picked[1])


def _check_per_example(scheme: Scheme, gradient: str) -> None:
    if not scheme.is_adaptive:
        raise ConfigError(f"per_example needs an adaptive method, got {scheme.name!r}, whose steps are given")
    if gradient != "backprop":
        raise ConfigError(f"per_example needs gradient='backprop', got {gradient!r}")


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
