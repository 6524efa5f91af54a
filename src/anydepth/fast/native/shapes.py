"""Rules for shapes of stand-ins: views, columns taken and joined, tensors made of one number, conversions."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch
from torch.nn import functional

from anydepth.fast.native.codes import Op
from anydepth.fast.native.stand_ins import KNOWN, MAKERS, Filled, Joined, Row, Trace, Uniform, Unknown, Value
from anydepth.fast.native.sums import multiply, settled


def sizes_of(given: tuple[Any, ...]) -> tuple[int, ...]:
    """Sizes given one by one, or as one sequence."""
    is_one = len(given) == 1 and isinstance(given[0], tuple | list | torch.Size)
    return tuple(given[0]) if is_one else given


def _view(x: Value, *shape: object) -> Value:
    """Another shape for the same values, as long as the axes of one row stay together."""
    wanted = sizes_of(shape)
    x = settled(x)
    if wanted.count(-1) == 1:
        known = prod(size for size in wanted if size != -1)
        wanted = tuple(x.numel() // max(known, 1) if size == -1 else size for size in wanted)
    if prod(wanted) != x.numel():
        raise Unknown("the unit gives x an impossible shape")
    return reshaped(x, wanted)


def reshaped(x: Value, wanted: tuple[int, ...]) -> Value:
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


def _unsqueeze(x: Value, dim: int) -> Value:
    place = dim if dim >= 0 else x.ndim + 1 + dim
    shape = (*x.shape[:place], 1, *x.shape[place:])
    if isinstance(x, Row) and place >= len(x.lead):
        x.is_fresh = False
        at = place - len(x.lead)
        found = Row(x._trace, x.register, x.lead, (*x.features[:at], 1, *x.features[at:]))
        found.is_fresh = False
        return found
    return reshaped(x, shape)


def _squeeze(x: Value, dim: int | None = None) -> Value:
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
    return reshaped(x, (*x.shape[:place], *x.shape[place + 1 :]))


def _expand(x: Value, *shape: object) -> Value:
    wanted = sizes_of(shape)
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


def _cat(tensors: Sequence[Value], dim: int = 0, *, axis: int | None = None) -> Value:
    dim = dim if axis is None else axis
    rows = [part for part in tensors if isinstance(part, Row | Joined)]
    if not rows or dim not in (-1, rows[0].ndim - 1):
        raise Unknown("the unit concatenates tensors along another axis than the features")
    lead, parts = rows[0].lead, []
    for part in tensors:
        if (
            not isinstance(part, Value)
            or tuple(part.shape[:-1]) != tuple(lead)
            or (isinstance(part, Row) and len(part.features) != 1)
        ):
            raise Unknown("the unit concatenates tensors of different shapes")
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


def _getitem(x: Value, key: Any) -> Value:
    """Some columns."""
    keys = key if isinstance(key, tuple) else (key,)
    x = settled(x)
    if (
        not isinstance(x, Row)
        or len(x.features) != 1
        or not all(isinstance(part, slice | type(Ellipsis)) for part in keys)
    ):
        raise Unknown("the unit indexes single entries, or its weights")
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


def _split_columns(x: Value, sizes: int | Sequence[int], dim: int = 0) -> tuple[Value, ...]:
    x = settled(x)
    if not isinstance(x, Row) or len(x.features) != 1 or dim not in (-1, x.ndim - 1):
        raise Unknown("the unit splits a tensor along another axis than the features")
    counts = [min(sizes, x.width - i) for i in range(0, x.width, sizes)] if isinstance(sizes, int) else list(sizes)
    starts = [sum(counts[:i]) for i in range(len(counts))]
    return tuple(_sliced(x, start, count) for start, count in zip(starts, counts, strict=True))


def _chunk(x: Value, chunks: int, dim: int = 0) -> tuple[Value, ...]:
    return _split_columns(x, -(-x.shape[-1] // chunks), dim)


def _same(x: Value, *_args: object, **_kwargs: object) -> Value:
    return x


def _clone(x: Value, **_kwargs: object) -> Value:
    x = settled(x)
    return Row(x._trace, x.register, x.lead, x.features) if isinstance(x, Row) else x


def _dropout(x: Value, p: float = 0.5, training: bool = True, inplace: bool = False) -> Value:
    if training and p:
        raise Unknown("the unit draws random numbers")
    return x


def _full(trace: Trace, size: Sequence[int], fill_value: float, **kwargs: object) -> Value:
    return multiply(made(1.0)(trace, tuple(size), **kwargs), fill_value)


def _cast(x: Value, *args: object, **kwargs: object) -> Value:
    """A conversion that changes nothing."""
    for target in (*args, *kwargs.values()):
        if target not in (x.dtype, x.device, "cpu", False, True):
            raise Unknown("the unit converts to another precision or device")
    return x


def like(number: float) -> Callable[..., Value]:
    def run(x: Value, **kwargs: object) -> Value:
        if any(value not in (None, x.dtype, x.device) for value in kwargs.values()):
            raise Unknown("the unit makes tensors of another kind")
        return Filled(x._trace, number, x.shape)

    return run


def _full_like(x: Value, fill_value: float, **kwargs: object) -> Value:
    return multiply(like(1.0)(x, **kwargs), fill_value)


def made(number: float) -> Callable[..., Value]:
    def run(trace: Trace, *shape: object, dtype: torch.dtype | None = None, device: object = None) -> Value:
        sizes = sizes_of(shape)
        default = torch.get_default_dtype()
        if (dtype or default) != trace.dtype or str(device or "cpu") != "cpu":
            raise Unknown("the unit makes tensors of another kind")
        return Filled(trace, number, sizes)

    return run


def _hstack(tensors: Sequence[Value]) -> Value:
    return _cat(tensors, 0 if tensors[0].ndim == 1 else 1)


def _new(number: float) -> Callable[..., Value]:
    return lambda x, *shape, **kwargs: made(number)(x._trace, *shape, **{"dtype": x.dtype, **kwargs})


MAKERS.update({torch.ones: made(1.0), torch.zeros: made(0.0), torch.full: _full})
KNOWN.update({
    torch.reshape: _view, torch.squeeze: _squeeze, torch.unsqueeze: _unsqueeze, torch.cat: _cat, torch.concat: _cat,
    torch.concatenate: _cat, torch.hstack: _hstack, torch.split: _split_columns, torch.chunk: _chunk,
    torch.ones_like: like(1.0), torch.zeros_like: like(0.0), torch.full_like: _full_like, torch.clone: _clone,
    functional.dropout: _dropout,
    torch.Tensor.__getitem__: _getitem, torch.Tensor.view: _view, torch.Tensor.reshape: _view,
    torch.Tensor.squeeze: _squeeze, torch.Tensor.unsqueeze: _unsqueeze, torch.Tensor.expand: _expand,
    torch.Tensor.expand_as: lambda x, y: _expand(x, y.shape), torch.Tensor.contiguous: _same,
    torch.Tensor.clone: _clone, torch.Tensor.to: _cast, torch.Tensor.type_as: lambda x, y: _cast(x, y.dtype),
    torch.Tensor.float: lambda x: _cast(x, torch.float32), torch.Tensor.double: lambda x: _cast(x, torch.float64),
    torch.Tensor.split: _split_columns, torch.Tensor.chunk: _chunk, torch.Tensor.new_ones: _new(1.0),
    torch.Tensor.new_zeros: _new(0.0),
})  # fmt: skip
