"""Finding out what a unit does with one row of the batch, by calling it once with stand-ins for its tensors."""

from collections.abc import Callable, Sequence

from anydepth.fast.native import activations, maps, shapes  # noqa: F401  # their rules
from anydepth.fast.native.program import Program, pruned, uses_input
from anydepth.fast.native.stand_ins import Row, Trace, Uniform, Unknown, Value
from anydepth.fast.native.sums import as_row


def traced(root: Callable[..., object], shape: Sequence[int], trace: Trace, has_time: bool) -> Program:
    """The program of a unit whose tensors are stand-ins of this trace already, on x of a shape."""
    x = Row(trace, trace.register(shape[-1]), shape[:-1], shape[-1:])
    lead = (Uniform(trace, ("time",), ()),) if has_time else ()
    with trace:
        out = root(*lead, x)
    out = as_row(out, x.lead) if isinstance(out, Value) else out
    if not isinstance(out, Row) or out.shape != x.shape:
        raise Unknown("the unit's result is not a tensor of x's shape that depends on x")
    program = pruned(
        Program(tuple(trace.nodes), tuple(trace.widths), out.register, tuple(trace.slots), tuple(trace.shapes))
    )
    if not uses_input(program):
        raise Unknown("the unit's result does not depend on x")
    return program
