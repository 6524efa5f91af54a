"""One Runge-Kutta step of a field f(t, y) in floating point."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import Tensor

from anydepth.depth.schemes import Scheme
from anydepth.solve.fixed import advance, scaled
from anydepth.solve.plan import Step, Terms, make_step
from anydepth.solve.tensors import State
from anydepth.torchdiffeq.clock import Span

Field = Callable[[Tensor, State], State]
"""The slopes of all components, from the time and the components that the field depends on."""


@dataclass(frozen=True)
class Taken:
    """A step: the state after it, its slopes, and the slope at its end as the field gave it, if there is one."""

    after: State
    slopes: list[State]
    last: State | None


class Stepper:
    """Steps of one scheme. Only the first `active` components of the state act on the field; others are integrals."""

    def __init__(self, field: Field, scheme: Scheme, active: int):
        self.field, self.scheme, self.active = field, scheme, active
        self.unit = self.step = make_step(scheme, Fraction(1))
        self.width = 1.0
        self.shares = tuple(float(share) for share in scheme.c)
        self.ends_at_end = self.shares[-1] == 1 and scheme.stages > 1
        self.evaluations = 0

    def scaled(self, width: float) -> Step:
        """A step of this width; steps of a grid often have the same."""
        if width != self.width:
            self.width, self.step = width, scaled(self.unit, width)
        return self.step

    def slope(self, y: State, span: Span, share: float = 0.0) -> State:
        """The field at one end of a step."""
        self.evaluations += 1
        (time,) = span.times((share,), y[0])
        return self.field(time, y[: self.active])

    def take(self, y: State, first: State, span: Span, step: Step) -> Taken:
        """A step, given the slope at its start."""
        times, stretch, moving = span.times(self.shares[1:], y[0]), span.stretch(), y[: self.active]
        slopes = [stretched(first, stretch)]
        acting = [slopes[0][: self.active]]
        last, at = first, moving
        for time, terms in zip(times, step.stages[1:], strict=True):
            at = advance(moving, terms, acting)
            last = self.field(time, at)
            slopes.append(stretched(last, stretch))
            acting.append(slopes[-1][: self.active])
        self.evaluations += len(times)
        after = self._after(y, at, step, slopes)
        return Taken(after, slopes, last if self.ends_at_end else None)

    def _after(self, y: State, at: State, step: Step, slopes: Sequence[State]) -> State:
        """The result; first same as last, it is what the last stage was given."""
        if not self.scheme.is_fsal:
            return _advanced(y, step.result, slopes)
        rest = [slope[self.active :] for slope in slopes]
        return (*at, *_advanced(y[self.active :], step.result, rest))


def _advanced(y: State, terms: Terms, slopes: Sequence[State]) -> State:
    """y + sum of factor * slope; many components at once where no gradient is asked for.

    The sum is made first, so that a step rounds at the size of y once.
    """
    if not y or len(terms) < 2:
        return advance(y, terms, slopes) if y else ()
    if len(y) < 3 or torch.is_grad_enabled():
        (first, factor), *rest = terms
        total = advance(tuple(part * factor for part in slopes[first]), tuple(rest), slopes)
        return tuple(part + increment for part, increment in zip(y, total, strict=True))
    return tuple(torch._foreach_add(y, combined(terms, slopes, len(y))))  # pyright: ignore[reportPrivateImportUsage]


def stretched(slope: State, factor: Tensor | None) -> State:
    return slope if factor is None else tuple(part * factor.to(part.dtype) for part in slope)


@torch.no_grad()
def combined(terms: Terms, slopes: Sequence[State], count: int) -> State:
    """The sum of factor * slope, of the first `count` components."""
    (first, factor), *rest = terms
    found = torch._foreach_mul(slopes[first][:count], factor)  # pyright: ignore[reportPrivateImportUsage]
    for j, factor in rest:
        torch._foreach_add_(found, slopes[j][:count], alpha=factor)  # pyright: ignore[reportPrivateImportUsage]
    return tuple(found)
