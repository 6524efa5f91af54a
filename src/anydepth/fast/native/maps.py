"""Rules for linear maps of stand-ins: layers, products with weights, convolutions over a few entries."""

from typing import Any

import torch
from torch.nn import functional

from anydepth.fast.native.codes import Op
from anydepth.fast.native.program import Expression
from anydepth.fast.native.stand_ins import KNOWN, Joined, Row, Uniform, Unknown, Value
from anydepth.fast.native.sums import add, as_row, settled


def matrix_of(weight: object) -> tuple[Expression, tuple[int, int]]:
    if not isinstance(weight, Uniform) or not weight.is_whole or weight.ndim != 2:
        raise Unknown("the unit has a linear map whose matrix is no weight")
    return weight.expression, (weight.shape[0], weight.shape[1])


def _linear(x: object, weight: Value, bias: object = None) -> Value:
    matrix, (outs, ins) = matrix_of(weight)
    trace = weight._trace
    if bias is not None and (not isinstance(bias, Uniform) or tuple(bias.shape) != (outs,)):
        raise Unknown("the unit has a linear map with an unusual bias")
    if not isinstance(x, Value) or x.ndim < 1 or x.shape[-1] != ins:
        raise Unknown("the widths of the unit's layers do not fit x")
    if isinstance(x, Uniform):
        if x.is_whole and x.ndim > 1:
            raise Unknown("the unit multiplies its weights")
        found = (
            "linear",
            x.expression if x.ndim else ("wide", x.expression, 1),
            matrix,
            None if bias is None else bias.expression,
        )
        return Uniform(trace, found, (*x.shape[:-1], outs))
    constant = None if bias is None else bias.expression
    if isinstance(x, Joined):
        x, matrix, constant, ins = _split(x, matrix, constant)
    if not isinstance(x, Row) or len(x.features) != 1:
        raise Unknown("the unit applies a linear layer along another axis than the features")
    place = None if constant is None else trace.slot(constant, (outs,))
    return trace.row(Op.LINEAR, x, (outs,), weight=trace.slot(matrix, (outs, ins)), bias=place)


def _split(
    x: Joined, matrix: Expression, constant: Expression | None
) -> tuple[Value, Expression, Expression | None, int]:
    """What is the same for all rows goes into the bias: W [x; u] + b = W_x x + (W_u u + b)."""
    at, kept, rows = 0, [], []
    for part in x.parts:
        width = part.shape[-1]
        if isinstance(part, Row):
            rows.append(part)
            kept += range(at, at + width)
        else:
            for i in range(width):
                value = part.expression if width == 1 else ("column", part.expression, i)
                if width > 1:
                    raise Unknown("the unit concatenates x with more than single columns that all rows share")
                term = ("apply", "mul", ("column", matrix, at + i), value)
                constant = term if constant is None else ("apply", "add", constant, term)
        at += width
    if not rows:
        raise Unknown("the unit has a linear layer that is not applied to x")
    inner = rows[0] if len(rows) == 1 else as_row(Joined(x._trace, x.lead, rows), x.lead)
    if len(kept) == at:
        return inner, matrix, constant, at
    return inner, ("columns", matrix, tuple(kept)), constant, len(kept)


def _matmul(a: object, b: object) -> Value:
    if not isinstance(b, Uniform):
        raise Unknown("the unit has a product of matrices that is not a linear layer")
    matrix, shape = matrix_of(b)
    turned = matrix[1] if matrix[0] == "transposed" else ("transposed", matrix)
    return _linear(settled(a), Uniform(b._trace, turned, shape[::-1], True))


def _addmm(bias: object, a: object, b: object) -> Value:
    return add(_matmul(a, b), bias)


def _transpose(a: Value, *axes: object) -> Value:
    matrix, shape = matrix_of(a)
    if axes not in ((), (0, 1), (1, 0), (-2, -1), (-1, -2)):
        raise Unknown("the unit reorders axes")
    turned = matrix[1] if matrix[0] == "transposed" else ("transposed", matrix)
    return Uniform(a._trace, turned, shape[::-1], True)


_FEW = 4
"""Up to so many positions, a convolution is cheap as one matrix."""


def _conv1d(
    x: object,
    weight: object,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Value:
    if not isinstance(x, Row) or len(x.features) != 2 or x.features[1] > _FEW or not isinstance(weight, Uniform):
        raise Unknown("the unit has a convolution over more than a few entries of a vector")
    one = lambda value: value[0] if isinstance(value, tuple | list) else value  # noqa: E731
    outs, ins, width = weight.shape
    is_plain = (one(stride), one(dilation), groups) == (1, 1, 1) and isinstance(one(padding), int)
    if not is_plain or 2 * one(padding) != width - 1 or ins != x.features[0]:
        raise Unknown("the unit has a convolution that changes the length")
    trace, positions = x._trace, x.features[1]
    matrix = ("toeplitz", weight.expression, positions, one(padding))
    place = None if bias is None else trace.slot(("repeated", bias.expression, positions), (outs * positions,))
    slot = trace.slot(matrix, (outs * positions, ins * positions))
    return trace.row(Op.LINEAR, x, (outs, positions), weight=slot, bias=place)


KNOWN.update({
    functional.linear: _linear, torch.conv1d: _conv1d, torch.matmul: _matmul, torch.mm: _matmul, torch.addmm: _addmm,
    torch.t: _transpose, torch.Tensor.matmul: _matmul, torch.Tensor.mm: _matmul, torch.Tensor.t: _transpose,
    torch.Tensor.transpose: _transpose,
})  # fmt: skip
