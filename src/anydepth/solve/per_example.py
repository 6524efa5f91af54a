"""Adaptive integration in which every example of a batch has its own steps and its own error control.

Every example goes its own way from one mark (a breakpoint or a time that is asked for) to the next; examples that have
arrived leave the batch and wait, so that none is evaluated for another's sake. Between two marks the field is smooth,
and which side of a mark is meant follows from the interval, so that floating-point times are exact enough.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from anydepth.depth.schemes import Scheme
from anydepth.depth.times import Instant, Side
from anydepth.errors import ConfigError, ShapeError
from anydepth.solve.adaptive import GROW, SAFETY, SHRINK, SMALLEST, Cause, ExampleStats, SolverError, Stats, Tolerance
from anydepth.solve.tensors import State


@dataclass(frozen=True)
class Span:
    """From one mark to the next, in the direction of time."""

    start: Fraction
    end: Fraction

    @property
    def sign(self) -> int:
        return 1 if self.end > self.start else -1

    @property
    def ends(self) -> tuple[Instant, Instant]:
        """Start and end, seen from inside."""
        ahead, behind = (Side.RIGHT, Side.LEFT) if self.sign > 0 else (Side.LEFT, Side.RIGHT)
        return Instant(self.start, ahead), Instant(self.end, behind)

    def instants(self, times: Tensor) -> list[Instant]:
        """Of every example, exactly; at the ends of the span, the side inside."""
        ends = {float(end.time): end for end in self.ends}
        return [ends.get(time) or Instant(Fraction(time), self.ends[0].side) for time in times.tolist()]


class RowField(Protocol):
    """A vector field that is read at another time for every example."""

    @property
    def breakpoints(self) -> Sequence[Fraction]: ...

    @property
    def scale(self) -> Fraction: ...

    def slopes(self, span: Span, times: Tensor, y: State, rows: Tensor) -> State:
        """The slopes of some examples, given their times in a span (float64, CPU), states, and places in the batch."""
        ...


@dataclass
class Walkers:
    """Examples on their way through a span; all tensors have one entry for each."""

    rows: Tensor
    time: Tensor
    width: Tensor
    growth: Tensor
    y: State
    slope: State

    def take(self, places: Tensor) -> "Walkers":
        def some(parts: State) -> State:
            return tuple(part.index_select(0, places.to(part.device)) for part in parts)

        time, width, growth = self.time[places], self.width[places], self.growth[places]
        return Walkers(self.rows[places], time, width, growth, some(self.y), some(self.slope))


def joined(parts: Sequence[Walkers]) -> Walkers:
    """In the order of the batch."""

    def whole(name: str) -> Tensor:
        return torch.cat([getattr(part, name) for part in parts])

    y, slope = (
        tuple(torch.cat(column) for column in zip(*(getattr(part, name) for part in parts), strict=True))
        for name in ("y", "slope")
    )
    found = Walkers(whole("rows"), whole("time"), whole("width"), whole("growth"), y, slope)
    return found if len(parts) == 1 else found.take(found.rows.argsort())


@dataclass
class Trial:
    """A step that was tried, for every example."""

    after: State
    slope: State | None
    """At its end, where the scheme gives it."""
    error: Tensor
    is_sound: bool
    """Whether every number on the way was finite."""


class PerExample:
    """One integration of a batch; what each example took is in `stats.examples`."""

    def __init__(self, field: RowField, scheme: Scheme, tolerance: Tolerance, where: str):
        self.field, self.scheme, self.tolerance, self.where = field, scheme, tolerance, where
        self.order = (scheme.low_order or scheme.order) + 1
        self.c = [float(c) for c in scheme.c]
        self.a = [[float(factor) for factor in row] for row in scheme.a]
        self.b = [float(factor) for factor in scheme.b]
        self.gap = [float(high - low) for high, low in zip(scheme.b, scheme.b_low or scheme.b, strict=True)]

    def states(self, y: State, times: Sequence[Fraction]) -> list[State]:
        """The state at every one of the monotone times, which start with that of y."""
        count = count_of(y)
        self.spent = ExampleStats(*(torch.zeros(count, dtype=torch.int64) for _ in range(3)))
        sign = 1 if times[-1] > times[0] else -1
        if not count:
            return [y] * len(times)
        self.whole = float(abs(times[-1] - times[0]))
        low, high = min(times[0], times[-1]), max(times[0], times[-1])
        breaks = {b for b in self.field.breakpoints if low < b < high}
        marks = sorted({*times, *breaks}, key=lambda time: sign * time)
        found, walkers = [y], None
        for start, end in pairwise(marks):
            known = walkers if self.scheme.is_fsal and start not in breaks else _without_slope(walkers)
            walkers = self._cross(Span(start, end), y, known)
            y = walkers.y
            if end in times:
                found.append(y)
        return found

    @property
    def stats(self) -> Stats:
        spent = self.spent
        most = [int(part.max()) if len(part) else 0 for part in (spent.evaluations, spent.accepted, spent.rejected)]
        return Stats(most[0], most[1], most[2], examples=spent)

    def _cross(self, span: Span, y: State, before: Walkers | None) -> Walkers:
        """All examples from the start of a span to its end."""
        walkers = self._started(span, y, before)
        arrived: list[Walkers] = []
        while len(walkers.rows):
            self._check(span, walkers)
            end = _landings(span, walkers)
            trial = self._attempt(span, walkers, end)
            walkers = self._settled(span, walkers, end, trial)
            is_there = walkers.time == float(span.end)
            if bool(is_there.any()):
                arrived.append(walkers.take(is_there.nonzero().squeeze(1)))
                walkers = walkers.take((~is_there).nonzero().squeeze(1))
        return joined(arrived) if arrived else walkers

    def _started(self, span: Span, y: State, before: Walkers | None) -> Walkers:
        """At the start of a span, with a slope and a width to try."""
        rows = torch.arange(len(y[0]))
        time = torch.full((len(rows),), float(span.start), dtype=torch.float64)
        known = before is not None and len(before.slope) > 0
        slope = before.slope if before is not None and known else self._first(span, time, y, rows)
        width = before.width if before is not None else self._initial(span, time, y, slope, rows)
        return Walkers(rows, time, width, torch.full_like(width, GROW), y, slope)

    def _first(self, span: Span, time: Tensor, y: State, rows: Tensor) -> State:
        slope = self._slopes(span, time, y, rows)
        self._refuse(~_finite(slope), rows, time, Cause.NON_FINITE)
        return slope

    def _slopes(self, span: Span, time: Tensor, y: State, rows: Tensor) -> State:
        if not len(rows):
            return y
        self.spent.evaluations[rows] += 1
        found = self.field.slopes(span, time, y, rows)
        return tuple(slope.to(part.dtype) for slope, part in zip(found, y, strict=True))

    def _check(self, span: Span, walkers: Walkers) -> None:
        tries = (self.spent.accepted + self.spent.rejected)[walkers.rows]
        self._refuse(tries >= self.tolerance.max_steps, walkers.rows, walkers.time, Cause.STEP_CAP)
        self._refuse(walkers.width < SMALLEST * self.whole, walkers.rows, walkers.time, Cause.UNDERFLOW)

    def _refuse(self, bad: Tensor, rows: Tensor, time: Tensor, cause: Cause) -> None:
        """An error that names the first example that cannot go on."""
        if bool(bad.any()):
            place = int(bad.nonzero()[0])
            row, spent = int(rows[place]), self.spent
            cause = Cause.NON_FINITE if cause is Cause.UNDERFLOW and row in self._broken else cause
            took = [int(part[row]) for part in (spent.evaluations, spent.accepted, spent.rejected)]
            stats = Stats(took[0], took[1], took[2])
            raise SolverError(f"{self.where}, example {row},", Fraction(float(time[place])), cause, stats)

    _broken: frozenset[int] = frozenset()
    """Examples whose last trial was not finite."""

    def _attempt(self, span: Span, walkers: Walkers, end: Tensor) -> Trial:
        y, time, rows, gap = walkers.y, walkers.time, walkers.rows, end - walkers.time
        step = [_beside(part, gap * float(self.field.scale)) for part in y]
        slopes, at = [walkers.slope], y
        for c, row in zip(self.c[1:], self.a[1:], strict=True):
            at = _moved(y, step, row, slopes)
            slopes.append(self._slopes(span, end if c == 1 else time + c * gap, at, rows))
        after = at if self.scheme.is_fsal else _moved(y, step, self.b, slopes)
        with torch.no_grad():
            error = tuple(h * _combined(self.gap, [slope[i] for slope in slopes]) for i, h in enumerate(step))
            size = self._norm(error, y, after)
            sound = all(bool(_finite(slope).all()) for slope in slopes)
        return Trial(after, slopes[-1] if self.scheme.is_fsal else None, size, sound)

    def _settled(self, span: Span, walkers: Walkers, end: Tensor, trial: Trial) -> Walkers:
        """What came of a trial: examples whose error is small enough go on, the others try a smaller step."""
        is_good = trial.error <= 1
        self.spent.accepted[walkers.rows[is_good]] += 1
        self.spent.rejected[walkers.rows[~is_good]] += 1
        if torch.is_grad_enabled() and not trial.is_sound and bool(is_good.any()) and not bool(is_good.all()):
            return self._apart(span, walkers, end, is_good, trial)
        return self._next(span, walkers, end, trial, is_good)

    def _apart(self, span: Span, walkers: Walkers, end: Tensor, is_good: Tensor, trial: Trial) -> Walkers:
        """The same, where numbers that are not finite would spoil the gradients of examples that go on: the step of
        those is made once more without the others."""
        good, bad = is_good.nonzero().squeeze(1), (~is_good).nonzero().squeeze(1)
        mine, others, evaluations = walkers.take(good), walkers.take(bad), self.spent.evaluations.clone()
        again = self._attempt(span, mine, end[good])
        self.spent.evaluations.copy_(evaluations)
        again.error = trial.error[good]
        went = self._next(span, mine, end[good], again, is_good[good])
        stayed = Trial(others.y, others.slope, trial.error[bad], False)
        return joined([went, self._next(span, others, end[bad], stayed, is_good[bad])])

    def _next(self, span: Span, walkers: Walkers, end: Tensor, trial: Trial, is_good: Tensor) -> Walkers:
        tried = (end - walkers.time).abs()
        factor = self._factor(trial.error)
        shrunk, grown = _short(tried * factor), _short(tried * torch.minimum(walkers.growth, factor))
        kept = torch.where(tried < walkers.width, torch.maximum(walkers.width, grown), grown)
        width = torch.where(is_good, kept, shrunk)
        growth = torch.where(is_good, GROW, 1.0).to(torch.float64)
        time = torch.where(is_good, end, walkers.time)
        if self._broken or bool(trial.error.isinf().any()):
            self._broken = self._broken - set(walkers.rows.tolist()) | set(walkers.rows[trial.error.isinf()].tolist())
        y = _where(is_good, trial.after, walkers.y)
        if trial.slope is not None:
            return Walkers(walkers.rows, time, width, growth, y, _where(is_good, trial.slope, walkers.slope))
        moved = Walkers(walkers.rows, time, width, growth, y, walkers.slope)
        return self._with_slopes(span, moved, is_good & (time != float(span.end)))

    def _with_slopes(self, span: Span, walkers: Walkers, is_new: Tensor) -> Walkers:
        """Slopes anew where examples went on, for schemes that do not give them."""
        new = is_new.nonzero().squeeze(1)
        if len(new):
            mine = walkers.take(new)
            found = self._first(span, mine.time, mine.y, mine.rows)
            walkers.slope = tuple(
                part.index_copy(0, new.to(part.device), fresh) for part, fresh in zip(walkers.slope, found, strict=True)
            )
        return walkers

    def _factor(self, error: Tensor) -> Tensor:
        """How much wider the next step may be."""
        found = SAFETY * error.clamp_min(1e-10) ** (-1 / self.order)
        return torch.where(error.isfinite(), found.clamp_min(SHRINK), SHRINK)

    def _norm(self, error: State, before: State, after: State) -> Tensor:
        """Root mean square of the error over the tolerance, for every example; infinite where not finite."""
        rtol, atol = self.tolerance.rtol, self.tolerance.atol
        limits = [atol + rtol * torch.maximum(a.abs(), b.abs()) for a, b in zip(before, after, strict=True)]
        size = _rms(error, limits)
        return torch.where(_finite(after) & size.isfinite(), size, float("inf"))

    @torch.no_grad()
    def _initial(self, span: Span, time: Tensor, y: State, slope: State, rows: Tensor) -> Tensor:
        """Hairer's rule for the first step (see `first_step`), for every example."""
        whole, scale, sign = self.whole, abs(float(self.field.scale)), span.sign
        limits = [self.tolerance.atol + self.tolerance.rtol * part.abs() for part in y]
        state, steep = _rms(y, limits), whole * scale * _rms(slope, limits)
        is_told = (torch.minimum(state, steep) >= 1e-5) & (state + steep).isfinite()
        share = torch.where(is_told, (0.01 * state / steep).clamp(1e-12, 1.0), 1e-6)
        left = float(abs(span.end - span.start))
        width = _short(share * whole).clamp_max(left)
        step = [_beside(part, sign * width * float(self.field.scale)) for part in y]
        near = torch.where(width == left, float(span.end), time + sign * width)
        moved = self._slopes(span, near, _moved(y, step, [1.0], [slope]), rows)
        change = _rms(tuple(a - b for a, b in zip(moved, slope, strict=True)), limits)
        h0, curved = width / whole, whole * scale * change / (width / whole)
        largest = torch.maximum(steep, curved)
        is_flat = (largest <= 1e-15) | ~largest.isfinite()
        h1 = torch.where(is_flat, (1e-3 * h0).clamp_min(1e-6), (0.01 / largest) ** (1 / (self.scheme.order + 1)))
        return _short(torch.minimum(100 * h0, h1).clamp_max(1.0) * whole)


