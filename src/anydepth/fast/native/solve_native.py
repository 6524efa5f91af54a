"""A bound program run by the kernels, with its gradient: one autograd function around all steps."""

from collections.abc import Sequence
from ctypes import addressof, c_int64
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

from anydepth.fast.announcing import announce
from anydepth.fast.native import buffers, jit, kernels, team
from anydepth.fast.native.bound import Bound, Shape
from anydepth.fast.native.codes import Dim, Job, Keep
from anydepth.fast.native.reference import integrate
from anydepth.solve.tensors import is_batched

_JOB = c_int64 * Job.COUNT


@cache
def _kernel(name: str, dtype: np.dtype) -> int:
    """The address of a kernel, compiled if it is not on disk."""
    made, is_at_hand = jit.callback(getattr(kernels, f"{name}{8 * dtype.itemsize}"))
    if not is_at_hand:
        announce(f"the kernels for small fields in {dtype}")
    made.compile()
    assert made.address is not None
    return made.address


def _run(name: str, bound: Bound, dims: np.ndarray, slots: np.ndarray, threads: int, start: int, *places: int) -> None:
    """All tasks of a run; `start` is where the threads' own memory begins in its array, `places` are from THETA on."""
    tasks, tables = int(dims[Dim.NETS] * dims[Dim.GROUPS]), bound.tables
    ops, numbers = tables.places
    job = _JOB(
        tasks, 0, 0, len(tables.ops), len(slots), start,
        _place(dims), ops, numbers, _place(slots), bound.index_place, _place(bound.coefficients), *places,
    )  # fmt: skip
    team.run(_kernel(name, bound.dtype), addressof(job), min(threads, tasks))


def _place(array: np.ndarray | None) -> int:
    """The address of an array."""
    return 0 if array is None else array.ctypes.data


def _at(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()


@dataclass(frozen=True)
class Ran:
    """What a forward pass leaves."""

    out: Tensor
    last: Tensor | None
    error: Tensor | None
    kept: np.ndarray
    dims: np.ndarray


def _forward(bound: Bound, y: Tensor, first: Tensor | None, tensors: Sequence[Tensor], wanted: tuple | None) -> Ran:
    """All steps; records are kept if gradients of some slots or of y are wanted."""
    has_gradient = wanted is not None
    wanted = (False,) * len(tensors) if wanted is None else wanted
    y, tensors = y.contiguous(), [tensor.contiguous() for tensor in tensors]
    first = None if first is None else first.contiguous()
    nets = 1 if y.dim() == 2 else y.shape[0]
    kept_too = bound.kept(y.shape[-2], nets, first is not None) if has_gradient else Keep.NOTHING
    shape = Shape(y.shape[-2], nets, kept_too, first is not None)
    dims, slots = bound.dims(shape, wanted), bound.slots(wanted).table
    theta = bound.packed(dims, slots, tensors, False)
    threads, size = bound.threads(nets * shape.rows), bound.kept_numbers(dims)
    kept = buffers.take(size + threads * int(dims[Dim.SCRATCH]), bound.dtype)
    out = torch.empty_like(y)
    last, error = (torch.empty_like(y), torch.empty_like(y)) if first is not None else (None, None)
    records = _place(kept)
    _run(
        "forward", bound, dims, slots, threads, size,
        _place(theta), 0, _at(y), _at(first), _at(out), _at(last), _at(error), records, 0, records,
    )  # fmt: skip
    return Ran(out, last, error, kept, dims)


def solve(bound: Bound, y: Tensor, first: Tensor | None, tensors: Sequence[Tensor]) -> Any:
    """States ([nets,] rows, width) after all steps; with a first slope given, also the last slope and the error."""
    given = (y, *tensors) if first is None else (y, first, *tensors)
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in given):
        return NativeSolve.apply(bound, y, first, *tensors)
    ran = _forward(bound, y, first, tensors, None)
    return ran.out if first is None else (ran.out, ran.last, ran.error)


