"""Crossings of trajectories in the plane: solutions of one autonomous ODE have none."""

from fractions import Fraction
from math import frexp

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from anydepth.errors import ShapeError

Points = NDArray[np.float64]
Signs = NDArray[np.int8]
Places = NDArray[np.intp]

_UNSURE = 4 * np.finfo(np.float64).eps
"""A determinant above this share of the sum of its terms has the sign it seems to have; 2 eps is the bound."""
_AT_ONCE = 200_000
"""Pairs of segments looked at together, which bounds the memory."""


def crossing_rate(trajectories: Tensor) -> float:
    """The share of pairs of trajectories that cross, of [time, points, 2] straight pieces between the given times.

    Two cross where a piece of one meets a piece of the other in a point inside both. To touch, to meet in an end, or to
    run along the same line is no crossing: orbits may merge numerically in a sink, and two starting points may lie
    on one orbit. Decided exactly. Trajectories that are not finite are left out; without a pair the rate is 0.
    """
    if trajectories.dim() != 3 or trajectories.shape[-1] != 2:
        raise ShapeError(f"trajectories must be [time, points, 2], got {list(trajectories.shape)}")
    paths = trajectories.detach().cpu().double().numpy()
    paths = _scaled(paths[:, np.isfinite(paths).all((0, 2))])
    count = paths.shape[1]
    if count < 2 or len(paths) < 2:
        return 0.0
    low, high = np.minimum(paths[:-1], paths[1:]), np.maximum(paths[:-1], paths[1:])
    first, second = np.triu_indices(count, 1)
    near = np.nonzero(_overlap(low.min(0), high.max(0), first, second))[0]
    together = max(1, _AT_ONCE // (len(paths) - 1) ** 2)
    found = 0
    for start in range(0, len(near), together):
        some = near[start : start + together]
        found += _crossing_pairs(paths, low, high, first[some], second[some])
    return found / len(first)


def _scaled(paths: Points) -> Points:
    """Divided by a power of two, which is exact, so that no product overflows."""
    largest = float(np.abs(paths).max(initial=0.0))
    return np.ldexp(paths, -frexp(largest)[1])


def _overlap(low: Points, high: Points, i: Places, j: Places) -> NDArray[np.bool_]:
    """Whether the boxes around two things overlap by more than an edge, for many pairs of them."""
    apart = (low[i] >= high[j]) | (low[j] >= high[i])
    return ~(apart[..., 0] | apart[..., 1])


def _crossing_pairs(paths: Points, low: Points, high: Points, first: Places, second: Places) -> int:
    """How many of some pairs of paths cross; `low` and `high` are the corners of the boxes around the pieces."""
    pieces = np.arange(len(low))
    rows = max(1, _AT_ONCE // (len(first) * len(pieces)))
    crossed = np.zeros(len(first), dtype=bool)
    for start in range(0, len(pieces), rows):
        mine, theirs = pieces[start : start + rows, None], pieces[None]
        i, j = (mine, first[:, None, None]), (theirs, second[:, None, None])
        pair, s, r = np.nonzero(_overlap(low, high, i, j))  # pyright: ignore[reportArgumentType]
        s, a, b = s + start, first[pair], second[pair]
        crossed[pair[meet(paths[s, a], paths[s + 1, a], paths[r, b], paths[r + 1, b])]] = True
    return int(crossed.sum())


def meet(a: Points, b: Points, c: Points, d: Points) -> NDArray[np.bool_]:
    """Whether the segments a-b and c-d, all [n, 2], meet in one point inside both."""
    apart = orientation(a, b, c) * orientation(a, b, d) < 0
    found = np.zeros(len(a), dtype=bool)
    found[apart] = orientation(c[apart], d[apart], a[apart]) * orientation(c[apart], d[apart], b[apart]) < 0
    return found


def orientation(a: Points, b: Points, c: Points) -> Signs:
    """The sign of (a - c) x (b - c), exactly: 1 if a, b, c turn left, -1 if right, 0 on one line; all [n, 2]."""
    u, v = a - c, b - c
    left, right = u[:, 0] * v[:, 1], u[:, 1] * v[:, 0]
    signs = np.sign(left - right).astype(np.int8)
    close = np.nonzero(np.abs(left - right) <= _UNSURE * (np.abs(left) + np.abs(right)))[0]
    if len(close):
        signs[close] = _closely(a[close], b[close], c[close])
    return signs


def _closely(a: Points, b: Points, c: Points) -> Signs:
    """The same where rounding could hide the sign."""
    u, v = a - c, b - c
    left, left_error = _product(u[:, 0], v[:, 1])
    right, right_error = _product(u[:, 1], v[:, 0])
    signs = np.sign((left - right) + (left_error - right_error)).astype(np.int8)
    for i in np.nonzero(~(_is_exact(a, c, u) & _is_exact(b, c, v)))[0]:
        signs[i] = _by_fractions(a[i], b[i], c[i])
    return signs


def _is_exact(a: Points, c: Points, difference: Points) -> NDArray[np.bool_]:
    """Whether a - c was not rounded (Knuth's two-sum has no remainder)."""
    back = a - difference
    return ((a - (difference + back)) + (back - c) == 0).all(-1)


def _product(x: Points, y: Points) -> tuple[Points, Points]:
    """x y as a rounded product and what rounding left out (Dekker, Veltkamp)."""
    (x1, x2), (y1, y2), rounded = _halves(x), _halves(y), x * y
    return rounded, x2 * y2 - (((rounded - x1 * y1) - x2 * y1) - x1 * y2)


def _halves(x: Points) -> tuple[Points, Points]:
    """x as a sum of two numbers of half its digits."""
    big = x * 134217729.0  # 2^27 + 1
    high = big - (big - x)
    return high, x - high


def _by_fractions(a: Points, b: Points, c: Points) -> int:
    (ax, ay), (bx, by), (cx, cy) = (map(Fraction, point.tolist()) for point in (a, b, c))
    value = (ax - cx) * (by - cy) - (ay - cy) * (bx - cx)
    return (value > 0) - (value < 0)
