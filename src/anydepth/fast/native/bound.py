"""A program bound to a plan's steps: all tables that the kernels read, for any number of rows."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from anydepth.fast.native import kernels
from anydepth.fast.native.buffers import aligned
from anydepth.fast.native.codes import Dim, Keep, Slot
from anydepth.fast.native.intrinsics import VECTOR_BYTES
from anydepth.fast.native.program import Program, Tables, padded, tables_of
from anydepth.solve.plan import Step

BLOCK = 32
"""Rows that are worked on at once."""
MOST_GROUPS = 16
MOST_GRADIENTS = 2_000_000
"""Numbers in the gradients of all groups together."""
MOST_RECORDS = 24 * 2**20
"""Bytes of records up to which a backward pass reads them; beyond, reading them takes longer than making them again."""
SHARE = 400_000
"""Multiplications that are worth a thread."""


@dataclass(frozen=True)
class Shape:
    """How often a program is run: on how many rows of how many nets, and what is wanted besides the result."""

    rows: int
    nets: int = 1
    kept: Keep = Keep.NOTHING
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
    _dims: dict[object, np.ndarray] = field(default_factory=dict)
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
    def index_place(self) -> int:
        """The address of the indices."""
        return self.indices.ctypes.data

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
        key = shape if shape.kept is Keep.NOTHING else (shape, wanted)
        if key not in self._dims:
            if len(self._dims) > 64:
                self._dims.clear()
            self._dims[key] = self._made(shape, wanted)
        return self._dims[key]

    def _made(self, shape: Shape, wanted: tuple[bool, ...]) -> np.ndarray:
        slots, width = self.slots(wanted), self.program.widths[0]
        block = min(BLOCK, padded(shape.rows, 4))
        blocks = -(-shape.rows // block)
        groups = min(blocks, MOST_GROUPS, max(1, MOST_GRADIENTS // max(slots.gradient, 1))) if shape.kept else blocks
        per_group = -(-blocks // groups) * block
        dims = np.zeros(Dim.COUNT, np.int64)
        dims[Dim.ROWS], dims[Dim.WIDTH], dims[Dim.PADDED] = shape.rows, width, padded(width, self.unit)
        dims[Dim.GROUPS], dims[Dim.PER_GROUP], dims[Dim.BLOCK] = -(-shape.rows // per_group), per_group, block
        dims[Dim.STAGES], dims[Dim.STEPS] = self.stages, len(self.steps)
        dims[Dim.RECORD], dims[Dim.RESULT] = self.tables.record, self.tables.result
        dims[Dim.THETA], dims[Dim.BACK_THETA], dims[Dim.GRADIENT] = *slots.lengths, slots.gradient
        dims[Dim.KEPT], dims[Dim.HAS_FIRST] = shape.kept, shape.has_first
        dims[Dim.NETS], dims[Dim.UNIT] = shape.nets, self.unit
        record, state = self.tables.record * block, block * padded(width, self.unit)
        again = self.stages * record if shape.kept is Keep.STATES else 0
        dims[Dim.SCRATCH] = padded(self.stages * record + 2 * state, 64) + padded(again, 64)
        return dims

    def kept(self, rows: int, nets: int, has_first: bool) -> Keep:
        """What the forward pass of a training is to keep."""
        numbers = nets * rows * self.tables.record * len(self.steps) * self.stages
        is_much = numbers * self.dtype.itemsize > MOST_RECORDS and not has_first
        return Keep.STATES if is_much else Keep.RECORDS

    def kept_numbers(self, dims: np.ndarray) -> int:
        """How many numbers are kept."""
        blocks = int(dims[Dim.NETS]) * -(-int(dims[Dim.ROWS]) // int(dims[Dim.BLOCK]))
        columns = {Keep.NOTHING: 0, Keep.RECORDS: self.tables.record * self.stages, Keep.STATES: int(dims[Dim.PADDED])}
        return blocks * int(dims[Dim.BLOCK]) * len(self.steps) * columns[Keep(int(dims[Dim.KEPT]))]

    def threads(self, rows: int) -> int:
        work = self.program.multiplications * rows * len(self.steps) * self.stages
        return max(1, min(torch.get_num_threads(), work // SHARE))

    def packed(self, dims: np.ndarray, slots: np.ndarray, tensors: Sequence[Tensor], is_back: bool) -> np.ndarray:
        theta = aligned(int(dims[Dim.NETS] * dims[Dim.BACK_THETA if is_back else Dim.THETA]), self.dtype)
        addresses = np.array([*(tensor.data_ptr() for tensor in tensors), 0], np.int64)
        kernels.pack(addresses, dims, slots, theta, is_back)
        return theta
