"""Rules for sums, products and powers of stand-ins, and what all rules share."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch.nn import functional

from anydepth.fast.native.codes import Op
from anydepth.fast.native.program import Node
from anydepth.fast.native.stand_ins import KNOWN, Filled, Joined, Row, Uniform, Unknown, Value

Given = TypeVar("Given")


def as_row(value: Value, lead: Sequence[int]) -> Value:
    """A joined value as one register, if all of it depends on the row."""
    if not isinstance(value, Joined):
        return value
    trace, at = value._trace, 0
    to = trace.register(value.shape[-1])
    for part in value.parts:
        if not isinstance(part, Row):
            raise Unknown(
                "the unit concatenates x with something that is the same for all rows, and no linear layer follows"
            )
        trace.nodes.append(Node(Op.COPY, to, part.register, columns=(at, 0, part.width)))
        at += part.width
    return Row(trace, to, value.lead, (at,))


def number_of(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | Filled):
        return None
    return float(value.number if isinstance(value, Filled) else value)


def broadcast(a: Value, b: object) -> tuple[int, ...]:
    return tuple(torch.broadcast_shapes(a.shape, b.shape if isinstance(b, Value) else ()))


def check_kept(x: Row, shape: Sequence[int]) -> None:
    if tuple(shape) != tuple(x.shape):
        raise Unknown("the unit repeats its input along a new axis")


def vector_of(x: Row, u: Uniform) -> int:
    """The slot of a uniform value as a vector beside the features of x."""
    check_kept(x, broadcast(x, u))
    if len(x.features) != 1 or (u.is_whole and u.ndim > 1):
        raise Unknown("the unit combines x with a matrix, element by element")
    last = u.shape[-1] if u.ndim else 1
    expression = u.expression if last == x.width and u.ndim else ("wide", u.expression, x.width)
    return x._trace.slot(expression, (x.width,))


def uniform(name: str, *operands: object) -> Uniform:
    """An elementwise function of things that are the same for all rows."""
    trace = next(part._trace for part in operands if isinstance(part, Value))
    trace.check_mode()
    shape = torch.broadcast_shapes(*(part.shape for part in operands if isinstance(part, Value)))
    parts = []
    for part in operands:
        if isinstance(part, Uniform):
            if part.is_whole and part.ndim > 1:
                raise Unknown("the unit computes with a weight matrix, element by element")
            parts.append(part.expression)
        else:
            parts.append(number_of(part))
    if any(part is None for part in parts):
        raise Unknown("the unit computes with a tensor that is not a weight")
    return Uniform(trace, ("apply", name, *parts), shape)


def settled(value: Given) -> Given | Value:
    return as_row(value, ()) if isinstance(value, Joined) else value


def replaced(x: Row, result: Row) -> Row:
    """x after something was done to it in place."""
    if not x.is_fresh:
        raise Unknown("the unit changes its input in place, or a value that it also uses under another name")
    x.register = result.register
    return x


def in_place(function: Callable[..., Value]) -> Callable[..., Value]:
    def run(x: object, *args: object, **kwargs: object) -> Value:
        if not isinstance(x, Row):
            raise Unknown("the unit changes a weight in place")
        result = function(x, *args, **kwargs)
        assert isinstance(result, Row)
        return replaced(x, result)

    return run


def add(a: object, b: object, *, alpha: float = 1) -> Value:
    return _combined(a, b, 1.0, float(alpha))


def subtract(a: object, b: object, *, alpha: float = 1) -> Value:
    return _combined(a, b, 1.0, -float(alpha))


def _combined(a: Any, b: Any, first: float, second: float) -> Value:
    """first * a + second * b."""
    a, b = (settled(part) for part in (a, b))
    if isinstance(b, Row) and not isinstance(a, Row):
        return _combined(b, a, second, first)
    if isinstance(a, Row):
        trace, number = a._trace, number_of(b)
        if number is not None:
            check_kept(a, broadcast(a, b))
            return trace.row(Op.SUM, a, numbers=(first, 0.0, second * number))
        if isinstance(b, Row):
            if a.shape != b.shape or a.lead != b.lead:
                raise Unknown("the unit adds values of different shapes")
            return trace.row(Op.SUM, a, y=b.register, numbers=(first, second, 0.0))
        if isinstance(b, Uniform):
            return trace.row(Op.PLUS_ROW, a, weight=vector_of(a, b), numbers=(first, second, 0.0))
    else:
        parts = [part if factor == 1 else multiply(part, factor) for part, factor in ((a, first), (b, second))]
        if not all(number_of(part) is not None for part in parts):
            return uniform("add", *parts)
        shape = broadcast(a, b) if isinstance(a, Value) else b.shape
        return Filled(next(p._trace for p in (a, b) if isinstance(p, Value)), sum(map(number_of, parts)), shape)  # pyright: ignore
    raise Unknown("the unit adds a tensor that is neither made of x nor a weight")


def multiply(a: object, b: object) -> Value:
    a, b = (settled(part) for part in (a, b))
    if isinstance(b, Row) and not isinstance(a, Row):
        a, b = b, a
    number = number_of(b)
    if isinstance(a, Row):
        if number is not None:
            check_kept(a, broadcast(a, b))
            return a._trace.row(Op.SUM, a, numbers=(number, 0.0, 0.0))
        if isinstance(b, Row):
            if a.shape != b.shape or a.lead != b.lead:
                raise Unknown("the unit multiplies values of different shapes")
            return a._trace.row(Op.PRODUCT, a, y=b.register)
        if isinstance(b, Uniform):
            return a._trace.row(Op.TIMES_ROW, a, weight=vector_of(a, b))
        raise Unknown("the unit multiplies by a tensor that is neither made of x nor a weight")
    if isinstance(a, Filled) and isinstance(b, Uniform):
        a, b, number = b, a, a.number
    if isinstance(a, Uniform) and number == 1:
        if a.is_whole and a.ndim > 1:
            raise Unknown("the unit computes with a weight matrix, element by element")
        return Uniform(a._trace, a.expression, broadcast(a, b))
    if isinstance(a, Filled) and number is not None:
        return Filled(a._trace, a.number * number, broadcast(a, b))
    return uniform("mul", a, b)


def _div(a: object, b: object, *, rounding_mode: str | None = None) -> Value:
    number = number_of(b)
    if number is None or number == 0 or rounding_mode is not None:
        raise Unknown("the unit divides by a tensor or by zero")
    if isinstance(a, Uniform):
        return uniform("div", a, number)
    return multiply(a, 1 / number)


def _neg(a: object) -> Value:
    return multiply(a, -1.0)


def _pow(a: Value, power: object) -> Value:
    if isinstance(power, float) and power.is_integer():
        power = int(power)
    if not isinstance(power, int) or not 1 <= power <= 8:
        raise Unknown("the unit raises to a power that is no small whole number")
    found = a
    for _ in range(power - 1):
        found = multiply(found, a)
    return found


def _layer_norm(
    x: Any, normalized_shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5, *_more: Any
) -> Value:
    """Over the features alone."""
    x = settled(x)
    if not isinstance(x, Row) or len(x.features) != 1 or tuple(normalized_shape) != x.features:
        raise Unknown("the unit has a layer norm over more than the features")
    found: Value = x._trace.row(Op.NORM, x, numbers=(float(eps),))
    found = found if weight is None else multiply(found, weight)
    return found if bias is None else add(found, bias)


KNOWN.update({
    functional.layer_norm: _layer_norm, torch.layer_norm: _layer_norm,
    torch.add: add, torch.sub: subtract, torch.subtract: subtract, torch.mul: multiply, torch.multiply: multiply,
    torch.div: _div, torch.true_divide: _div, torch.neg: _neg, torch.negative: _neg, torch.pow: _pow,
    torch.square: lambda x: multiply(x, x),
    torch.Tensor.add: add, torch.Tensor.add_: in_place(add), torch.Tensor.sub: subtract,
    torch.Tensor.sub_: in_place(subtract), torch.Tensor.mul: multiply, torch.Tensor.mul_: in_place(multiply),
    torch.Tensor.div: _div, torch.Tensor.neg: _neg, torch.Tensor.pow: _pow,
    torch.Tensor.square: lambda x: multiply(x, x),
})  # fmt: skip
