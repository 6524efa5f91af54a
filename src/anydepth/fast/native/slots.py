"""Tensors that all rows of the batch share: weights at the instants of a plan, and what a unit makes of them and of t.

An expression is a nested tuple, so that equal units have equal ones. Its value has one row for every distinct instant,
before the axes of the tensor itself, and an index that says which row each evaluation reads. All of it is PyTorch's own
arithmetic, so that gradients of rows go back to what is stored by autograd.

    ("theta", name)                     a tensor of the unit
    ("time",)                           t, one number
    ("wide", v, width)                  one number as a vector
    ("apply", function, *operands)      an elementwise function of vectors and plain numbers
    ("linear", v, weight, bias)         weight @ v + bias; bias may be None
    ("column", matrix, i)               one column
    ("columns", matrix, (i, ...))       some columns
    ("transposed", matrix)
    ("toeplitz", kernel, positions, padding)    a convolution over so many positions as a matrix
    ("repeated", v, positions)          the bias of a convolution
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from anydepth.fast.native.program import Expression
from anydepth.weights.protocol import Reading

FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "neg": torch.neg,
    "sin": torch.sin,
    "cos": torch.cos,
    "exp": torch.exp,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
    "silu": torch.nn.functional.silu,
    "gelu": torch.nn.functional.gelu,
    "softplus": torch.nn.functional.softplus,
}
"""Elementwise functions that expressions may have."""


class Rows(NamedTuple):
    """A tensor at every distinct instant, and which of them each evaluation reads."""

    tensor: Tensor
    index: tuple[int, ...]  # pyright: ignore[reportIncompatibleMethodOverride]


class Readings:
    """What expressions are made of in one pass."""

    def __init__(self, rows: Mapping[str, Rows], times: Sequence[float], like: Tensor):
        self._rows, self._times, self._like = rows, times, like

    def value(self, expression: Expression) -> Rows:
        return _KINDS[expression[0]](self, *expression[1:])

    def theta(self, name: str) -> Rows:
        return self._rows[name]

    def time(self) -> Rows:
        return Rows(self._like.new_tensor(self._times).unsqueeze(-1), tuple(range(len(self._times))))

    def wide(self, vector: Expression, width: int) -> Rows:
        tensor, index = self._vector(vector)
        return Rows(tensor.expand(*tensor.shape[:-1], width), index)

    def apply(self, function: str, *operands: object) -> Rows:
        found = [self._vector(part) if isinstance(part, tuple) else part for part in operands]
        *values, index = _aligned(found, -2)
        return Rows(FUNCTIONS[function](*values), index)

    def linear(self, vector: Expression, weight: Expression, bias: Expression | None) -> Rows:
        v, w = self._vector(vector), self.value(weight)
        value, index = _expanded(v, -2), v.index
        out = Rows((_expanded(w, -3) @ value.unsqueeze(-1)).squeeze(-1), tuple(range(len(index))))
        if bias is None:
            return out
        a, b, index = _aligned([out, self.value(bias)], -2)
        return Rows(a + b, index)

    def column(self, matrix: Expression, place: int) -> Rows:
        tensor, index = self.value(matrix)
        return Rows(tensor[..., place], index)

    def columns(self, matrix: Expression, places: tuple[int, ...]) -> Rows:
        tensor, index = self.value(matrix)
        first, last = places[0], places[-1]
        if places == tuple(range(first, last + 1)):
            return Rows(tensor[..., first : last + 1], index)
        return Rows(tensor[..., list(places)], index)

    def transposed(self, matrix: Expression) -> Rows:
        tensor, index = self.value(matrix)
        return Rows(tensor.mT, index)

    def toeplitz(self, kernel: Expression, positions: int, padding: int) -> Rows:
        tensor, index = self.value(kernel)
        return Rows(toeplitz(tensor, positions, padding), index)

    def repeated(self, vector: Expression, positions: int) -> Rows:
        tensor, index = self.value(vector)
        return Rows(tensor.repeat_interleave(positions, -1), index)

    def _vector(self, expression: Expression) -> Rows:
        tensor, index = self.value(expression)
        return Rows(tensor.unsqueeze(-1), index) if expression in self._scalars else Rows(tensor, index)

    @property
    def _scalars(self) -> set[Expression]:
        return {("theta", name) for name, rows in self._rows.items() if rows.tensor.dim() == 1}


_KINDS: dict[str, Callable[..., Rows]] = {
    name: getattr(Readings, name)
    for name in ("theta", "time", "wide", "apply", "linear", "column", "columns", "transposed", "toeplitz", "repeated")
}


def _expanded(rows: Rows, axis: int) -> Tensor:
    """One row per evaluation."""
    tensor, index = rows
    if index == tuple(range(tensor.shape[axis])):
        return tensor
    return tensor.index_select(axis, torch.tensor(index, device=tensor.device))


def _aligned(values: Sequence[Any], axis: int) -> list[Any]:
    """Values with one row axis for all, and its index at the end; plain numbers stay as they are."""
    found = {(value.index, value.tensor.shape[axis]) for value in values if isinstance(value, Rows)}
    if len(found) == 1:
        return [*(value.tensor if isinstance(value, Rows) else value for value in values), next(iter(found))[0]]
    count = len(next(iter(found))[0])
    return [*(_expanded(v, axis) if isinstance(v, Rows) else v for v in values), tuple(range(count))]


def toeplitz(kernel: Tensor, positions: int, padding: int) -> Tensor:
    """The matrix (..., out positions, in positions) of a convolution (..., out, in, width) that keeps the length."""
    out, inputs, width = kernel.shape[-3:]
    at = torch.arange(positions, device=kernel.device)
    offset = at - at[:, None] + padding
    is_near = (offset >= 0) & (offset < width)
    blocks = kernel[..., offset.clamp(0, width - 1)] * is_near  # (..., out, in, position out, position in)
    return blocks.movedim(-2, -3).reshape(*kernel.shape[:-3], out * positions, inputs * positions)


def rows_of(reading: Reading, held: tuple[Tensor, ...]) -> Rows:
    """What a reading gives, as one tensor; where every row is one of those stored, what is stored."""
    stacked = getattr(reading, "stacked", None)
    if stacked is not None:
        return Rows(*stacked(held[0]))
    return Rows(torch.stack(list(reading.rows(*held))), reading.index)
