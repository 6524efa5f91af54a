"""Layer norm of one row: its values less their mean, divided by their deviation."""

import math
from typing import Any

from numba import njit

from anydepth.fast.native.intrinsics import get, put
from anydepth.fast.native.jit import OPTIONS

_jit = njit(**OPTIONS)
_SUMMING: dict[str, Any] = {**OPTIONS, "fastmath": {"contract", "reassoc"}}
_summing = njit(**_SUMMING)
"""For sums along a row, which are vector code only if they may be reordered."""


@_summing
def _sum(x, x0, count):
    total = x.dtype.type(0)
    for i in range(count):
        total += get(x, x0 + i)
    return total


@_summing
def _squares(x, x0, count, mean):
    """The sum of the squared distances from the mean."""
    total = x.dtype.type(0)
    for i in range(count):
        gap = get(x, x0 + i) - mean
        total += gap * gap
    return total


@_summing
def _product(g, g0, x, x0, count, mean):
    """The sum of g times the distances from the mean."""
    total = x.dtype.type(0)
    for i in range(count):
        total += get(g, g0 + i) * (get(x, x0 + i) - mean)
    return total


@_jit
def _moments(x, x0, count, eps):
    """The mean, and one over the deviation."""
    one, share = x.dtype.type(1), x.dtype.type(1) / x.dtype.type(count)
    mean = _sum(x, x0, count) * share
    return mean, one / math.sqrt(_squares(x, x0, count, mean) * share + eps)


@_jit
def normalize(buf, t0, x0, count, width, eps):
    """Of the first `count` columns; the others are zero."""
    mean, scale = _moments(buf, x0, count, eps)
    for i in range(count):
        put(buf, t0 + i, (get(buf, x0 + i) - mean) * scale)
    for i in range(count, width):
        put(buf, t0 + i, buf.dtype.type(0))


@_jit
def normalize_back(g, to, g0, x, x0, count, width, eps, is_added):
    """The gradient of the row at x0, given that of its norm at g0; worked out from the row once more."""
    mean, scale = _moments(x, x0, count, eps)
    share = x.dtype.type(1) / x.dtype.type(count)
    shift = _sum(g, g0, count) * share
    slope = _product(g, g0, x, x0, count, mean) * share * scale * scale
    if not is_added:
        for i in range(width):
            put(g, to + i, g.dtype.type(0))
    for i in range(count):
        part = (get(g, g0 + i) - shift - (get(x, x0 + i) - mean) * slope) * scale
        put(g, to + i, get(g, to + i) + part)
