"""Matrix products of any width, put together from tiles."""

from numba import njit

from anydepth.fast.native.intrinsics import ADDED, GIVEN, VECTOR_BYTES, make_tile
from anydepth.fast.native.jit import OPTIONS

_SHAPES = ((4, 6), (4, 4), (8, 2), (4, 2), (8, 1), (4, 1))
"""Rows and half vectors of a tile: as many sums as registers hold, and enough of them to keep the units busy."""
_g46, _g44, _g82, _g42, _g81, _g41 = (make_tile(rows, halves, GIVEN) for rows, halves in _SHAPES)
_a46, _a44, _a82, _a42, _a81, _a41 = (make_tile(rows, halves, ADDED) for rows, halves in _SHAPES)
_a16, _a14, _a12, _a11 = (make_tile(1, halves, ADDED) for halves in (6, 4, 2, 1))


@njit(**OPTIONS)
def product(c, c0, ldc, m, n, a, a0, sar, sak, b, b0, ldb, k, bias, bias0):
    """C = bias + A B, m a multiple of 4, n of half a vector."""
    half = VECTOR_BYTES // (2 * c.itemsize)
    j = 0
    while j < n:
        left = (n - j) // half
        r = 0
        if left >= 6 and left != 8:
            while r < m:
                _g46(c, c0 + r * ldc + j, ldc, a, a0 + r * sar, sar, sak, b, b0 + j, ldb, k, bias, bias0 + j)
                r += 4
            j += 6 * half
        elif left >= 4:
            while r < m:
                _g44(c, c0 + r * ldc + j, ldc, a, a0 + r * sar, sar, sak, b, b0 + j, ldb, k, bias, bias0 + j)
                r += 4
            j += 4 * half
        elif left >= 2:
            while r + 8 <= m:
                _g82(c, c0 + r * ldc + j, ldc, a, a0 + r * sar, sar, sak, b, b0 + j, ldb, k, bias, bias0 + j)
                r += 8
            if r < m:
                _g42(c, c0 + r * ldc + j, ldc, a, a0 + r * sar, sar, sak, b, b0 + j, ldb, k, bias, bias0 + j)
            j += 2 * half
        else:
            while r + 8 <= m:
                _g81(c, c0 + r * ldc + j, ldc, a, a0 + r * sar, sar, sak, b, b0 + j, ldb, k, bias, bias0 + j)
                r += 8
            if r < m:
                _g41(c, c0 + r * ldc + j, ldc, a, a0 + r * sar, sar, sak, b, b0 + j, ldb, k, bias, bias0 + j)
            j += half


@njit(**OPTIONS)
def product_added(c, c0, ldc, m, n, a, a0, sar, sak, b, b0, ldb, k):
    """C += A B, m a multiple of 4, n of half a vector."""
    half = VECTOR_BYTES // (2 * c.itemsize)
    j = 0
    while j < n:
        left = (n - j) // half
        r = 0
        if left >= 6 and left != 8:
            while r < m:
                _a46(c, c0 + r * ldc + j, ldc, a, a0 + r * sar, sar, sak, b, b0 + j, ldb, k, c, 0)
                r += 4
            j += 6 * half
        elif left >= 4:
            while r < m:
                _a44(c, c0 + r * ldc + j, ldc, a, a0 + r * sar, sar, sak, b, b0 + j, ldb, k, c, 0)
                r += 4
            j += 4 * half
        elif left >= 2:
            while r + 8 <= m:
                _a82(c, c0 + r * ldc + j, ldc, a, a0 + r * sar, sar, sak, b, b0 + j, ldb, k, c, 0)
                r += 8
            if r < m:
                _a42(c, c0 + r * ldc + j, ldc, a, a0 + r * sar, sar, sak, b, b0 + j, ldb, k, c, 0)
            j += 2 * half
        else:
            while r + 8 <= m:
                _a81(c, c0 + r * ldc + j, ldc, a, a0 + r * sar, sar, sak, b, b0 + j, ldb, k, c, 0)
                r += 8
            if r < m:
                _a41(c, c0 + r * ldc + j, ldc, a, a0 + r * sar, sar, sak, b, b0 + j, ldb, k, c, 0)
            j += half


@njit(**OPTIONS)
def row_sum(c, c0, n, b, b0, ldb, k, ones, one0):
    """c += the sum of k rows, n a multiple of half a vector; `ones` has a 1 at one0."""
    half = VECTOR_BYTES // (2 * c.itemsize)
    j = 0
    while j < n:
        left = (n - j) // half
        if left >= 6 and left != 8:
            _a16(c, c0 + j, 0, ones, one0, 0, 0, b, b0 + j, ldb, k, c, 0)
            j += 6 * half
        elif left >= 4:
            _a14(c, c0 + j, 0, ones, one0, 0, 0, b, b0 + j, ldb, k, c, 0)
            j += 4 * half
        elif left >= 2:
            _a12(c, c0 + j, 0, ones, one0, 0, 0, b, b0 + j, ldb, k, c, 0)
            j += 2 * half
        else:
            _a11(c, c0 + j, 0, ones, one0, 0, 0, b, b0 + j, ldb, k, c, 0)
            j += half
