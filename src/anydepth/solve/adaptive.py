"""Adaptive integration: an embedded pair that chooses its steps and lands on every breakpoint."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from functools import partial
from math import isfinite
from numbers import Integral, Real
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from anydepth.depth.schemes import Scheme
from anydepth.depth.times import Instant, Side
from anydepth.errors import ConfigError, NumericalError
from anydepth.solve.fixed import Run, Wrap, advance, rk_step, scaled, unit_step
from anydepth.solve.plan import Stages, Step
from anydepth.solve.tensors import State

SAFETY, SHRINK, GROW = 0.9, 0.2, 5.0
"""The next step is SAFETY err^(-1/q) times this one, within these factors (Hairer, Norsett, Wanner II.4)."""

SMALLEST = 1e-13
"""A step below this share of the whole interval counts as underflow."""


@dataclass(frozen=True)
class Tolerance:
    """What an adaptive solver may get wrong per step, and how many steps it may try."""

    rtol: float = 1e-4
    atol: float = 1e-6
    max_steps: int = 10_000
    per_example: bool = False
    """Whether every example of a batch has its own steps and its own error."""

    def __post_init__(self) -> None:
        for name in ("rtol", "atol"):
            value = getattr(self, name)
            if not isinstance(value, Real) or isinstance(value, bool) or not isfinite(value) or value < 0:
                raise ConfigError(f"{name} must be a finite number of at least 0, got {value!r}")
        if self.rtol == self.atol == 0:
            raise ConfigError("rtol and atol are both 0, which no step can meet; make one of them positive")
        steps = self.max_steps
        if not isinstance(steps, Integral) or isinstance(steps, bool) or steps < 1:
            raise ConfigError(f"max_steps must be a whole number of at least 1, got {steps!r}")
        if not isinstance(self.per_example, bool):
            raise ConfigError(f"per_example must be True or False, got {self.per_example!r}")
        plain = {"rtol": float(self.rtol), "atol": float(self.atol), "max_steps": int(steps)}
        for name, value in plain.items():
            object.__setattr__(self, name, value)


class Cause(Enum):
    """Why an adaptive integration could not go on."""

    UNDERFLOW = "the step size underflowed: the tolerance is too tight for this precision, or the field is singular"
    NON_FINITE = "the field is not finite"
    STEP_CAP = "the step cap was reached: the field is too stiff for an explicit scheme, or the tolerance too tight"


_WAYS_OUT = {
    Cause.UNDERFLOW: "loosen rtol and atol, or use double precision",
    Cause.NON_FINITE: "check the field there",
    Cause.STEP_CAP: "loosen rtol and atol, raise max_steps, or use a fixed scheme",
}


class SolverError(NumericalError):
    """An integration that ended early; `cause`, `time` and `where` say why, when and in which block."""

    def __init__(self, where: str, time: Fraction, cause: Cause, stats: "Stats"):
        self.where, self.time, self.cause, self.stats = where, float(time), cause, stats
        super().__init__(
            f"{where} stopped at t = {float(time):.6g}: {cause.value} "
            f"({stats.accepted} steps accepted, {stats.rejected} rejected, {stats.evaluations} evaluations); "
            + _WAYS_OUT[cause]
        )

    def __reduce__(self) -> tuple:
        return type(self), (self.where, Fraction(self.time), self.cause, self.stats)


@dataclass(frozen=True)
class ExampleStats:
    """What an integration took for every example, where each has its own steps; whole numbers."""

    evaluations: Tensor
    accepted: Tensor
    rejected: Tensor


@dataclass
class Stats:
    """What an integration took, and by which path; where examples have their own steps, the most that one took."""

    evaluations: int = 0
    accepted: int = 0
    rejected: int = 0
    path: str = ""
    """The path that ran."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Why each faster path did not."""
    examples: ExampleStats | None = None
    """Where every example has its own steps."""


class AdaptiveField(Protocol):
    """A vector field that can be read at any instant."""

    @property
    def breakpoints(self) -> Sequence[Fraction]: ...

    @property
    def scale(self) -> Fraction: ...

    def stages(self, instants: Sequence[Instant]) -> Stages: ...


Across = Callable[[Sequence[float]], list[float]]


