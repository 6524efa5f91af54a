"""The error that a solver makes in a model's outputs, and what it would be with other numbers of steps."""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, isfinite

from torch import Tensor

from anydepth.measure.order import observed_order
from anydepth.solve.ladder import higher
from anydepth.train.control.controller import Solvers
from anydepth.train.control.probe import Probe

_OCTAVE = 8
"""Numbers of steps that are tried in each doubling."""
_DOWN, _UP = 1, 2
"""Doublings below and above the present number of steps that a prediction is trusted for."""


Compare = Callable[[Probe, Tensor, Tensor], float]
"""How far outputs are from exact ones."""


def of_outputs(probe: Probe, exact: Tensor, outputs: Tensor) -> float:
    """Relatively, by their root mean square."""
    return probe.distance(exact, outputs)


def of_chances(probe: Probe, exact: Tensor, outputs: Tensor) -> float:
    """The probability that moves to other classes, on average over the examples."""
    return probe.share((outputs.softmax(-1) - exact.softmax(-1)).abs().sum(-1) / 2)


def of_predictions(probe: Probe, exact: Tensor, outputs: Tensor) -> float:
    """The share of predicted classes that change."""
    return probe.share(outputs.argmax(-1) != exact.argmax(-1))


@dataclass(frozen=True)
class Error:
    """outputs(N) = exact + gap (steps / N)^p; where they are not finite, there is neither.

    With fewer steps than were measured, p is the order that was observed; with more, the scheme's own.
    """

    probe: Probe
    compare: Compare
    steps: int
    observed: float
    order: float
    exact: Tensor | None = None
    gap: Tensor | None = None

    def at(self, steps: int) -> float:
        """The error with so many steps."""
        if self.exact is None or self.gap is None:
            return float("inf")
        order = self.observed if steps < self.steps else self.order
        outputs = self.exact + self.gap * (self.steps / steps) ** order
        return self.compare(self.probe, self.exact, outputs)

    def needed(self, goal: float) -> int:
        """The fewest steps with an error of at most `goal`, from half to four times the present ones."""
        tried = [ceil(self.steps * 2 ** (k / _OCTAVE)) for k in range(-_DOWN * _OCTAVE, _UP * _OCTAVE + 1)]
        return next((steps for steps in tried if self.at(steps) <= goal), tried[-1])


def measure(probe: Probe, stepping: Callable[[int], Solvers], steps: int, compare: Compare, pieces: int = 1) -> Error:
    """The error with `steps` steps, from half as many, as many, and a more accurate solver on pieces of them.

    (N / M)^p = |outputs(M) - exact| / |outputs(N) - exact| for M = N/2 is the observed order p; below half the
    scheme's order the steps are too large for any law, and above all of it errors happen to cancel.
    """
    order = float(min(solver.scheme.order for solver in probe.solvers.values()))
    solvers = stepping(steps)
    exact, here = probe.outputs({n: higher(solver, pieces) for n, solver in solvers.items()}), probe.outputs(solvers)
    if exact is None or here is None:
        return Error(probe, compare, steps, order, order)
    fewer = ceil(steps / 2)
    coarse = probe.outputs(stepping(fewer)) if fewer < steps else None
    errors = [] if coarse is None else [probe.distance(exact, outputs) for outputs in (coarse, here)]
    seen = observed_order(errors, steps / fewer)
    observed = min(max(seen, order / 2), order) if isfinite(seen) else order
    return Error(probe, compare, steps, observed, order, exact, here - exact)
