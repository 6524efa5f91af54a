"""Steps of an embedded pair as torchdiffeq controls them, with dense output at the times asked for.

The last time, `step_t` and `jump_t` are landed on; other times lie inside steps.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import copysign, inf, isfinite, ulp

import torch
from torch import Tensor

from anydepth.depth.schemes import Scheme
from anydepth.solve.adaptive import Cause, SolverError, Stats
from anydepth.solve.fixed import advance
from anydepth.solve.plan import Step
from anydepth.solve.tensors import State, check_finite
from anydepth.torchdiffeq.clock import Point, Span
from anydepth.torchdiffeq.steps import Field, Stepper, Taken, combined

NEAR = 1.01
"""A stop that is this much farther than the next step would go is stepped to at once, so that no sliver is left."""

SMALLEST = 8
"""Steps of fewer than so many units in the last place of the time count as underflow: their stages fall together."""

Norm = Callable[[State], "Tensor | float"]


@dataclass(frozen=True)
class Judge:
    """Tolerances, and the norm in which an error is compared with them."""

    rtol: float | Tensor
    atol: float | Tensor
    norm: Norm
    count: int | None = None
    """How many leading components the norm looks at; all by default."""

    @torch.no_grad()
    def ratio(self, error: State, *states: State) -> float:
        """The norm of an error over what the largest of the states allows; infinite when not finite."""
        sizes = torch._foreach_abs(states[0][: len(error)])  # pyright: ignore[reportPrivateImportUsage]
        for state in states[1:]:
            others = torch._foreach_abs(state[: len(error)])  # pyright: ignore[reportPrivateImportUsage]
            torch._foreach_maximum_(sizes, others)  # pyright: ignore[reportPrivateImportUsage]
        limits = [size.mul_(self.rtol).add_(self.atol) for size in sizes]
        value = abs(float(self.norm(tuple(map(torch.div, error, limits)))))
        return value if isfinite(value) else inf


@dataclass(frozen=True)
class Control:
    """What decides the steps: the judge of errors, and torchdiffeq's options by their names."""

    judge: Judge
    min_step: float = 0.0
    max_step: float = inf
    first_step: float | None = None
    step_t: tuple[float, ...] = ()
    jump_t: tuple[float, ...] = ()
    safety: float = 0.9
    ifactor: float = 10.0
    dfactor: float = 0.2
    max_num_steps: int = 2**31 - 1
    """How many steps may be tried between two of the times asked for."""

    def next_width(self, width: float, error: float, order: int) -> float:
        """How wide the step after one of this width and error may be."""
        if error == 0:
            return width * self.ifactor
        smallest = 1.0 if error < 1 else self.dfactor
        factor = min(self.ifactor, max(self.safety * error ** (-1 / order), smallest))
        return min(max(width * factor, self.min_step), self.max_step)


