"""Adaptive integration in which every example of a batch has its own steps and its own error control.

Every example goes its own way from one mark (a breakpoint or a time that is asked for) to the next; examples that have
arrived leave the batch and wait, so that none is evaluated for another's sake. Between two marks the field is smooth,
and which side of a mark is meant follows from the interval, so that floating-point times are exact enough.
"""

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

import torch
from torch import Tensor

from anydepth.depth.schemes import Scheme
from anydepth.solve.adaptive import GROW, SAFETY, SHRINK, SMALLEST, Cause, ExampleStats, SolverError, Stats, Tolerance
from anydepth.solve.row_tensors import beside, chosen, combined, finite_rows, moved, rms_rows, short
from anydepth.solve.tensors import State
from anydepth.solve.walkers import RowField, Span, Trial, Walkers, count_of, joined, landings, without_slope


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
            known = walkers if self.scheme.is_fsal and start not in breaks else without_slope(walkers)
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
            end = landings(span, walkers)
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
        self._refuse(~finite_rows(slope), rows, time, Cause.NON_FINITE)
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
        step = [beside(part, gap * float(self.field.scale)) for part in y]
        slopes, at = [walkers.slope], y
        for c, row in zip(self.c[1:], self.a[1:], strict=True):
            at = moved(y, step, row, slopes)
            slopes.append(self._slopes(span, end if c == 1 else time + c * gap, at, rows))
        after = at if self.scheme.is_fsal else moved(y, step, self.b, slopes)
        with torch.no_grad():
            error = tuple(h * combined(self.gap, [slope[i] for slope in slopes]) for i, h in enumerate(step))
            size = self._norm(error, y, after)
        sound = not torch.is_grad_enabled() or all(bool(finite_rows(slope).all()) for slope in slopes)
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
        shrunk, grown = short(tried * factor), short(tried * torch.minimum(walkers.growth, factor))
        kept = torch.where(tried < walkers.width, torch.maximum(walkers.width, grown), grown)
        width = torch.where(is_good, kept, shrunk)
        growth = torch.where(is_good, GROW, 1.0).to(torch.float64)
        time = torch.where(is_good, end, walkers.time)
        if self._broken or bool(trial.error.isinf().any()):
            self._broken = self._broken - set(walkers.rows.tolist()) | set(walkers.rows[trial.error.isinf()].tolist())
        y = chosen(is_good, trial.after, walkers.y)
        if trial.slope is not None:
            return Walkers(walkers.rows, time, width, growth, y, chosen(is_good, trial.slope, walkers.slope))
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
        size = rms_rows(error, limits)
        return torch.where(finite_rows(after) & size.isfinite(), size, float("inf"))

    @torch.no_grad()
    def _initial(self, span: Span, time: Tensor, y: State, slope: State, rows: Tensor) -> Tensor:
        """Hairer's rule for the first step (see `first_step`), for every example."""
        whole, scale, sign = self.whole, abs(float(self.field.scale)), span.sign
        limits = [self.tolerance.atol + self.tolerance.rtol * part.abs() for part in y]
        state, steep = rms_rows(y, limits), whole * scale * rms_rows(slope, limits)
        is_told = (torch.minimum(state, steep) >= 1e-5) & (state + steep).isfinite()
        share = torch.where(is_told, (0.01 * state / steep).clamp(1e-12, 1.0), 1e-6)
        left = float(abs(span.end - span.start))
        width = short(share * whole).clamp_max(left)
        step = [beside(part, sign * width * float(self.field.scale)) for part in y]
        near = torch.where(width == left, float(span.end), time + sign * width)
        ahead = self._slopes(span, near, moved(y, step, [1.0], [slope]), rows)
        change = rms_rows(tuple(a - b for a, b in zip(ahead, slope, strict=True)), limits)
        h0, curved = width / whole, whole * scale * change / (width / whole)
        largest = torch.maximum(steep, curved)
        is_flat = (largest <= 1e-15) | ~largest.isfinite()
        h1 = torch.where(is_flat, (1e-3 * h0).clamp_min(1e-6), (0.01 / largest) ** (1 / (self.scheme.order + 1)))
        return short(torch.minimum(100 * h0, h1).clamp_max(1.0) * whole)