def count_of(y: State) -> int:
    """Examples of a batch, which lie along the first axis of every part."""
    shapes = {part.shape[:1] for part in y}
    if len(shapes) != 1 or not next(iter(shapes)):
        found = ", ".join(str(tuple(part.shape)) for part in y)
        raise ShapeError(f"per_example needs examples along the first axis of every part of the state, got {found}")
    return len(y[0])


def picked(given: Any, rows: Tensor, count: int) -> Any:
    """Extra arguments of some examples: tensors with a batch axis give their rows, those of one row are shared."""

    def pick(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor) or leaf.dim() == 0 or len(leaf) == 1:
            return leaf
        if len(leaf) != count:
            raise ConfigError(
                f"with per_example every extra tensor has a row for each of the {count} examples, or one row that all "
                f"share, got shape {tuple(leaf.shape)}; give what all share an axis of 1 in front"
            )
        return leaf if len(rows) == count else leaf.index_select(0, rows.to(leaf.device))

    return tree_map(pick, given)


def _without_slope(walkers: Walkers | None) -> Walkers | None:
    """Past a breakpoint: the field may have jumped."""
    return None if walkers is None else replace(walkers, slope=())


def _landings(span: Span, walkers: Walkers) -> Tensor:
    """Where the next steps end: on the mark if it is near, halfway if it is near enough to leave a sliver."""
    left = (float(span.end) - walkers.time).abs()
    width = torch.where(2 * walkers.width > left, left / 2, walkers.width)
    end = torch.where(walkers.width >= 0.99 * left, float(span.end), walkers.time + span.sign * width)
    return torch.where(end == walkers.time, float(span.end), end)