@dataclass
class Adaptive:
    """One integration in progress."""

    field: AdaptiveField
    scheme: Scheme
    tolerance: Tolerance
    where: str
    wrap: Wrap | None = None
    controlled: int | None = None
    """How many leading components of the state the error norm looks at; all by default."""
    across: "Across | None" = None
    """Adds up numbers over all processes that integrate parts of one batch, so that they take the same steps."""

    def __post_init__(self) -> None:
        self.stats = Stats()
        self.unit_step = unit_step(self.scheme)

    def states(self, y: State, times: Sequence[Fraction]) -> list[State]:
        """The state at every one of the monotone times, which start with that of y."""
        found, t, start = [y], times[0], (None, None)
        sign = 1 if times[-1] > times[0] else -1
        self.span = abs(times[-1] - times[0])
        inner = sorted(b for b in self.field.breakpoints if min(times[0], times[-1]) < b < max(times[0], times[-1]))
        for end in times[1:]:
            stops = [b for b in inner[::sign] if (b - t) * sign > 0 and (end - b) * sign > 0]
            for stop in (*stops, end):
                if stop != t:
                    y, start = self._reach(y, t, stop, *start)
                    start = (start[0], None) if stop in inner else start
                t = stop
            found.append(y)
        return found

    def _reach(
        self, y: State, t: Fraction, stop: Fraction, width: Fraction | None, first: State | None
    ) -> tuple[State, tuple[Fraction, State | None]]:
        """Step from t to exactly `stop`; also the width to try next, and the slope there if it is known."""
        slope = self._slope(y, t, stop) if first is None else first
        if width is None:
            width = self._initial_width(y, t, stop, slope)
        cause, growth = Cause.UNDERFLOW, GROW
        while t != stop:
            if self.stats.accepted + self.stats.rejected >= self.tolerance.max_steps:
                raise SolverError(self.where, t, Cause.STEP_CAP, self.stats)
            if width < SMALLEST * self.span:
                raise SolverError(self.where, t, cause, self.stats)
            end = _landing(t, stop, width)
            tried, (after, first, error) = abs(end - t), self._attempt(y, slope, t, end)
            if error > 1:
                self.stats.rejected += 1
                width, growth = _exact(float(tried) * self._factor(error)), 1.0
                cause = Cause.UNDERFLOW if isfinite(error) else Cause.NON_FINITE
                continue
            self.stats.accepted += 1
            y, t = after, end
            grown = _exact(float(tried) * min(growth, self._factor(error)))
            width = max(width, grown) if tried < width else grown
            growth, cause = GROW, Cause.UNDERFLOW
            if t != stop:
                slope = self._slope(y, t, stop) if first is None else first
        return y, (width, first)

    def _factor(self, error: float) -> float:
        """How much wider the next step may be, judging by the error of this one."""
        order = (self.scheme.low_order or self.scheme.order) + 1
        return max(SHRINK, SAFETY * max(error, 1e-10) ** (-1 / order)) if isfinite(error) else SHRINK

    def _attempt(self, y: State, first: State, t: Fraction, end: Fraction) -> tuple[State, State | None, float]:
        """The state after a trial step, the slope there if the scheme gives it, and the error (1 is the limit)."""
        stages, step = (
            self.field.stages(self._instants(t, end)),
            scaled(self.unit_step, float((end - t) * self.field.scale)),
        )
        run = partial(_trial, step, self.scheme.is_fsal, len(y))
        parts = self._piece(run, stages, (*y, *first))
        after, error, slope = parts[: len(y)], parts[len(y) : 2 * len(y)], parts[2 * len(y) :]
        self.stats.evaluations += self.scheme.stages - 1
        size = self._norm(error, y, after)
        if size <= 1:
            stages.accept()
        return after, slope or None, size

    def _instants(self, t: Fraction, end: Fraction) -> tuple[Instant, ...]:
        """Where each stage of a step reads the field."""
        sides = (Side.RIGHT, Side.LEFT) if end > t else (Side.LEFT, Side.RIGHT)
        places = zip(self.scheme.c, self.scheme.reads_behind, strict=True)
        return tuple([Instant(t + c * (end - t), sides[is_behind]) for c, is_behind in places])

    def _norm(self, error: State, before: State, after: State) -> float:
        """Root mean square of the error over the tolerance, over the whole batch; infinite when not finite."""
        limits = [
            self.tolerance.atol + self.tolerance.rtol * torch.maximum(a.detach().abs(), b.detach().abs())
            for a, b in list(zip(before, after, strict=True))[: self.controlled]
        ]
        return self._rms(error[: self.controlled], limits) if self._is_finite(after) else float("inf")

    def _slope(self, y: State, t: Fraction, stop: Fraction) -> State:
        """The field at t, read from the side of `stop`."""
        ahead = Side.RIGHT if stop > t else Side.LEFT
        stages = self.field.stages((Instant(t, ahead),))
        slope = self._piece(_first, stages, y)
        stages.accept()
        self.stats.evaluations += 1
        if not self._is_finite(slope):
            raise SolverError(self.where, t, Cause.NON_FINITE, self.stats)
        return slope

    def _piece(self, run: Run, stages: Stages, inputs: State) -> State:
        return run([stages], inputs) if self.wrap is None else self.wrap(run, [stages], inputs)

    def _is_finite(self, parts: State) -> bool:
        """Whether every process has finite numbers only."""
        bad = sum(not bool(torch.isfinite(part).all()) for part in parts)
        return not (bad if self.across is None else self.across([float(bad)])[0])

    def _rms(self, parts: Sequence[Tensor], limits: Sequence[Tensor]) -> float:
        """Root mean square of the parts over their limits."""
        ratios = (p.detach().double() / q.double().clamp_min(1e-300) for p, q in zip(parts, limits, strict=True))
        sums = [sum(float(ratio.square().sum()) for ratio in ratios), float(sum(part.numel() for part in parts))]
        total, count = sums if self.across is None else self.across(sums)
        value = (total / max(count, 1.0)) ** 0.5
        return value if isfinite(value) else float("inf")

    @torch.no_grad()
    def _initial_width(self, y: State, t: Fraction, stop: Fraction, slope: State) -> Fraction:
        """Hairer's rule: a step in which the solution, its slope and its curvature change little.

        Worked out in shares of the whole interval, so that the unit of time does not matter.
        """
        sign, whole = (1 if stop > t else -1), float(self.span)
        scale = float(self.field.scale)
        seen = slice(self.controlled)
        limits = [self.tolerance.atol + self.tolerance.rtol * part.detach().abs() for part in y[seen]]
        d0, d1 = self._rms(y[seen], limits), whole * abs(scale) * self._rms(slope[seen], limits)

        def bend(share: float) -> tuple[float, float]:
            width = min(_exact(share * whole), abs(stop - t))
            side = Side.RIGHT if (sign > 0) != (width == abs(stop - t)) else Side.LEFT
            moved = self.field.stages((Instant(t + sign * width, side),))(
                0, advance(y, ((0, sign * float(width) * scale),), [slope])
            )
            self.stats.evaluations += 1
            change = self._rms([a - b for a, b in zip(moved, slope, strict=True)][seen], limits)
            return float(width) / whole, whole * abs(scale) * change / (float(width) / whole)

        return _exact(first_step(d0, d1, bend, self.scheme.order) * whole)


