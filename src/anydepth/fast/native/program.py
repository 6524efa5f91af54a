"""A traced unit as a program: operations on registers, and the tables that the kernels read."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from anydepth.fast.native.codes import FROM_RESULT, Col, Op

Expression = tuple[Any, ...]
"""A tensor that all rows of the batch share, as a nested tuple; `slots.py` says what it means."""
X = 0
"""The register of the unit's input."""


@dataclass(frozen=True)
class Node:
    """One operation: what it is, where the result goes, what it reads, and the numbers in it."""

    op: Op
    to: int
    x: int
    y: int | None = None
    weight: int | None = None
    bias: int | None = None
    """Slots, by their place among the program's."""
    numbers: tuple[float, ...] = ()
    columns: tuple[int, int, int] = (0, 0, 0)
    """Of a copy: the first column of the result, the first of x, and how many."""


@dataclass(frozen=True)
class Program:
    """What a unit does with one row: equal units have equal programs."""

    nodes: tuple[Node, ...]
    widths: tuple[int, ...]
    """By register."""
    result: int
    slots: tuple[Expression, ...]
    shapes: tuple[tuple[int, ...], ...]
    """Of every slot: (out, in) of a matrix, (width,) of a vector."""

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.nodes, self.widths, self.result, self.slots))

    @cached_property
    def multiplications(self) -> int:
        """Per row and evaluation."""
        return sum(self.widths[n.x] * self.widths[n.to] for n in self.nodes if n.op is Op.LINEAR)


@dataclass(frozen=True)
class Tables:
    """A program as arrays: columns as in `tables.Col`, and where registers are in a record."""

    ops: np.ndarray
    numbers: np.ndarray
    record: int
    result: int

    @cached_property
    def places(self) -> tuple[int, int]:
        """The addresses of both arrays."""
        return self.ops.ctypes.data, self.numbers.ctypes.data


def pruned(program: Program) -> Program:
    """Without what the result does not need."""
    needed, kept = {program.result}, []
    for node in reversed(program.nodes):
        if node.to in needed:
            kept.append(node)
            needed |= {node.x} if node.y is None else {node.x, node.y}
    return replace(program, nodes=tuple(reversed(kept)))


def uses_input(program: Program) -> bool:
    return program.result == X or any(X in (node.x, node.y) for node in program.nodes)


def adds_back(program: Program) -> bool:
    """Whether the result is a sum with x itself, or an activation of one."""
    makers = {node.to: node for node in program.nodes}
    node = makers.get(program.result)
    while node is not None and node.op in (Op.RELU, Op.GELU, Op.GELU_TANH, Op.SILU, Op.LEAKY):
        node = makers.get(node.x)
    if node is None or node.op is not Op.SUM or node.y is None:
        return False
    return any(place == X and factor > 0 for place, factor in zip((node.x, node.y), node.numbers, strict=False))


def padded(width: int, unit: int) -> int:
    return -(-width // unit) * unit


def merged(program: Program) -> dict[int, int]:
    """Registers that take another's place: activations that are done in place."""
    readers: dict[int, int] = {program.result: 1}
    for node in program.nodes:
        for register in (node.x, node.y):
            if register is not None:
                readers[register] = readers.get(register, 0) + 1
    makers = {node.to: node.op for node in program.nodes}
    same: dict[int, int] = {}
    for node in program.nodes:
        is_own = readers[node.x] == 1 and node.x != X and makers[node.x] not in FROM_RESULT
        if node.op in FROM_RESULT and is_own:
            same[node.to] = same.get(node.x, node.x)
    return same


@lru_cache(maxsize=256)
def tables_of(program: Program, unit: int, dtype: str) -> Tables:
    same = merged(program)
    places, at = {}, 0
    for register in (X, *(node.to for node in program.nodes)):
        if register not in same and register not in places:
            places[register] = at
            at += padded(program.widths[register], unit)
    for register, home in same.items():
        places[register] = places[home]
    ops, numbers = np.zeros((len(program.nodes), Col.COUNT), np.int64), np.zeros((len(program.nodes), 4), dtype)
    for row, given, node in zip(ops, numbers, program.nodes, strict=True):
        row[Col.CODE], row[Col.TO], row[Col.X] = node.op, places[node.to], places[node.x]
        row[Col.Y] = -1 if node.y is None else places[node.y]
        row[Col.TO_WIDTH], row[Col.X_WIDTH] = (padded(program.widths[r], unit) for r in (node.to, node.x))
        row[Col.OUT], row[Col.IN] = program.widths[node.to], program.widths[node.x]
        row[Col.WEIGHT] = -1 if node.weight is None else node.weight
        row[Col.BIAS] = len(program.slots) if node.bias is None else node.bias
        if node.op is Op.COPY:
            row[Col.TO_COLUMN], row[Col.X_COLUMN], row[Col.OUT] = node.columns
        given[: len(node.numbers)] = node.numbers
        given[3] = 1
    _note_sums(program.nodes, ops, places[program.result])
    return Tables(ops, numbers, at, places[program.result])


def _note_sums(nodes: Sequence[Node], ops: np.ndarray, result: int) -> None:
    """Which gradients are added to what is there: going backward, all but a register's first."""
    written = {result}
    for row in ops[::-1]:
        if row[Col.TO] == row[Col.X]:
            continue
        for operand, flag in ((Col.Y, Col.ADD_Y), (Col.X, Col.ADD_X)):
            if row[operand] >= 0:
                row[flag] = int(row[operand]) in written
                written.add(int(row[operand]))
