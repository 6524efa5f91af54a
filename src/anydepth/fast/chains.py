"""The path for small fields: chains of linear layers and activations as machine code, whatever class they are of.

The unit is called once with stand-ins (`native/trace.py`), which gives a program; kernels carry a few rows of the batch
at a time through all steps of it, and exactly back (`native/kernels.py`). Results are those of the general path up to
rounding; gradients of gradients are autograd's. Needs numba: `pip install 'anydepth[fast]'`.
"""

from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec

import torch
from torch import Tensor, nn
from torch._C import _len_torch_dispatch_stack, _len_torch_function_stack  # pyright: ignore

from anydepth.block.branch import tell_of_skip
from anydepth.block.passes import Kind, Outcome, Pass, Ready
from anydepth.block.paths import PATHS, ShapeRefusal, are_unwatched, stats_of
from anydepth.executor.executor import Executor, Image
from anydepth.fast.native.guard import Guard
from anydepth.fast.native.program import Program, adds_back
from anydepth.fast.native.stand_ins import Trace, Uniform, Unknown
from anydepth.fast.native.trace import traced
from anydepth.solve.tensors import State

LARGEST = 150_000
"""Multiplications per row and evaluation; above it a maths library's products are faster."""


_PLAIN = (Tensor, nn.Parameter)


@cache
def _has_numba() -> bool:
    return find_spec("numba") is not None


@PATHS.register("native")
def attempt(given: Pass, y: State) -> Ready | str:
    """The whole integration as one function, if the unit does nothing that the kernels do not know."""
    if given.is_tuple or given.args or given.kwargs:
        return "the unit takes more than one tensor and t"
    (start,) = y
    if not _has_numba():
        return "numba is not installed; pip install 'anydepth[fast]'"
    reason = _refusal(given, start)
    if reason is not None:
        return reason
    program = found_program(given, start)
    return program if isinstance(program, str) else partial(_solved, given, program, start)


def _refusal(given: Pass, y: Tensor) -> str | None:
    """Why a pass cannot be native, whatever the unit does."""
    if given.shared or y.dim() < 1 or y.numel() == 0:
        return "the unit has counters or constants, or x is empty"
    if y.device.type != "cpu" or y.dtype not in (torch.float32, torch.float64) or given.dtype != y.dtype:
        return "x is not in float32 or float64 on a CPU"
    if type(y) not in _PLAIN or y.layout != torch.strided:
        return "x is not a plain tensor"
    if _len_torch_dispatch_stack() or _len_torch_function_stack():
        return "a mode of PyTorch intercepts all operations"
    for name, part in given.lifted.items():
        stored = given.held[name][0]
        is_like_x = type(stored) in _PLAIN and stored.dtype == y.dtype and stored.device == y.device
        if part.kind is not Kind.PARAMETER or not is_like_x:
            return "weights have another precision or device than x, or there is state"
    return None


@dataclass(frozen=True)
class _Look:
    """A unit's program, or why it has none, and what it depends on."""

    guard: Guard
    found: Program | str


_MOST_LOOKS = 16
_WATCHED = "hooks watch the unit's modules"


def found_program(given: Pass, y: Tensor) -> Program | str:
    """What the unit does with a row of x, or why the kernels cannot do it; kept as long as the unit does not change."""
    looks: dict[object, _Look] = {} if given.image is None else given.image.memory.setdefault("native", {})
    modes = torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.get_default_dtype()
    key = (y.shape, y.dtype, given.has_time, *modes)
    look = looks.get(key)
    guard = None if look is None or look.guard.modules[0] is not given.unit else look.guard
    if not are_unwatched(given.unit.modules() if guard is None else guard.modules):
        return _WATCHED
    if look is not None and guard is not None and (guard.is_closed or isinstance(look.found, str)) and guard.holds():
        return look.found
    guard = Guard(given.unit)
    if not are_unwatched(guard.modules):
        return _WATCHED
    found = guard.unknown or _seen(given, y)
    if not guard.unknown and guard.undo():
        found = "the unit changes something outside of itself whenever it is called"
    if len(looks) >= _MOST_LOOKS:
        looks.clear()
    found = ShapeRefusal(found) if isinstance(found, str) else found
    looks[key] = _Look(guard, found)
    return found


def _seen(given: Pass, y: Tensor) -> Program | str:
    try:
        found = program_of(given, y)
    except Unknown as error:
        return str(error)
    if found.multiplications > LARGEST:
        return "the unit's layers are so wide that the maths library is as fast"
    return found


def program_of(given: Pass, y: Tensor) -> Program:
    """What the unit does with a row of x, by calling an image of it once with stand-ins."""
    trace = Trace(y.dtype)
    names = tuple(given.lifted)
    call = Executor(Image(given.unit), names, given.aliases)
    tensors = [Uniform(trace, ("theta", name), part.shape, True) for name, part in given.lifted.items()]
    for (table, key), tensor in zip(call.own, tensors, strict=True):
        table[key] = tensor
    for i, table, key in call.others:
        table[key] = tensors[i]
    try:
        program = traced(call.root, y.shape, trace, given.has_time)
    except Unknown:
        raise
    except Exception as error:  # whatever a unit does with stand-ins that it would not do with tensors
        raise Unknown(f"the unit cannot be traced: {str(error).splitlines()[0]:.100}") from None
    if call.written():
        raise Unknown("the unit writes to its attributes")
    return program


def _solved(given: Pass, program: Program, y: Tensor) -> Outcome:
    from anydepth.fast.native import adaptive_steps, fixed_steps  # numba is imported when it is needed

    if adds_back(program) and y.requires_grad and torch.is_grad_enabled():
        tell_of_skip(given.unit)
    if given.plan is None:
        return adaptive_steps.solve(given, program, y)
    return Outcome((fixed_steps.solve(given, given.plan, program, y),), stats_of(given.plan))
