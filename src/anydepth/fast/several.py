"""Several nets of one shape along one plan: the same program, and weights of their own for each."""

from collections.abc import Mapping

from torch import Tensor

from anydepth.block.block import ContinuousBlock
from anydepth.fast.chains import attempt, found_program
from anydepth.fast.native.program import Program


def program_for(block: ContinuousBlock, x: Tensor) -> Program | str:
    """The program of a block's unit on inputs like x, or why there is none."""
    given = block.describe_pass(x)
    found = attempt(given, (x,))
    return found if isinstance(found, str) else found_program(given, x)


def solve_several(block: ContinuousBlock, program: Program, stored: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """The states (nets, examples, features) at depth 1; stored tensors have the nets in front."""
    from anydepth.fast.native.fixed_steps import DTYPES, bind, bound_of  # numba is imported when it is needed
    from anydepth.fast.native.slots import Readings, Rows, rows_of
    from anydepth.fast.native.solve_native import solve

    plan = block.plan
    assert plan is not None
    rows = {}
    for name, tensor in stored.items():
        value = rows_of(plan.reading(block.lifted[name].function), (tensor.movedim(0, 1),))
        rows[name] = Rows(value.tensor.movedim(1, 0), value.index)
    readings = Readings(rows, (), x)
    values = [readings.value(expression) for expression in program.slots]
    key = (program, DTYPES[x.dtype], tuple(value.index for value in values), "several")
    bound = bound_of(plan, key, lambda: bind(program, plan.steps, values, DTYPES[x.dtype]))
    return solve(bound, x, None, [value.tensor for value in values])