class Kept(FunctionCtx):
    """What the kernels keep for their gradient."""

    bound: Bound
    dims: np.ndarray
    wanted: tuple[bool, ...]
    has_first: bool
    saved_tensors: tuple[Tensor, ...]
    needs_input_grad: tuple[bool, ...]


class NativeSolve(torch.autograd.Function):
    """The kernels as a function with a gradient."""

    @staticmethod
    def forward(ctx: Kept, bound: Bound, y: Tensor, first: Tensor | None, *tensors: Tensor) -> Any:
        wanted = ctx.needs_input_grad[3:]
        ran = _forward(bound, y, first, tensors, wanted)
        ctx.bound, ctx.dims, ctx.wanted, ctx.has_first = bound, ran.dims, wanted, first is not None
        given = (y, *tensors) if first is None else (y, first, *tensors)
        ctx.save_for_backward(torch.from_numpy(ran.kept), *given)
        if ran.last is None or ran.error is None:
            return ran.out
        ctx.mark_non_differentiable(ran.error)
        return ran.out, ran.last, ran.error

    @staticmethod
    def backward(ctx: Kept, grad: Tensor, *more: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        kept, *given = ctx.saved_tensors
        if torch.is_grad_enabled() or any(is_batched(part) for part in (grad, *more)):
            return _back_by_autograd(ctx, given, grad, *more[:1])
        bound, dims, wanted = ctx.bound, ctx.dims, ctx.wanted
        y, tensors = given[0], [tensor.contiguous() for tensor in given[1 + ctx.has_first :]]
        nets, found_slots = int(dims[Dim.NETS]), bound.slots(wanted)
        slots, tasks = found_slots.table, nets * int(dims[Dim.GROUPS])
        theta = bound.packed(dims, slots, tensors, True)
        ahead = bound.packed(dims, slots, tensors, False) if dims[Dim.KEPT] == Keep.STATES else None
        threads = bound.threads(2 * y.numel() // y.shape[-1])
        grads = buffers.take(tasks * found_slots.gradient, bound.dtype)
        scratch = buffers.take(threads * int(dims[Dim.SCRATCH]), bound.dtype)
        grad, of_y = grad.contiguous(), torch.empty(y.shape, dtype=y.dtype)
        of_first = torch.empty(y.shape, dtype=y.dtype) if ctx.has_first else None
        grad_last = more[0].contiguous() if ctx.has_first else None
        _run(
            "backward", bound, dims, slots, threads, 0,
            _place(theta), _place(ahead), _at(grad), _at(grad_last), _at(of_y), _at(of_first), 0,
            kept.data_ptr(), _place(grads), _place(scratch),
        )  # fmt: skip
        flat = torch.empty(nets * found_slots.flat, dtype=y.dtype)
        kernels.reduce(dims, slots, grads, flat.numpy())
        found, at = [], 0
        for tensor, is_wanted in zip(tensors, wanted, strict=True):
            found.append(flat[at : at + tensor.numel()].view(tensor.shape) if is_wanted else None)
            at += tensor.numel() * is_wanted
        return (None, of_y, of_first, *found)


def _back_by_autograd(ctx: Kept, given: Sequence[Tensor], *grads: Tensor) -> tuple[Tensor | None, ...]:
    """Gradients that can be differentiated again, by running the program in PyTorch."""
    with torch.enable_grad():
        apart = [tensor.view_as(tensor) for tensor in given]
        y, rest = apart[0], apart[1:]
        first, tensors = (rest[0], rest[1:]) if ctx.has_first else (None, rest)
        out, last = integrate(ctx.bound, y, first, tensors)
    needs = [n for n, part in zip(ctx.needs_input_grad[1:], (y, first, *tensors), strict=True) if part is not None]
    wanted = [part for part, is_needed in zip(apart, needs, strict=True) if is_needed]
    results = [out, last] if ctx.has_first else [out]
    again = torch.is_grad_enabled()
    every = iter(torch.autograd.grad(results, wanted, grads, allow_unused=True, create_graph=again))
    found = [next(every) if is_needed else None for is_needed in needs]
    return (None, *found) if ctx.has_first else (None, found[0], None, *found[1:])