def _beside(part: Tensor, values: Tensor) -> Tensor:
    """One number for every example, beside a part of the state."""
    return values.to(part.device, part.dtype).reshape(-1, *[1] * (part.dim() - 1))


def _combined(factors: Sequence[float], slopes: Sequence[Tensor]) -> Tensor:
    """The sum of factor * slope."""
    pairs = [(factor, slope) for factor, slope in zip(factors, slopes, strict=False) if factor]
    total = pairs[0][1] * pairs[0][0]
    for factor, slope in pairs[1:]:
        total = torch.add(total, slope, alpha=factor)
    return total


def _moved(y: State, step: Sequence[Tensor], factors: Sequence[float], slopes: Sequence[State]) -> State:
    """y + step * sum of factor * slope, the step another for every example."""
    return tuple(
        part + h * _combined(factors, [slope[i] for slope in slopes])
        for i, (part, h) in enumerate(zip(y, step, strict=True))
    )


def _where(is_good: Tensor, new: State, old: State) -> State:
    if bool(is_good.all()):
        return new
    if not bool(is_good.any()):
        return old
    return tuple(
        torch.where(is_good.to(a.device).reshape(-1, *[1] * (a.dim() - 1)), a, b) for a, b in zip(new, old, strict=True)
    )


def _finite(parts: State) -> Tensor:
    """For every example, whether all its numbers are finite; on the CPU."""
    flat = [part.detach().isfinite().flatten(1).all(-1) if part.dim() > 1 else part.isfinite() for part in parts]
    return torch.stack(flat).all(0).cpu()


def _rms(parts: State, limits: Sequence[Tensor]) -> Tensor:
    """For every example the root mean square of the parts over their limits; float64, on the CPU."""
    count = sum(part[0].numel() if len(part) else 1 for part in parts)
    ratios = [p.detach().double() / q.double().clamp_min(1e-300) for p, q in zip(parts, limits, strict=True)]
    total = torch.stack([r.square().flatten(1).sum(-1) if r.dim() > 1 else r.square() for r in ratios]).sum(0)
    return (total / max(count, 1)).sqrt().cpu()


def _short(width: Tensor) -> Tensor:
    """Widths with short binary expansions, as those of a batch that steps together."""
    return torch.where((width > 1e-30) & (width < 1e30), width.float().double(), width)
