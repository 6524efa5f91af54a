"""A program along a plan of fixed steps."""

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from anydepth.block.passes import Pass
from anydepth.fast.native.bound import Bound
from anydepth.fast.native.program import Expression, Program
from anydepth.fast.native.slots import Readings, Rows, rows_of
from anydepth.fast.native.solve_native import solve as solve_bound
from anydepth.solve.plan import Plan, Step
from anydepth.weights.protocol import Reading, WeightFunction

DTYPES = {torch.float32: np.dtype(np.float32), torch.float64: np.dtype(np.float64)}


def solve(given: Pass, plan: Plan, program: Program, y: Tensor) -> Tensor:
    """The state at the end of a plan."""
    values = slot_values(given, program, plan.reading, times_of(plan), y)
    key = (program, DTYPES[y.dtype], tuple((value.index, len(value.tensor)) for value in values))
    bound = bound_of(plan, key, lambda: bind(program, plan.steps, values, DTYPES[y.dtype]))
    flat = y.reshape(-1, y.shape[-1])
    result = solve_bound(bound, flat, None, [value.tensor for value in values])
    return result.reshape(y.shape)


_MOST_BOUND = 64
"""A unit whose numbers change in every pass has another program in every pass."""


def bound_of(plan: Plan, key: object, make: Callable[[], Bound]) -> Bound:
    """What is kept of a program on a plan, or made now."""
    known: dict[object, Bound] = plan.kept.setdefault("native", {})
    found = known.get(key)
    if found is None:
        if len(known) >= _MOST_BOUND:
            known.clear()
        found = known[key] = make()
    return found


def times_of(plan: Plan) -> tuple[float, ...]:
    """t at every evaluation."""
    if "times" not in plan.kept:
        plan.kept["times"] = tuple(float(instant.time) for instant in plan.instants)
    return plan.kept["times"]


def bind(program: Program, steps: Sequence[Step], values: Sequence[Rows], dtype: np.dtype) -> Bound:
    index = tuple(value.index for value in values)
    shapes = zip(values, program.shapes, strict=True)
    rows = tuple(value.tensor.shape[-1 - len(shape)] for value, shape in shapes)
    return Bound(program, tuple(steps), index, rows, dtype)


def slot_values(
    given: Pass,
    program: Program,
    reading: Callable[[WeightFunction], Reading],
    times: Sequence[float],
    y: Tensor,
) -> list[Rows]:
    """The tensors of all slots at the instants that a reading is for."""
    names = names_of(program.slots)
    rows = {name: rows_of(reading(given.lifted[name].function), given.held[name]) for name in names}
    readings = Readings(rows, times, y.detach())
    return [readings.value(expression) for expression in program.slots]


@lru_cache(maxsize=256)
def names_of(expressions: tuple[Expression, ...]) -> frozenset[str]:
    """The tensors of the unit that expressions are made of."""
    return frozenset(name for expression in expressions for name in _names(expression))


def _names(expression: Expression) -> set[str]:
    if expression[0] == "theta":
        return {expression[1]}
    return {name for part in expression if isinstance(part, tuple) for name in _names(part)}
