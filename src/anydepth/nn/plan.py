"""A discrete network made ready: every evaluation of a scheme on a grid, with its coefficients."""

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from torch import Tensor

from anydepth.depth.grids import Grid
from anydepth.depth.schemes import Scheme
from anydepth.depth.times import Instant
from anydepth.nn.functions import Reading, WeightFunction

Terms = tuple[tuple[int, float], ...]
State = tuple[Tensor, ...]


@dataclass(frozen=True)
class Step:
    """One step: how each stage's input and the result combine earlier stages (index, factor)."""

    stages: tuple[Terms, ...]
    result: Terms


class Plan:
    """Evaluation instants and step coefficients for (grid, scheme, scale), and readings of weights there."""

    def __init__(self, grid: Grid, scheme: Scheme, scale: Fraction):
        self.instants: tuple[Instant, ...] = tuple(i for step in grid.stages(scheme) for i in step)
        self.steps = tuple(_step(scheme, (b - a) * scale) for a, b in pairwise(grid.times))
        self._readings: dict[WeightFunction, Reading] = {}

    @property
    def evaluations(self) -> int:
        return len(self.instants)

    def reading(self, function: WeightFunction) -> Reading:
        if function not in self._readings:
            self._readings[function] = function.reading(self.instants)
        return self._readings[function]

    def __deepcopy__(self, memo: dict) -> "Plan":
        return self


def _step(scheme: Scheme, width: Fraction) -> Step:
    return Step(tuple(_terms(row, width) for row in scheme.a), _terms(scheme.b, width))


def _terms(row: tuple[Fraction, ...], width: Fraction) -> Terms:
    return tuple((j, float(factor * width)) for j, factor in enumerate(row) if factor)