class Adaptive:
    """An integration in progress; a second `solve` goes on with the width of the first."""

    def __init__(self, field: Field, scheme: Scheme, control: Control, active: int = 1):
        self.scheme, self.control = scheme, control
        self.stepper = Stepper(field, scheme, active)
        self.width = control.first_step
        self.accepted = self.rejected = 0

    def solve(self, y: State, t: Tensor) -> tuple[list[Tensor], State]:
        """The first component at every time after the first, in pieces, and the whole state at the last."""
        times = t.detach().double().tolist()
        nodes = t.double() if t.requires_grad and torch.is_grad_enabled() else None
        self.output = Output(self.scheme, times, nodes)
        self.tried = 0
        at, *stops = self._points(times, nodes)
        slope = self.stepper.slope(y, Span(at, stops[-1]))
        if self.width is None:
            self.width = self._first_width(y, slope, Span(at, stops[-1]))
        for stop in stops:
            y, slope = self._reach(y, slope, at, stop)
            at = stop
            if stop is not stops[-1]:
                slope = self.stepper.slope(y, Span(at, stops[-1])) if stop.is_jump else slope
        if not all(bool(torch.isfinite(part).all()) for part in y):
            raise self._failure(at, Cause.NON_FINITE)
        return [*self.output.pieces, y[0][None]], y

    def _points(self, times: Sequence[float], nodes: Tensor | None) -> list[Point]:
        """The first time, the points to land on, and the last time."""
        low, high = sorted((times[0], times[-1]))
        jumps = self.control.jump_t
        inner = sorted((t for t in (*self.control.step_t, *jumps) if low < t < high), reverse=times[0] > times[-1])
        if nodes is None:
            return [Point(t, None, t in jumps) for t in (times[0], *inner, times[-1])]
        fixed = [torch.tensor(t, dtype=nodes.dtype, device=nodes.device) for t in inner]
        found = zip((times[0], *inner, times[-1]), (nodes[0], *fixed, nodes[-1]), strict=True)
        return [Point(t, node, t in jumps) for t, node in found]

    def _reach(self, y: State, slope: State, at: Point, stop: Point) -> tuple[State, State]:
        """Step to exactly `stop`; the state and the slope there."""
        cause = Cause.UNDERFLOW
        while at.time != stop.time:
            wanted = min(max(self.width or 0.0, self.control.min_step), self.control.max_step)
            span = Span(at, self._target(at, stop, wanted))
            if self.tried >= self.control.max_num_steps:
                raise self._failure(at, Cause.STEP_CAP)
            if span.end is not stop and abs(span.width) < SMALLEST * ulp(at.time):
                raise self._failure(at, cause)
            step = self.stepper.scaled(span.width)
            taken = self.stepper.take(y, slope, span, step)
            error, width = self._error(y, taken, step), min(abs(span.width), wanted)  # not as the time was rounded
            wider = self.control.next_width(width, error, self.scheme.order)
            self.tried += 1
            if error > 1 and width > self.control.min_step:
                self.rejected, self.width = self.rejected + 1, wider
                cause = Cause.UNDERFLOW if isfinite(error) else Cause.NON_FINITE
                continue
            self.accepted += 1
            if self.output.collect(y, taken.slopes, span):
                self.tried = 0
            # A step that was cut to land on a stop says little about the next one.
            self.width = max(self.width or 0.0, wider) if span.end is stop and error <= 1 else wider
            y, at, cause = taken.after, span.end, Cause.UNDERFLOW
            slope = taken.last if taken.last is not None else self.stepper.slope(y, Span(at, stop))
        return y, slope

    def _target(self, at: Point, stop: Point, wanted: float) -> Point:
        """Where the next step goes: on `stop` if that is near."""
        left = stop.time - at.time
        if abs(left) <= min(wanted * NEAR, self.control.max_step):
            return stop
        width = copysign(wanted, left)
        return Point(at.time + width, None if at.node is None else at.node + width)

    def _error(self, y: State, taken: Taken, step: Step) -> float:
        judge = self.control.judge
        error = combined(step.error, taken.slopes, len(y) if judge.count is None else judge.count)
        return judge.ratio(error, y, taken.after)

    @torch.no_grad()
    def _first_width(self, y: State, slope: State, span: Span) -> float:
        """A step in which the solution, its slope and its curvature change little (Hairer, Norsett, Wanner II.4)."""
        judge = self.control.judge
        y0, f0 = y[: judge.count], slope[: judge.count]
        d0, d1 = judge.ratio(y0, y0), judge.ratio(f0, y0)
        if not isfinite(d0 + d1):
            check_finite(y, "y0")
            raise self._failure(span.start, Cause.NON_FINITE)
        h0 = min(1e-6 if min(d0, d1) < 1e-5 else 0.01 * d0 / d1, abs(span.width))
        signed = copysign(h0, span.width)
        moved = advance(y, ((0, signed),), [slope])
        then = self.stepper.slope(moved, Span(Point(span.start.time + signed), Point(span.end.time)))
        bend = tuple(b - a for a, b in zip(f0, then, strict=False))
        d2 = judge.ratio(bend, y0) / h0
        if max(d1, d2) <= 1e-15:
            return min(100 * h0, max(1e-6, h0 * 1e-3))
        return min(100 * h0, (0.01 / max(d1, d2)) ** (1 / self.scheme.order))

    def _failure(self, at: Point, cause: Cause) -> SolverError:
        where = f"odeint (max_num_steps={self.control.max_num_steps})" if cause is Cause.STEP_CAP else "odeint"
        stats = Stats(self.stepper.evaluations, self.accepted, self.rejected)
        return SolverError(where, Fraction(at.time), cause, stats)


class Output:
    """The first component of the state at the times inside steps."""

    def __init__(self, scheme: Scheme, times: Sequence[float], nodes: Tensor | None):
        self.scheme, self.times, self.nodes = scheme, times, nodes
        self.pieces: list[Tensor] = []
        self.next = 1

    def collect(self, y: State, slopes: Sequence[State], span: Span) -> bool:
        """Keep the state at the times inside a step, the last time excepted; whether there were any."""
        first, end = self.next, span.end.time
        while self.next < len(self.times) - 1 and (self.times[self.next] - end) * span.width <= 0:
            self.next += 1
        if self.next == first:
            return False
        weights = self._weights(slice(first, self.next), span).to(y[0])
        stacked = torch.stack([slope[0] for slope in slopes])
        moved = (weights @ stacked.reshape(len(slopes), y[0].numel())).view(len(weights), *y[0].shape)
        self.pieces.append(torch.add(y[0], moved, alpha=span.width))
        return True

    def _weights(self, some: slice, span: Span) -> Tensor:
        """The weight of every slope, one row for every time; with gradients where times have some."""
        dense = self.scheme.dense
        if self.nodes is None:
            start, width = span.start.time, span.width
            return torch.from_numpy(dense.weights([(time - start) / width for time in self.times[some]]))
        powers = torch.arange(1, len(dense.coefficients) + 1, device=self.nodes.device)
        share = span.share(self.nodes[some])
        return share[:, None] ** powers @ torch.from_numpy(dense.coefficients).to(share)
