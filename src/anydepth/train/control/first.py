"""The step to start with, by Hairer's rule."""

from contextlib import ExitStack
from fractions import Fraction
from typing import Any

from torch import Tensor

from anydepth.block.block import ContinuousBlock
from anydepth.block.field import UnitField
from anydepth.depth.times import Instant, Side
from anydepth.solve.adaptive import first_step as solve_first_step
from anydepth.solve.tensors import State, parts_of, wide
from anydepth.train.control.probe import Probe, Total
from anydepth.train.evaluate import evaluating

Call = tuple[ContinuousBlock, tuple[Any, ...], dict[str, Any]]


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
    return solve_first_step(*sizes, bend, block.scheme.order, is_bold=True)


def _rms(parts: State, limits: list[Tensor], total: Total) -> float:
    """Root mean square of the parts over their limits, over all ranks."""
    ratios = [(part / limit).double() for part, limit in zip(parts, limits, strict=True)]
    squares, count = total([sum(float(r.square().sum()) for r in ratios), float(sum(r.numel() for r in ratios))])
    return (squares / max(1.0, count)) ** 0.5
