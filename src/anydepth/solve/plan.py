"""A discrete network made ready: the evaluations of a scheme and the coefficients that combine them."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any, Protocol, TypeVar

import torch

from anydepth.depth.grids import Grid
from anydepth.depth.schemes import Scheme
from anydepth.depth.times import Instant
from anydepth.solve.tensors import State

Terms = tuple[tuple[int, float], ...]
"""A combination of slopes: pairs of stage and factor."""


@dataclass(frozen=True)
class Link:
    """The state after a stage, from its slope and the states before: factor * slope + sum of factor * state."""

    factor: float
    states: Terms
    is_rounded: bool = False
    """Whether the factors on states are not exact in the precision at work, and were made to add up to one."""


def rounded(links: Sequence[Link], dtype: torch.dtype) -> tuple[Link, ...]:
    """The links in a precision, their factors on states adding up to one there to the bit.

    Factors of 1/3 and 2/3 that are rounded one by one do not, and a state would grow by the gap in every step.
    """
    return tuple(_adding_up(link, dtype) for link in links)


@lru_cache(maxsize=4096)
def _adding_up(link: Link, dtype: torch.dtype) -> Link:
    (first, _), *others = link.states
    factors = [(j, float(torch.tensor(factor, dtype=dtype))) for j, factor in others]
    states = ((first, float(1 - sum(Fraction(factor) for _, factor in factors))), *factors)
    return link if states == link.states else Link(link.factor, states, is_rounded=True)


@dataclass(frozen=True)
class Step:
    """One step: how each stage's input, the result and the error estimate combine the slopes."""

    stages: tuple[Terms, ...]
    result: Terms
    error: Terms = ()
    links: tuple[Link, ...] | None = None
    """The same without any slope but a stage's own: each link gives the next stage's input, the last the result."""


class Stages(Protocol):
    """The vector field at the stages of one step."""

    def __call__(self, stage: int, y: State) -> State:
        """The slope at a stage."""
        ...

    def accept(self) -> None:
        """Told when the step is taken."""
        ...


Reads = TypeVar("Reads", covariant=True)


class Readable(Protocol[Reads]):
    """A function of depth that can be made ready for given instants; equal ones have equal hashes."""

    def reading(self, instants: Sequence[Instant]) -> Reads: ...


Found = TypeVar("Found")


class Plan:
    """Instants and steps for (grid, scheme, scale), and readings of weight functions there."""

    def __init__(self, grid: Grid, scheme: Scheme, scale: Fraction):
        self.stages = grid.stages(scheme)
        self.instants: tuple[Instant, ...] = tuple(i for step in self.stages for i in step)
        self.evaluations = len(self.instants)
        widths = [b - a for a, b in pairwise(grid.times)]
        made = {width: make_step(scheme, width * scale) for width in set(widths)}
        self.steps = tuple(made[width] for width in widths)
        self._readings: dict[object, Any] = {}
        self.kept: dict[object, Any] = {}
        """What others work out for this plan once and for all."""

    def reading(self, function: Readable[Found]) -> Found:
        if function not in self._readings:
            self._readings[function] = function.reading(self.instants)
        return self._readings[function]

    def __deepcopy__(self, memo: dict) -> "Plan":
        return self


def make_step(scheme: Scheme, width: Fraction) -> Step:
    """The coefficients of a step whose width (times the scale) is given."""
    low = scheme.b_low or scheme.b
    gap = tuple(high - other for high, other in zip(scheme.b, low, strict=True))
    stages = tuple(_terms(row, width) for row in scheme.a)
    return Step(stages, _terms(scheme.b, width), _terms(gap, width), _links(scheme, width))


def _terms(row: tuple[Fraction, ...], width: Fraction) -> Terms:
    return tuple((j, float(factor * width)) for j, factor in enumerate(row) if factor)


def _links(scheme: Scheme, width: Fraction) -> tuple[Link, ...] | None:
    """States x_0 = y, x_1, ... by x_i+1 = x_0 + sum_j row[j] k_j, with k_j written as a combination of states.

    None where a stage does not use the slope just before it.
    """
    links: list[Link] = []
    slopes: list[dict[int, Fraction]] = []
    for i, row in enumerate((*scheme.a[1:], scheme.b)):
        if not row[i]:
            return None
        known = {0: Fraction(1)}
        for factor, slope in zip(row, slopes, strict=False):
            for j, part in slope.items():
                known[j] = known.get(j, Fraction(0)) + factor * part
        links.append(Link(float(row[i] * width), tuple((j, float(part)) for j, part in sorted(known.items()) if part)))
        slopes.append({j: -part / row[i] for j, part in known.items()} | {i + 1: 1 / row[i]})
    return tuple(links)
