"""The explicit Adams method: a step from the slopes at the last points of the grid."""

from collections import deque
from fractions import Fraction
from functools import lru_cache

from anydepth.solve.fixed import advance
from anydepth.solve.tensors import State
from anydepth.torchdiffeq.clock import Span
from anydepth.torchdiffeq.steps import Stepper, stretched

FIRST_ORDER, MAX_ORDER = 3, 12
"""With fewer slopes than this the Runge-Kutta scheme steps; torchdiffeq's largest `max_order`."""


class Adams:
    """Adams-Bashforth steps of growing order. Where the width changes, the Runge-Kutta scheme starts anew."""

    def __init__(self, stepper: Stepper, max_order: int, slack: float):
        self.stepper, self.slack = stepper, slack
        self.slopes: deque[State] = deque(maxlen=max_order - 1)
        self.width: float | None = None

    def step(self, y: State, first: State, span: Span) -> State:
        if self.width is not None and abs(span.width - self.width) > self.slack:
            self.slopes.clear()
        self.width = span.width
        self.slopes.appendleft(first)
        if len(self.slopes) < FIRST_ORDER:
            return self.stepper.take(y, first, span, self.stepper.scaled(span.width)).after
        stretch = span.stretch()
        terms = tuple((j, weight * span.width) for j, weight in enumerate(bashforth(len(self.slopes))))
        return advance(y, terms, [stretched(slope, stretch) for slope in self.slopes])


@lru_cache
def bashforth(order: int) -> tuple[float, ...]:
    """The integral over the next step of the polynomials that are 1 at one of the last points and 0 at the others."""
    return tuple(float(_integral([-j for j in range(order) if j != i], -i)) for i in range(order))


def _integral(zeros: list[int], one: int) -> Fraction:
    """From 0 to 1, of the polynomial with these zeros that is 1 at `one`."""
    coefficients = [Fraction(1)]
    for zero in zeros:
        shifted = [Fraction(0), *coefficients]
        scaled = [*(-zero * c for c in coefficients), Fraction(0)]
        coefficients = [(a + b) / (one - zero) for a, b in zip(shifted, scaled, strict=True)]
    return sum((c / (power + 1) for power, c in enumerate(coefficients)), Fraction(0))
