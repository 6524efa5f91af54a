"""How far outputs are from those of a more accurate solver, how many steps would do, and which step to start with."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, isfinite

from torch import Tensor

from anydepth.block.block import ContinuousBlock
from anydepth.block.field import UnitField
from anydepth.depth.times import Instant, Side
from anydepth.errors import ConfigError
from anydepth.measure.evaluation import evaluating
from anydepth.measure.observed_order import observed_order
from anydepth.solve.adaptive import first_step as hairer_step
from anydepth.solve.ladder import higher
from anydepth.solve.tensors import State, parts_of, wide
from anydepth.train.control.controller import Solvers
from anydepth.train.control.probe import Probe, Total

_OCTAVE = 8
"""Numbers of steps that are tried in each doubling."""
_DOWN, _UP = 1, 2
"""Doublings below and above the present number of steps that a prediction is trusted for."""
Call = tuple[ContinuousBlock, tuple[object, ...], dict[str, object]]


def need_fixed(name: str, solvers: Solvers) -> None:
    """Refuse adaptive solvers."""
    for block, solver in solvers.items():
        if solver.grid is None:
            raise ConfigError(
                f"control {name!r} chooses fixed steps, but block {block!r} has the adaptive scheme "
                f"{solver.scheme.name!r}; use control.name=paper_tolerance, or a fixed scheme such as 'euler'"
            )


# Errors


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


# The first step, by Hairer's rule


def first_step(probe: Probe, tolerance: float) -> float:
    """The smallest of the steps that the rule gives for the blocks of a model, at most 1."""
    calls: list[Call] = []
    with ExitStack() as stack:
        for block in probe.blocks.values():
            hook = block.register_forward_pre_hook(lambda *call: calls.append(call), with_kwargs=True)
            stack.callback(hook.remove)
        probe.outputs(probe.solvers)
    with evaluating(probe.model), probe.precision():
        steps = [hairer(*call, tolerance, probe.total) for call in calls]
    probe.evaluations += 2 * len(calls)
    return min(steps, default=1.0)


def hairer(block: ContinuousBlock, args: tuple, kwargs: dict, tolerance: float, total: Total = list) -> float:
    """The rule for one call of a block; sizes are relative to tolerance (1 + |x|)."""
    x, *rest = args
    field, y, scale = UnitField(block.describe_pass(x, tuple(rest), kwargs)), wide(parts_of(x)), float(block.scale)
    limits = [tolerance * (1 + part.abs()) for part in y]
    slope = field.stages((Instant(Fraction(0)),))(0, y)

    def bend(step: float) -> tuple[float, float]:
        moved = tuple(part + step * scale * change for part, change in zip(y, slope, strict=True))
        after = field.stages((Instant(Fraction(step), Side.LEFT),))(0, moved)
        change = tuple(b - a for a, b in zip(slope, after, strict=True))
        return step, abs(scale) * _rms(change, limits, total) / step

    sizes = _rms(y, limits, total), abs(scale) * _rms(slope, limits, total)
    return hairer_step(*sizes, bend, block.scheme.order, is_bold=True)


def _rms(parts: State, limits: list[Tensor], total: Total) -> float:
    """Root mean square of the parts over their limits, over all ranks."""
    ratios = [(part / limit).double() for part, limit in zip(parts, limits, strict=True)]
    squares, count = total([sum(float(r.square().sum()) for r in ratios), float(sum(r.numel() for r in ratios))])
    return (squares / max(1.0, count)) ** 0.5
