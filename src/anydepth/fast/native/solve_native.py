"""A bound program run by the kernels, with its gradient: one autograd function around all steps."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numba import typeof, types
from torch import Tensor
from torch.autograd.function import FunctionCtx

from anydepth.fast.announcing import announce
from anydepth.fast.native import buffers, kernels, pool
from anydepth.fast.native.bound import Bound, Shape
from anydepth.fast.native.codes import Dim
from anydepth.fast.native.jit import is_at_hand
from anydepth.fast.native.reference import integrate
from anydepth.solve.tensors import is_batched

_EMPTY = {np.dtype(kind): np.empty(0, kind) for kind in (np.float32, np.float64)}


_ASKED: set[tuple[str, np.dtype]] = set()


def _announce(name: str, args: tuple) -> None:
    """One line before a kernel is compiled that is not on disk."""
    key = (name, args[2].dtype)
    if key not in _ASKED:
        _ASKED.add(key)
        signature = (types.int64, types.Array(types.int64, 1, "C"), *map(typeof, args))
        if not is_at_hand(getattr(kernels, name), signature):
            announce(f"the kernels for small fields in {key[1]}")


def _run(name: str, tasks: int, threads: int, *args: object) -> None:
    _announce(name, args)
    pool.run(getattr(kernels, name), kernels.wait, tasks, threads, *args)


def _flat(tensor: Tensor) -> np.ndarray:
    return tensor.detach().contiguous().view(-1).numpy()


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
    is_kept = wanted is not None
    wanted = (False,) * len(tensors) if wanted is None else wanted
    y, tensors = y.contiguous(), [tensor.contiguous() for tensor in tensors]
    nets = 1 if y.dim() == 2 else y.shape[0]
    shape = Shape(y.shape[-2], nets, is_kept, first is not None)
    dims, slots = bound.dims(shape, wanted), bound.slots(wanted).table
    theta, empty = bound.packed(dims, slots, tensors, False), _EMPTY[bound.dtype]
    block, threads = int(dims[Dim.BLOCK]), bound.threads(nets * shape.rows)
    record = bound.tables.record * block * len(bound.steps) * bound.stages
    size = nets * -(-shape.rows // block) * record if is_kept else 0
    kept = buffers.take(size + threads * int(dims[Dim.SCRATCH]), bound.dtype)
    out = torch.empty_like(y)
    last, error = (torch.empty_like(y), torch.empty_like(y)) if first is not None else (None, None)
    ends = (empty, empty) if last is None or error is None else (_flat(last), _flat(error))
    _run(
        "forward", nets * int(dims[Dim.GROUPS]), threads,
        dims, bound.tables.ops, bound.tables.numbers, slots, bound.indices, bound.coefficients,
        theta, _flat(y), _flat(out), kept, empty if first is None else _flat(first), *ends, size,
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
        nets, found_slots, empty = int(dims[Dim.NETS]), bound.slots(wanted), _EMPTY[bound.dtype]
        slots = found_slots.table
        theta = bound.packed(dims, slots, tensors, True)
        tasks = nets * int(dims[Dim.GROUPS])
        threads = bound.threads(2 * y.numel() // y.shape[-1])
        grads = buffers.take(tasks * found_slots.gradient, bound.dtype)
        scratch = buffers.take(threads * int(dims[Dim.SCRATCH]), bound.dtype)
        of_y = torch.empty(y.shape, dtype=y.dtype)
        of_first = torch.empty(y.shape, dtype=y.dtype) if ctx.has_first else None
        _run(
            "backward",
            tasks,
            threads,
            dims, bound.tables.ops, bound.tables.numbers, slots, bound.indices, bound.coefficients, theta, kept.numpy(),
            _flat(grad), _flat(more[0]) if ctx.has_first else empty,
            of_y.view(-1).numpy(), empty if of_first is None else of_first.view(-1).numpy(), grads, scratch,
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
