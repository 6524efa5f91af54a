"""Finding out what a unit does with one row of the batch, by calling it once with stand-ins for its tensors.

Stand-ins are no tensors: they note what is done with them. The mode below sees every function of PyTorch that this
thread calls meanwhile, and no other thread; nothing is patched. Whatever the kernels do not know ends the trace with the
reason, and so does a look at a value: such units take the general path.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from anydepth.fast.native.program import X, Expression, Node, Program, pruned, uses_input
from anydepth.fast.native.tables import Op


class Unknown(Exception):  # noqa: N818
    """The unit does something that the kernels do not know."""


class Value(torch.Tensor):
    """A stand-in for a tensor: shape, dtype and device are those of the tensor; there are no numbers in it."""

    _trace: "Trace"
    _sizes: torch.Size

    def __new__(cls, trace: "Trace", shape: Sequence[int], *_args: Any) -> "Value":
        with torch._C.DisableTorchFunction():
            return torch.Tensor._make_wrapper_subclass(cls, tuple(shape), dtype=trace.dtype, device="cpu")

    def __init__(self, trace: "Trace", shape: Sequence[int]):
        self._trace, self._sizes = trace, torch.Size(shape)

    shape = property(lambda self: self._sizes)  # pyright: ignore[reportAssignmentType]
    dtype = property(lambda self: self._trace.dtype)  # pyright: ignore[reportAssignmentType]
    device = property(lambda self: torch.device("cpu"))  # pyright: ignore[reportAssignmentType]
    ndim = property(lambda self: len(self._sizes))  # pyright: ignore[reportAssignmentType]
    is_cuda = requires_grad = is_sparse = is_nested = property(lambda self: False)  # pyright: ignore
    layout = property(lambda self: torch.strided)  # pyright: ignore[reportAssignmentType]

    def dim(self) -> int:
        return len(self._sizes)

    def size(self, axis: int | None = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._sizes if axis is None else self._sizes[axis]

    def numel(self) -> int:
        return prod(self._sizes)

    def is_floating_point(self) -> bool:
        return True

    def __len__(self) -> int:
        return self._sizes[0]

    def __repr__(self, **_kwargs: Any) -> str:
        return f"{type(self).__name__}{tuple(self._sizes)}"

    @classmethod
    def __torch_function__(cls, function: Any, kinds: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        return call(function, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, function: Any, kinds: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        raise Unknown(f"the unit uses {function}")

    def _refuse(self, *_args: Any) -> Any:
        raise Unknown("the unit looks at the values of its input, its weights or t")

    __bool__ = __float__ = __int__ = __index__ = __iter__ = __eq__ = __ne__ = __lt__ = __gt__ = __le__ = __ge__ = (
        _refuse  # noqa: E501
    )
    __setitem__ = __contains__ = __array__ = _refuse
    __hash__ = object.__hash__

    def __add__(self, other: Any) -> "Value":
        return _add(self, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> "Value":
        return _sub(self, other)

    def __rsub__(self, other: Any) -> "Value":
        return _sub(other, self)

    def __mul__(self, other: Any) -> "Value":
        return _mul(self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> "Value":
        return _div(self, other)

    def __neg__(self) -> "Value":
        return _neg(self)

    def __pow__(self, power: Any) -> "Value":
        return _pow(self, power)

    def __matmul__(self, other: Any) -> "Value":
        return _matmul(self, other)

    def __iadd__(self, other: Any) -> "Value":
        return _in_place(_add)(self, other)

    def __isub__(self, other: Any) -> "Value":
        return _in_place(_sub)(self, other)

    def __imul__(self, other: Any) -> "Value":
        return _in_place(_mul)(self, other)

    def __getitem__(self, key: Any) -> "Value":
        return _getitem(self, key)

    @property
    def T(self) -> "Value":  # noqa: N802
        return _transpose(self)

    mT = T  # noqa: N815


class Row(Value):
    """One register for every row: axes of the batch first, then those of the values of one row."""

    def __new__(cls, trace: "Trace", register: int, lead: Sequence[int], features: Sequence[int]) -> "Row":
        return super().__new__(cls, trace, (*lead, *features))  # pyright: ignore[reportReturnType]

    def __init__(self, trace: "Trace", register: int, lead: Sequence[int], features: Sequence[int]):
        super().__init__(trace, (*lead, *features))
        self.register, self.lead, self.features = register, tuple(lead), tuple(features)
        self.is_fresh = register != X
        """Whether it may be written over: no other stand-in has its register."""

    @property
    def width(self) -> int:
        return prod(self.features)


class Joined(Value):
    """Columns one after another, some of them the same for all rows; made into a register where it must be."""

    def __new__(cls, trace: "Trace", lead: Sequence[int], parts: Sequence["Row | Uniform"]) -> "Joined":
        return super().__new__(cls, trace, (*lead, sum(part.shape[-1] for part in parts)))  # pyright: ignore

    def __init__(self, trace: "Trace", lead: Sequence[int], parts: Sequence["Row | Uniform"]):
        super().__init__(trace, (*lead, sum(part.shape[-1] for part in parts)))
        self.lead, self.parts = tuple(lead), tuple(parts)


class Uniform(Value):
    """A tensor that is the same for all rows: weights, t, and what is made of them; a vector unless `is_matrix`."""

    def __new__(cls, trace: "Trace", expression: Expression, shape: Sequence[int], is_whole: bool = False) -> "Uniform":
        return super().__new__(cls, trace, shape)  # pyright: ignore[reportReturnType]

    def __init__(self, trace: "Trace", expression: Expression, shape: Sequence[int], is_whole: bool = False):
        super().__init__(trace, shape)
        self.expression, self.is_whole = expression, is_whole
        """Whether the shape is the tensor's own, as a parameter's; otherwise all axes but the last repeat it."""


class Filled(Value):
    """A tensor of one number."""

    def __new__(cls, trace: "Trace", number: float, shape: Sequence[int]) -> "Filled":
        return super().__new__(cls, trace, shape)  # pyright: ignore[reportReturnType]

    def __init__(self, trace: "Trace", number: float, shape: Sequence[int]):
        super().__init__(trace, shape)
        self.number = number


class Trace(TorchFunctionMode):
    """One call of a unit: the operations so far."""

    def __init__(self, dtype: torch.dtype):
        super().__init__()
        self.dtype = dtype
        self.nodes: list[Node] = []
        self.widths: list[int] = []
        self.slots: dict[Expression, int] = {}
        self.shapes: list[tuple[int, ...]] = []

    def __torch_function__(self, function: Any, kinds: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        return call(function, args, kwargs or {}, self)

    def register(self, width: int) -> int:
        self.widths.append(width)
        return len(self.widths) - 1

    def slot(self, expression: Expression, shape: Sequence[int]) -> int:
        if expression not in self.slots:
            self.slots[expression] = len(self.slots)
            self.shapes.append(tuple(shape))
        return self.slots[expression]

    def row(self, op: Op, x: Row, features: Sequence[int] | None = None, **more: Any) -> Row:
        """The result of an operation on x."""
        features = x.features if features is None else features
        to = self.register(prod(features))
        self.nodes.append(Node(op, to, x.register, **more))
        return Row(self, to, x.lead, features)


def traced(root: Callable[..., Any], shape: Sequence[int], trace: Trace, has_time: bool) -> Program:
    """The program of a unit whose tensors are stand-ins of this trace already, on x of a shape."""
    x = Row(trace, trace.register(shape[-1]), shape[:-1], shape[-1:])
    lead = (Uniform(trace, ("time",), ()),) if has_time else ()
    with trace:
        out = root(*lead, x)
    out = _as_row(out, x.lead) if isinstance(out, Value) else out
    if not isinstance(out, Row) or out.shape != x.shape:
        raise Unknown("the unit's result is not a tensor of x's shape that depends on x")
    program = pruned(
        Program(tuple(trace.nodes), tuple(trace.widths), out.register, tuple(trace.slots), tuple(trace.shapes))
    )
    if not uses_input(program):
        raise Unknown("the unit's result does not depend on x")
    return program


def call(function: Any, args: tuple, kwargs: dict[str, Any], trace: Trace | None = None) -> Any:
    known = _FUNCTIONS.get(function)
    if known is None:
        maker = _MAKERS.get(function)
        if maker is not None and trace is not None:
            return maker(trace, *args, **kwargs)
        raise Unknown(f"the unit uses {getattr(function, '__name__', function)}")
    try:
        return known(*args, **kwargs)
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        raise Unknown(f"the unit uses {getattr(function, '__name__', function)} in an unusual way: {error}") from None


# Rows


def _as_row(value: Value, lead: Sequence[int]) -> Value:
    """A joined value as one register, if all of it depends on the row."""
    if not isinstance(value, Joined):
        return value
    trace, at = value._trace, 0
    to = trace.register(value.shape[-1])
    for part in value.parts:
        if not isinstance(part, Row):
            raise Unknown("the unit joins x and something that is the same for all rows, and not before a linear layer")
        trace.nodes.append(Node(Op.COPY, to, part.register, columns=(at, 0, part.width)))
        at += part.width
    return Row(trace, to, value.lead, (at,))


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | Filled):
        return None
    return float(value.number if isinstance(value, Filled) else value)


def _broadcast(a: Value, b: Any) -> tuple[int, ...]:
    return tuple(torch.broadcast_shapes(a.shape, b.shape if isinstance(b, Value) else ()))


def _check_kept(x: Row, shape: Sequence[int]) -> None:
    if tuple(shape) != tuple(x.shape):
        raise Unknown("the unit repeats its input along a new axis")


def _vector(x: Row, u: Uniform) -> int:
    """The slot of a uniform value as a vector beside the features of x."""
    _check_kept(x, _broadcast(x, u))
    if len(x.features) != 1 or (u.is_whole and u.ndim > 1):
        raise Unknown("the unit combines x with a matrix, element by element")
    last = u.shape[-1] if u.ndim else 1
    expression = u.expression if last == x.width and u.ndim else ("wide", u.expression, x.width)
    return x._trace.slot(expression, (x.width,))


def _uniform(name: str, *operands: Any) -> Uniform:
    """An elementwise function of things that are the same for all rows."""
    trace = next(part._trace for part in operands if isinstance(part, Value))
    shape = torch.broadcast_shapes(*(part.shape for part in operands if isinstance(part, Value)))
    parts = []
    for part in operands:
        if isinstance(part, Uniform):
            if part.is_whole and part.ndim > 1:
                raise Unknown("the unit computes with a weight matrix, element by element")
            parts.append(part.expression)
        else:
            parts.append(_number(part))
    if any(part is None for part in parts):
        raise Unknown("the unit computes with a tensor that is no weight")
    return Uniform(trace, ("apply", name, *parts), shape)


def _add(a: Any, b: Any, *, alpha: float = 1) -> Value:
    return _combined(a, b, 1.0, float(alpha))


def _sub(a: Any, b: Any, *, alpha: float = 1) -> Value:
    return _combined(a, b, 1.0, -float(alpha))


def _combined(a: Any, b: Any, first: float, second: float) -> Value:
    """first * a + second * b."""
    a, b = (_settled(part) for part in (a, b))
    if isinstance(b, Row) and not isinstance(a, Row):
        return _combined(b, a, second, first)
    if isinstance(a, Row):
        trace, number = a._trace, _number(b)
        if number is not None:
            _check_kept(a, _broadcast(a, b))
            return trace.row(Op.SUM, a, numbers=(first, 0.0, second * number))
        if isinstance(b, Row):
            if a.shape != b.shape or a.lead != b.lead:
                raise Unknown("the unit adds values of different shapes")
            return trace.row(Op.SUM, a, y=b.register, numbers=(first, second, 0.0))
        if isinstance(b, Uniform):
            return trace.row(Op.PLUS_ROW, a, weight=_vector(a, b), numbers=(first, second, 0.0))
    else:
        parts = [part if factor == 1 else _mul(part, factor) for part, factor in ((a, first), (b, second))]
        if not all(_number(part) is not None for part in parts):
            return _uniform("add", *parts)
        shape = _broadcast(a, b) if isinstance(a, Value) else b.shape
        return Filled(next(p._trace for p in (a, b) if isinstance(p, Value)), sum(map(_number, parts)), shape)  # pyright: ignore
    raise Unknown("the unit adds a tensor that is neither made of x nor a weight")


def _settled(value: Any) -> Any:
    return _as_row(value, ()) if isinstance(value, Joined) else value


def _mul(a: Any, b: Any) -> Value:
    a, b = (_settled(part) for part in (a, b))
    if isinstance(b, Row) and not isinstance(a, Row):
        a, b = b, a
    number = _number(b)
    if isinstance(a, Row):
        if number is not None:
            _check_kept(a, _broadcast(a, b))
            return a._trace.row(Op.SUM, a, numbers=(number, 0.0, 0.0))
        if isinstance(b, Row):
            if a.shape != b.shape or a.lead != b.lead:
                raise Unknown("the unit multiplies values of different shapes")
            return a._trace.row(Op.PRODUCT, a, y=b.register)
        if isinstance(b, Uniform):
            return a._trace.row(Op.TIMES_ROW, a, weight=_vector(a, b))
        raise Unknown("the unit multiplies by a tensor that is neither made of x nor a weight")
    if isinstance(a, Filled) and isinstance(b, Uniform):
        a, b, number = b, a, a.number
    if isinstance(a, Uniform) and number == 1:
        if a.is_whole and a.ndim > 1:
            raise Unknown("the unit computes with a weight matrix, element by element")
        return Uniform(a._trace, a.expression, _broadcast(a, b))
    if isinstance(a, Filled) and number is not None:
        return Filled(a._trace, a.number * number, _broadcast(a, b))
    return _uniform("mul", a, b)


def _div(a: Any, b: Any, *, rounding_mode: str | None = None) -> Value:
    number = _number(b)
    if number is None or number == 0 or rounding_mode is not None:
        raise Unknown("the unit divides by a tensor or by zero")
    if isinstance(a, Uniform):
        return _uniform("div", a, number)
    return _mul(a, 1 / number)


def _neg(a: Any) -> Value:
    return _mul(a, -1.0)


def _pow(a: Any, power: Any) -> Value:
    if isinstance(power, float) and power.is_integer():
        power = int(power)
    if not isinstance(power, int) or not 1 <= power <= 8:
        raise Unknown("the unit raises to a power that is no small whole number")
    found = a
    for _ in range(power - 1):
        found = _mul(found, a)
    return found


# Linear maps


def _matrix(weight: Any) -> tuple[Expression, tuple[int, int]]:
    if not isinstance(weight, Uniform) or not weight.is_whole or weight.ndim != 2:
        raise Unknown("the unit has a linear map whose matrix is no weight")
    return weight.expression, (weight.shape[0], weight.shape[1])


def _linear(x: Any, weight: Any, bias: Any = None) -> Value:
    matrix, (outs, ins) = _matrix(weight)
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
                    raise Unknown("the unit joins x with more than single columns that all rows share")
                term = ("apply", "mul", ("column", matrix, at + i), value)
                constant = term if constant is None else ("apply", "add", constant, term)
        at += width
    if not rows:
        raise Unknown("the unit has a linear layer without x")
    inner = rows[0] if len(rows) == 1 else _as_row(Joined(x._trace, x.lead, rows), x.lead)
    if len(kept) == at:
        return inner, matrix, constant, at
    return inner, ("columns", matrix, tuple(kept)), constant, len(kept)


def _matmul(a: Any, b: Any) -> Value:
    if not isinstance(b, Uniform):
        raise Unknown("the unit has a product of matrices that is no linear layer")
    matrix, shape = _matrix(b)
    turned = matrix[1] if matrix[0] == "transposed" else ("transposed", matrix)
    return _linear(_settled(a), Uniform(b._trace, turned, shape[::-1], True))


def _addmm(bias: Any, a: Any, b: Any) -> Value:
    return _add(_matmul(a, b), bias)


def _transpose(a: Any, *axes: Any) -> Value:
    matrix, shape = _matrix(a)
    if axes not in ((), (0, 1), (1, 0), (-2, -1), (-1, -2)):
        raise Unknown("the unit reorders axes")
    turned = matrix[1] if matrix[0] == "transposed" else ("transposed", matrix)
    return Uniform(a._trace, turned, shape[::-1], True)


_FEW = 4
"""Up to so many positions, a convolution is cheap as one matrix."""


def _conv1d(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
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


# Shapes


def _view(x: Any, *shape: Any) -> Value:
    """Another shape for the same values, as long as the axes of one row stay together."""
    wanted = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], tuple | list | torch.Size) else tuple(shape)
    x = _settled(x)
    if wanted.count(-1) == 1:
        known = prod(size for size in wanted if size != -1)
        wanted = tuple(x.numel() // max(known, 1) if size == -1 else size for size in wanted)
    if prod(wanted) != x.numel():
        raise Unknown("the unit gives x an impossible shape")
    return _reshaped(x, wanted)


def _reshaped(x: Value, wanted: tuple[int, ...]) -> Value:
    if isinstance(x, Filled):
        return Filled(x._trace, x.number, wanted)
    if isinstance(x, Uniform):
        if x.numel() == (x.shape[-1] if x.ndim else 1) == (wanted[-1] if wanted else 1) and not (
            x.is_whole and x.ndim > 1
        ):
            return Uniform(x._trace, x.expression, wanted)
        raise Unknown("the unit reshapes its weights")
    assert isinstance(x, Row)
    x.is_fresh = False
    cuts = [n for n in range(len(wanted) + 1) if prod(wanted[:n]) == prod(x.lead) and prod(wanted[n:]) == x.width]
    if not cuts:
        raise Unknown("the unit mixes axes of the batch and of the features")
    cut = min(cuts, key=lambda n: abs(len(wanted) - n - len(x.features)))
    found = Row(x._trace, x.register, wanted[:cut], wanted[cut:])
    found.is_fresh = False
    return found


def _unsqueeze(x: Any, dim: int) -> Value:
    place = dim if dim >= 0 else x.ndim + 1 + dim
    shape = (*x.shape[:place], 1, *x.shape[place:])
    if isinstance(x, Row) and place >= len(x.lead):
        x.is_fresh = False
        at = place - len(x.lead)
        found = Row(x._trace, x.register, x.lead, (*x.features[:at], 1, *x.features[at:]))
        found.is_fresh = False
        return found
    return _reshaped(x, shape)


def _squeeze(x: Any, dim: int | None = None) -> Value:
    if dim is None or not isinstance(x, Row | Uniform | Filled):
        raise Unknown("the unit drops all axes of size 1")
    place = dim if dim >= 0 else x.ndim + dim
    if x.shape[place] != 1:
        return x
    if isinstance(x, Row) and place >= len(x.lead):
        at = place - len(x.lead)
        x.is_fresh = False
        found = Row(x._trace, x.register, x.lead, (*x.features[:at], *x.features[at + 1 :]))
        found.is_fresh = False
        return found
    return _reshaped(x, (*x.shape[:place], *x.shape[place + 1 :]))


def _expand(x: Any, *shape: Any) -> Value:
    wanted = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], tuple | list | torch.Size) else tuple(shape)
    if not isinstance(x, Uniform | Filled) or (isinstance(x, Uniform) and x.is_whole and x.ndim > 1):
        raise Unknown("the unit expands x or a matrix")
    lead = len(wanted) - x.ndim
    wanted = tuple(x.shape[i - lead] if size == -1 else size for i, size in enumerate(wanted))
    torch.broadcast_shapes(x.shape, wanted)
    if isinstance(x, Filled):
        return Filled(x._trace, x.number, wanted)
    last = x.shape[-1] if x.ndim else 1
    expression = x.expression if last == wanted[-1] else ("wide", x.expression, wanted[-1])
    return Uniform(x._trace, expression, wanted)


def _cat(tensors: Sequence[Any], dim: int = 0, *, axis: int | None = None) -> Value:
    dim = dim if axis is None else axis
    rows = [part for part in tensors if isinstance(part, Row | Joined)]
    if not rows or dim not in (-1, rows[0].ndim - 1):
        raise Unknown("the unit joins tensors along another axis than the features")
    lead, parts = rows[0].lead, []
    for part in tensors:
        if (
            not isinstance(part, Value)
            or tuple(part.shape[:-1]) != tuple(lead)
            or (isinstance(part, Row) and len(part.features) != 1)
        ):
            raise Unknown("the unit joins tensors of different shapes")
        if isinstance(part, Joined):
            parts += part.parts
        elif isinstance(part, Filled):
            parts.append(
                Uniform(part._trace, ("apply", "add", ("apply", "mul", ("time",), 0.0), part.number), part.shape)
            )
        else:
            parts.append(part)
    for part in parts:
        part.is_fresh = False
    return Joined(rows[0]._trace, lead, parts)


def _getitem(x: Any, key: Any) -> Value:
    """Some columns."""
    keys = key if isinstance(key, tuple) else (key,)
    x = _settled(x)
    if (
        not isinstance(x, Row)
        or len(x.features) != 1
        or not all(isinstance(part, slice | type(Ellipsis)) for part in keys)
    ):
        raise Unknown("the unit takes single entries or weights apart")
    if Ellipsis in keys:
        at = keys.index(Ellipsis)
        keys = (*keys[:at], *[slice(None)] * (x.ndim - len(keys) + 1), *keys[at + 1 :])
    if any(part != slice(None) for part in keys[: x.ndim - 1]):
        raise Unknown("the unit takes some rows of the batch")
    if len(keys) < x.ndim or keys[-1] == slice(None):
        return x
    start, stop, step = keys[-1].indices(x.width)
    if step != 1 or stop <= start:
        raise Unknown("the unit takes columns with gaps")
    return _sliced(x, start, stop - start)


def _sliced(x: Row, start: int, count: int) -> Row:
    if (start, count) == (0, x.width):
        return x
    part = x._trace.row(Op.COPY, x, (count,), columns=(0, start, count))
    x.is_fresh = part.is_fresh = False
    return part


def _split_columns(x: Any, sizes: Any, dim: int = 0) -> tuple[Value, ...]:
    x = _settled(x)
    if not isinstance(x, Row) or len(x.features) != 1 or dim not in (-1, x.ndim - 1):
        raise Unknown("the unit splits a tensor along another axis than the features")
    counts = [min(sizes, x.width - i) for i in range(0, x.width, sizes)] if isinstance(sizes, int) else list(sizes)
    starts = [sum(counts[:i]) for i in range(len(counts))]
    return tuple(_sliced(x, start, count) for start, count in zip(starts, counts, strict=True))


def _chunk(x: Any, chunks: int, dim: int = 0) -> tuple[Value, ...]:
    return _split_columns(x, -(-x.shape[-1] // chunks), dim)


# Activations


def _activation(op: Op, name: str | None = None) -> Callable[..., Value]:
    def run(x: Any, inplace: bool = False) -> Value:
        x = _settled(x)
        if isinstance(x, Uniform) and name is not None:
            return _uniform(name, x)
        if not isinstance(x, Row):
            raise Unknown("the unit applies an activation to a weight")
        return _replaced(x, x._trace.row(op, x)) if inplace else x._trace.row(op, x)

    return run


def _replaced(x: Row, result: Row) -> Row:
    """x after something was done to it in place."""
    if not x.is_fresh:
        raise Unknown("the unit writes over its input, or over something that has another name too")
    x.register = result.register
    return x


def _in_place(function: Callable[..., Value]) -> Callable[..., Value]:
    def run(x: Any, *args: Any, **kwargs: Any) -> Value:
        if not isinstance(x, Row):
            raise Unknown("the unit writes over a weight")
        result = function(x, *args, **kwargs)
        assert isinstance(result, Row)
        return _replaced(x, result)

    return run


def _gelu(x: Any, approximate: str = "none") -> Value:
    return _activation(Op.GELU_TANH if approximate == "tanh" else Op.GELU, "gelu" if approximate == "none" else None)(x)


def _softplus(x: Any, beta: float = 1, threshold: float = 20) -> Value:
    if threshold != 20:
        raise Unknown("the unit has a softplus with a threshold of its own")
    inner = _activation(Op.SOFTPLUS, "softplus")
    return inner(x) if beta == 1 else _mul(inner(_mul(x, float(beta))), 1 / float(beta))


def _leaky_relu(x: Any, negative_slope: float = 0.01, inplace: bool = False) -> Value:
    x = _settled(x)
    if not isinstance(x, Row) or not negative_slope > 0:
        raise Unknown("the unit has an unusual leaky ReLU")
    result = x._trace.row(Op.LEAKY, x, numbers=(float(negative_slope),))
    return _replaced(x, result) if inplace else result


def _same(x: Any, *_args: Any, **_kwargs: Any) -> Any:
    return x


def _clone(x: Any, **_kwargs: Any) -> Any:
    x = _settled(x)
    return Row(x._trace, x.register, x.lead, x.features) if isinstance(x, Row) else x


def _dropout(x: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    if training and p:
        raise Unknown("the unit draws random numbers")
    return x


def _full(trace: Trace, size: Sequence[int], fill_value: Any, **kwargs: Any) -> Value:
    return _mul(_made(1.0)(trace, tuple(size), **kwargs), fill_value)


def _cast(x: Any, *args: Any, **kwargs: Any) -> Any:
    """A conversion that changes nothing."""
    for target in (*args, *kwargs.values()):
        if target not in (x.dtype, x.device, "cpu", False, True):
            raise Unknown("the unit converts to another precision or device")
    return x


def _like(number: float) -> Callable[..., Value]:
    def run(x: Any, **kwargs: Any) -> Value:
        if any(value not in (None, x.dtype, x.device) for value in kwargs.values()):
            raise Unknown("the unit makes tensors of another kind")
        return Filled(x._trace, number, x.shape)

    return run


def _full_like(x: Any, fill_value: Any, **kwargs: Any) -> Value:
    return _mul(_like(1.0)(x, **kwargs), fill_value)


def _made(number: float) -> Callable[..., Value]:
    def run(trace: Trace, *shape: Any, dtype: Any = None, device: Any = None) -> Value:
        sizes = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], tuple | list | torch.Size) else shape
        default = torch.get_default_dtype()
        if (dtype or default) != trace.dtype or str(device or "cpu") != "cpu":
            raise Unknown("the unit makes tensors of another kind")
        return Filled(trace, number, sizes)

    return run


_F = nn.functional
_relu, _tanh, _sigmoid = _activation(Op.RELU, "relu"), _activation(Op.TANH, "tanh"), _activation(Op.SIGMOID, "sigmoid")
_silu, _sin = _activation(Op.SILU, "silu"), _activation(Op.SIN, "sin")
_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    _F.linear: _linear,
    torch.conv1d: _conv1d,
    _F.relu: _relu, torch.relu: _relu, torch.relu_: _in_place(_relu),
    torch.tanh: _tanh, _F.tanh: _tanh, torch.tanh_: _in_place(_tanh),
    torch.sigmoid: _sigmoid, _F.sigmoid: _sigmoid, torch.sigmoid_: _in_place(_sigmoid),
    torch.special.expit: _sigmoid,
    _F.silu: _silu,
    _F.gelu: _gelu,
    _F.softplus: _softplus,
    _F.leaky_relu: _leaky_relu,
    _F.dropout: _dropout, torch.clone: _clone,
    torch.sin: _sin, torch.sin_: _in_place(_sin),
    torch.add: _add, torch.sub: _sub, torch.subtract: _sub, torch.mul: _mul, torch.multiply: _mul,
    torch.div: _div, torch.true_divide: _div, torch.neg: _neg, torch.negative: _neg,
    torch.pow: _pow, torch.square: lambda x: _mul(x, x),
    torch.matmul: _matmul, torch.mm: _matmul, torch.addmm: _addmm, torch.t: _transpose,
    torch.reshape: _view, torch.squeeze: _squeeze, torch.unsqueeze: _unsqueeze,
    torch.cat: _cat, torch.concat: _cat, torch.concatenate: _cat, torch.hstack: lambda parts: _cat(parts, -1),
    torch.split: _split_columns, torch.chunk: _chunk,
    torch.ones_like: _like(1.0), torch.zeros_like: _like(0.0), torch.full_like: _full_like,
    torch.cos: lambda x: _uniform("cos", x), torch.exp: lambda x: _uniform("exp", x),
}  # fmt: skip
_MAKERS: dict[Any, Callable[..., Any]] = {torch.ones: _made(1.0), torch.zeros: _made(0.0), torch.full: _full}
_METHODS: dict[str, Callable[..., Any]] = {
    "relu": _relu, "relu_": _in_place(_relu), "tanh": _tanh, "tanh_": _in_place(_tanh), "sigmoid": _sigmoid,
    "sigmoid_": _in_place(_sigmoid), "sin": _sin, "add": _add, "add_": _in_place(_add), "sub": _sub, "sub_": _in_place(_sub),
    "mul": _mul, "mul_": _in_place(_mul), "div": _div, "neg": _neg, "pow": _pow, "square": lambda x: _mul(x, x),
    "matmul": _matmul, "mm": _matmul, "t": _transpose, "transpose": _transpose, "view": _view, "reshape": _view,
    "squeeze": _squeeze, "unsqueeze": _unsqueeze, "expand": _expand, "expand_as": lambda x, y: _expand(x, y.shape),
    "contiguous": _same, "clone": _clone, "to": _cast, "type_as": lambda x, y: _cast(x, y.dtype), "float": lambda x: _cast(x, torch.float32),
    "double": lambda x: _cast(x, torch.float64), "split": _split_columns, "chunk": _chunk,
    "cos": lambda x: _uniform("cos", x), "exp": lambda x: _uniform("exp", x),
    "new_ones": lambda x, *shape: _made(1.0)(x._trace, *shape, dtype=x.dtype), "new_zeros": lambda x, *shape: _made(0.0)(x._trace, *shape, dtype=x.dtype),
}  # fmt: skip
_FUNCTIONS |= {getattr(torch.Tensor, name): function for name, function in _METHODS.items()}