Bend = Callable[[float], tuple[float, float]]
"""The curvature over a trial step, as the step that was tried and the size."""


def first_step(state: float, slope: float, bend: Bend, order: int, is_bold: bool = False) -> float:
    """Hairer's rule (Hairer, Norsett, Wanner I, II.4, p. 169): the first step, as a share of the whole interval.

    h = min(100 h0, (0.01 / max(d1, d2))^(1 / (order + 1)), 1),  h0 = 0.01 d0 / d1,  where d0, d1, d2 are the sizes of
    the state, its slope and its curvature, each relative to the tolerance. Where state or slope is next to nothing,
    h0 says nothing: then the step is tiny, as an adaptive solver can grow it, or, if bold, as large as the rest allows.
    """
    is_told = min(state, slope) >= 1e-5 and isfinite(state + slope)
    h0, curvature = bend(min(max(0.01 * state / slope, 1e-12), 1.0) if is_told else 1e-6)
    largest = max(slope, curvature)
    is_flat = largest <= 1e-15 or not isfinite(largest)
    unbent = 1.0 if is_bold else max(1e-6, 1e-3 * h0)
    h1 = unbent if is_flat else (0.01 / largest) ** (1 / (order + 1))
    return min(1.0 if is_bold and not is_told else 100 * h0, h1, 1.0)


def _first(stages: Sequence[Stages], y: State) -> State:
    """The slope at the first stage."""
    return stages[0](0, y)


def _trial(step: Step, is_fsal: bool, width: int, stages: Sequence[Stages], inputs: State) -> State:
    """A step as a function of its inputs, so that a gradient mode can run it again."""
    y, first = inputs[:width], inputs[width:]
    after, slopes = rk_step(stages[0], y, step, first)
    with torch.no_grad():
        error = advance(tuple(torch.zeros_like(part) for part in y), step.error, slopes)
    return (*after, *error, *(slopes[-1] if is_fsal else ()))


def _landing(t: Fraction, stop: Fraction, width: Fraction) -> Fraction:
    """The end of the next step: on `stop` if it is near, halfway if it is near enough to leave a sliver."""
    left = abs(stop - t)
    if width >= left * Fraction(99, 100):
        return stop
    sign = 1 if stop > t else -1
    return t + sign * (left / 2 if 2 * width > left else width)


def _exact(value: float) -> Fraction:
    """A width with a short binary expansion, so that exact times stay cheap."""
    return Fraction(float(np.float32(value))) if 1e-30 < value < 1e30 else Fraction(value)
