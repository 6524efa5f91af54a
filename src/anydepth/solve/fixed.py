"""Runge-Kutta steps on a tuple of tensors, on a fixed grid."""

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache, partial

import torch

from anydepth.depth.schemes import Scheme
from anydepth.solve.plan import Stages, Step, Terms, make_step
from anydepth.solve.tensors import State, is_transformed

Run = Callable[[Sequence[Stages], State], State]
"""A piece of the forward pass: the state after it, from the stages of its steps and the state before it."""
Wrap = Callable[[Run, Sequence[Stages], State], State]
"""What a gradient mode does instead of running a piece."""


def advance(y: State, terms: Terms, slopes: Sequence[State]) -> State:
    """y + sum of factor * slope, component by component; after the first term in place, on memory that is at hand."""
    if not terms:
        return y
    (first, factor), rest = terms[0], terms[1:]
    result = tuple([torch.add(part, slope, alpha=factor) for part, slope in zip(y, slopes[first], strict=True)])
    if rest and is_transformed():
        for j, factor in rest:
            result = tuple(torch.add(part, slope, alpha=factor) for part, slope in zip(result, slopes[j], strict=True))
        return result
    for j, factor in rest:
        for part, slope in zip(result, slopes[j], strict=True):
            part.add_(slope, alpha=factor)
    return result


def rk_step(stages: Stages, y: State, step: Step, first: State | None = None) -> tuple[State, list[State]]:
    """The state after a step, and its slopes; `first` is the first slope when it is known."""
    slopes: list[State] = []
    for i, terms in enumerate(step.stages):
        slopes.append(first if i == 0 and first is not None else stages(i, advance(y, terms, slopes)))
    return advance(y, step.result, slopes), slopes


def fixed(
    stages: Sequence[Stages], steps: Sequence[Step], y: State, wrap: Wrap | None = None, segment: int = 1
) -> Iterator[State]:
    """The state after every segment of so many steps; without a gradient mode around it, after every step."""
    if wrap is None:
        for at, step in zip(stages, steps, strict=True):
            y, _ = rk_step(at, y, step)
            at.accept()
            yield y
        return
    for start in range(0, len(steps), segment):
        among, run = stages[start : start + segment], partial(_along, steps[start : start + segment])
        y = wrap(run, among, y)
        for at in among:
            at.accept()
        yield y


def _along(steps: Sequence[Step], stages: Sequence[Stages], y: State) -> State:
    for at, step in zip(stages, steps, strict=True):
        y, _ = rk_step(at, y, step)
    return y


def last(states: Iterator[State], y: State) -> State:
    for after in states:
        y = after
    return y


@lru_cache(maxsize=64)
def unit_step(scheme: Scheme) -> Step:
    """The coefficients of a step of unit width."""
    return make_step(scheme, Fraction(1))


def scaled(step: Step, width: float) -> Step:
    """A step of unit width made as wide as given, in floating point."""

    def stretch(terms: Terms) -> Terms:
        return tuple((j, factor * width) for j, factor in terms)

    return Step(tuple(stretch(terms) for terms in step.stages), stretch(step.result), stretch(step.error))
