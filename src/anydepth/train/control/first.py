"""The step to start with, by Hairer's rule (Hairer, Norsett, Wanner I, II.4, p. 169)."""

from contextlib import ExitStack
from fractions import Fraction
from typing import Any

from torch import Tensor

from anydepth.block.block import ContinuousBlock
from anydepth.block.field import UnitField
from anydepth.depth.times import Instant, Side
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
    """A step over which the solution changes little, by its slope and its curvature at the start.

    h = min(100 h0, (0.01 / max(d1, d2))^(1 / (order + 1)), 1),  h0 = 0.01 d0 / d1,  where d0, d1, d2 are the sizes of
    the state, its slope and its curvature, each relative to tolerance (1 + |x|). Where state or slope is next to
    nothing, h0 says nothing, and is left out.
    """
    x, *rest = args
    field, y, scale = UnitField(block.describe_pass(x, tuple(rest), kwargs)), wide(parts_of(x)), float(block.scale)
    limits = [tolerance * (1 + part.abs()) for part in y]
    slope = field.stages((Instant(Fraction(0)),))(0, y)
    d0, d1 = _rms(y, limits, total), abs(scale) * _rms(slope, limits, total)
    is_told = min(d0, d1) >= 1e-5
    h0 = min(0.01 * d0 / d1, 1.0) if is_told else 1e-6
    moved = tuple(part + h0 * scale * change for part, change in zip(y, slope, strict=True))
    after = field.stages((Instant(Fraction(h0), Side.LEFT),))(0, moved)
    bend = tuple(b - a for a, b in zip(slope, after, strict=True))
    d2 = abs(scale) * _rms(bend, limits, total) / h0
    h1 = (0.01 / max(d1, d2)) ** (1 / (block.scheme.order + 1)) if max(d1, d2) > 1e-15 else 1.0
    return min(100 * h0 if is_told else 1.0, h1, 1.0)


def _rms(parts: State, limits: list[Tensor], total: Total) -> float:
    """Root mean square of the parts over their limits, over all ranks."""
    ratios = [(part / limit).double() for part, limit in zip(parts, limits, strict=True)]
    squares, count = total([sum(float(r.square().sum()) for r in ratios), float(sum(r.numel() for r in ratios))])
    return (squares / max(1.0, count)) ** 0.5
