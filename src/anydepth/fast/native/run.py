"""A program bound to a plan, run by the kernels, with its gradient."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numba import typeof, types
from torch import Tensor

from anydepth.fast.native import kernels, memory, pool
from anydepth.fast.native.jit import announce, is_at_hand
from anydepth.fast.native.program import Program, Tables, padded, tables_of
from anydepth.fast.native.reference import integrate
from anydepth.fast.native.tables import Dim, Slot
from anydepth.fast.native.vectors import VECTOR_BYTES
from anydepth.solve.plan import Step
from anydepth.solve.tensors import is_batched

BLOCK = 32
"""Rows that are worked on at once."""
MOST_GROUPS = 16
MOST_GRADIENTS = 2_000_000
"""Numbers in the gradients of all groups together."""
SHARE = 400_000
"""Multiplications that are worth a thread."""

_EMPTY = {np.dtype(kind): np.empty(0, kind) for kind in (np.float32, np.float64)}


@dataclass(frozen=True)
class Shape:
    """How often a program is run: on how many rows of how many nets, and what is wanted besides the result."""

    rows: int
    nets: int = 1
    is_kept: bool = False
    has_first: bool = False
    """Whether the first slope is given, and the last slope and the error estimate are wanted."""


@dataclass(frozen=True)
class SlotTable:
    """Where the rows of all slots are: packed for forward and backward, and their gradients, if those are wanted."""

    table: np.ndarray
    lengths: tuple[int, int]
    """Of the packed rows, forward and backward."""
    gradient: int
    """Numbers in the gradients, padded and not."""
    flat: int


@dataclass(eq=False)
class Bound:
    """A program on a plan's steps: which rows each evaluation reads, and all tables."""

    program: Program
    steps: tuple[Step, ...]
    index: tuple[tuple[int, ...], ...]
    """By slot and evaluation."""
    rows: tuple[int, ...]
    """How many rows each slot has."""
    dtype: np.dtype
    _dims: dict[Any, np.ndarray] = field(default_factory=dict)
    _slots: dict[tuple[bool, ...], SlotTable] = field(default_factory=dict)

    @cached_property
    def unit(self) -> int:
        return max(4, VECTOR_BYTES // (2 * self.dtype.itemsize))

    @cached_property
    def tables(self) -> Tables:
        return tables_of(self.program, self.unit, self.dtype.name)

    @cached_property
    def stages(self) -> int:
        return len(self.steps[0].stages)

    @cached_property
    def indices(self) -> np.ndarray:
        nothing = [0] * (len(self.steps) * self.stages)
        return np.array([*self.index, nothing], np.int64)

    @cached_property
    def coefficients(self) -> np.ndarray:
        """(steps, stages + 2, stages): the input of every stage, the result, the error."""
        return self.exact.astype(self.dtype)

    @cached_property
    def exact(self) -> np.ndarray:
        """The same in double precision."""
        table = np.zeros((len(self.steps), self.stages + 2, self.stages))
        for n, step in enumerate(self.steps):
            for s, terms in enumerate((*step.stages, step.result, step.error)):
                for j, factor in terms:
                    table[n, s, j] = factor
        return table

    def slots(self, wanted: tuple[bool, ...]) -> SlotTable:
        if wanted not in self._slots:
            self._slots[wanted] = self._slot_table(wanted)
        return self._slots[wanted]

    def _slot_table(self, wanted: tuple[bool, ...]) -> SlotTable:
        table = np.zeros((len(wanted) + 1, Slot.COUNT), np.int64)
        forward = back = gradient = flat = 0
        for row, shape, rows, is_wanted in zip(table, self.program.shapes, self.rows, wanted, strict=False):
            outs, ins = (0, *shape) if len(shape) == 1 else shape
            wide = padded(ins, self.unit)
            steps = (ins * padded(outs, self.unit), outs * wide, padded(outs, 4) * wide) if outs else (wide,) * 3
            row[:] = (forward, steps[0], back, steps[1], gradient, steps[2], outs, ins, rows, is_wanted, flat)
            forward, back = forward + rows * steps[0], back + rows * steps[1]
            gradient += rows * steps[2] * is_wanted
            flat += rows * max(outs, 1) * ins * is_wanted
        widest = padded(max(self.program.widths), self.unit)
        table[-1] = (forward, 0, back, 0, 0, 0, 0, widest, 1, 0, 0)
        return SlotTable(table, (forward + widest, back + widest), gradient, flat)

    def dims(self, shape: Shape, wanted: tuple[bool, ...]) -> np.ndarray:
        key = shape if not shape.is_kept else (shape, wanted)
        if key not in self._dims:
            if len(self._dims) > 64:
                self._dims.clear()
            self._dims[key] = self._made(shape, wanted)
        return self._dims[key]

    def _made(self, shape: Shape, wanted: tuple[bool, ...]) -> np.ndarray:
        slots, width = self.slots(wanted), self.program.widths[0]
        block = min(BLOCK, padded(shape.rows, 4))
        blocks = -(-shape.rows // block)
        groups = min(blocks, MOST_GROUPS, max(1, MOST_GRADIENTS // max(slots.gradient, 1))) if shape.is_kept else blocks
        per_group = -(-blocks // groups) * block
        dims = np.zeros(Dim.COUNT, np.int64)
        dims[Dim.ROWS], dims[Dim.WIDTH], dims[Dim.PADDED] = shape.rows, width, padded(width, self.unit)
        dims[Dim.GROUPS], dims[Dim.PER_GROUP], dims[Dim.BLOCK] = -(-shape.rows // per_group), per_group, block
        dims[Dim.STAGES], dims[Dim.STEPS] = self.stages, len(self.steps)
        dims[Dim.RECORD], dims[Dim.RESULT] = self.tables.record, self.tables.result
        dims[Dim.THETA], dims[Dim.BACK_THETA], dims[Dim.GRADIENT] = *slots.lengths, slots.gradient
        dims[Dim.IS_KEPT], dims[Dim.HAS_FIRST] = shape.is_kept, shape.has_first
        dims[Dim.NETS], dims[Dim.UNIT] = shape.nets, self.unit
        record, state = self.tables.record * block, block * padded(width, self.unit)
        dims[Dim.SCRATCH] = padded(self.stages * record + 2 * state, 64)
        return dims

    def threads(self, rows: int) -> int:
        work = self.program.multiplications * rows * len(self.steps) * self.stages
        return max(1, min(torch.get_num_threads(), work // SHARE))

    def packed(self, dims: np.ndarray, slots: np.ndarray, tensors: Sequence[Tensor], is_back: bool) -> np.ndarray:
        theta = np.empty(dims[Dim.NETS] * dims[Dim.BACK_THETA if is_back else Dim.THETA], self.dtype)
        addresses = np.array([*(tensor.data_ptr() for tensor in tensors), 0], np.int64)
        kernels.pack(addresses, dims, slots, theta, is_back)
        return theta


_ANNOUNCED: set[tuple[str, np.dtype]] = set()


def _announce(name: str, args: tuple) -> None:
    """One line before a kernel is compiled that is not on disk."""
    key = (name, args[2].dtype)
    if key not in _ANNOUNCED:
        _ANNOUNCED.add(key)
        signature = (types.int64, types.Array(types.int64, 1, "C"), *map(typeof, args))
        if not is_at_hand(getattr(kernels, name), signature):
            announce(f"the {name} pass of small fields in {key[1]}")


def _run(name: str, tasks: int, threads: int, *args: Any) -> None:
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
    kept = memory.take(size + threads * int(dims[Dim.SCRATCH]), bound.dtype)
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


class NativeSolve(torch.autograd.Function):
    """The kernels as a function with a gradient."""

    @staticmethod
    def forward(ctx: Any, bound: Bound, y: Tensor, first: Tensor | None, *tensors: Tensor) -> Any:
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
    def backward(ctx: Any, grad: Tensor, *more: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
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
        grads = memory.take(tasks * found_slots.gradient, bound.dtype)
        scratch = memory.take(threads * int(dims[Dim.SCRATCH]), bound.dtype)
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


def _back_by_autograd(ctx: Any, given: Sequence[Tensor], *grads: Tensor) -> tuple[Tensor | None, ...]:
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
