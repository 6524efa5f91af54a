"""Elementwise operations on parts of one array, given by where they begin; loops that become vector code."""

import math

from numba import njit

from anydepth.fast.native.codes import Op
from anydepth.fast.native.intrinsics import get, put
from anydepth.fast.native.jit import OPTIONS
from anydepth.fast.native.scalars import cos, exp, normal, sigmoid, sin, softplus, tanh

_jit = njit(**OPTIONS)
_FAR = 5000.0
"""Beyond this, sine and cosine are left to the maths library."""
_RELU, _TANH, _SIGMOID, _GELU = int(Op.RELU), int(Op.TANH), int(Op.SIGMOID), int(Op.GELU)
_GELU_TANH, _SILU, _SOFTPLUS, _SIN = int(Op.GELU_TANH), int(Op.SILU), int(Op.SOFTPLUS), int(Op.SIN)
_STRAIGHT = 20.0
"""From here on PyTorch's softplus is its argument."""
_CUBE, _ROOT, _BELL = 0.044715, math.sqrt(2 / math.pi), 1 / math.sqrt(2 * math.pi)


@_jit
def fill(to, t0, size, value):
    for i in range(size):
        put(to, t0 + i, value)


@_jit
def copy(to, t0, size, x, x0):
    for i in range(size):
        put(to, t0 + i, get(x, x0 + i))


@_jit
def add(to, t0, size, factor, x, x0):
    """to += factor * x."""
    for i in range(size):
        put(to, t0 + i, get(to, t0 + i) + factor * get(x, x0 + i))


@_jit
def scale(to, t0, size, factor, x, x0):
    """to = factor * x."""
    for i in range(size):
        put(to, t0 + i, factor * get(x, x0 + i))


@_jit
def add_product(to, t0, size, x, x0, y, y0):
    """to += x * y."""
    for i in range(size):
        put(to, t0 + i, get(to, t0 + i) + get(x, x0 + i) * get(y, y0 + i))


@_jit
def multiply(to, t0, size, x, x0, y, y0):
    """to = x * y."""
    for i in range(size):
        put(to, t0 + i, get(x, x0 + i) * get(y, y0 + i))


@_jit
def combine(to, t0, size, a, x, x0, b, y, y0, c):
    """to = a x + b y + c."""
    for i in range(size):
        put(to, t0 + i, a * get(x, x0 + i) + b * get(y, y0 + i) + c)


@_jit
def _is_near(x, x0, size):
    """Whether all arguments are small enough for our own sine; what is not a number is."""
    far, found = x.dtype.type(_FAR), 0
    for i in range(size):
        found += abs(get(x, x0 + i)) > far
    return found == 0


@_jit
def activate(code, buf, t0, x0, size, slope):
    """An activation of what is at x0, to t0, which may be the same.

    Done in place after a copy: a loop over two pointers is vector code only where they are apart.
    """
    if t0 != x0:
        copy(buf, t0, size, buf, x0)
    kind = buf.dtype.type
    zero, half, one, straight = kind(0), kind(0.5), kind(1), kind(_STRAIGHT)
    if code == _RELU:
        for i in range(size):
            x = get(buf, t0 + i)
            put(buf, t0 + i, zero if x < zero else x)
    elif code == _TANH:
        for i in range(size):
            put(buf, t0 + i, tanh(get(buf, t0 + i)))
    elif code == _SIGMOID:
        for i in range(size):
            put(buf, t0 + i, sigmoid(get(buf, t0 + i)))
    elif code == _GELU:
        for i in range(size):
            x = get(buf, t0 + i)
            put(buf, t0 + i, x * normal(x))
    elif code == _GELU_TANH:
        inner, outer = kind(_CUBE), kind(_ROOT)
        for i in range(size):
            x = get(buf, t0 + i)
            put(buf, t0 + i, half * x * (one + tanh(outer * (x + inner * x * x * x))))
    elif code == _SILU:
        for i in range(size):
            x = get(buf, t0 + i)
            put(buf, t0 + i, x * sigmoid(x))
    elif code == _SOFTPLUS:
        for i in range(size):
            x = get(buf, t0 + i)
            put(buf, t0 + i, x if x > straight else softplus(x))
    elif code == _SIN:
        if _is_near(buf, t0, size):
            for i in range(size):
                put(buf, t0 + i, sin(get(buf, t0 + i)))
        else:
            for i in range(size):
                put(buf, t0 + i, math.sin(get(buf, t0 + i)))
    else:
        for i in range(size):
            x = get(buf, t0 + i)
            put(buf, t0 + i, x * slope if x < zero else x)


@_jit
def activate_back(code, g, g0, buf, t0, x0, size, slope):
    """The gradient of an activation's result, in place as that of its argument; result and argument are in buf."""
    kind = g.dtype.type
    zero, half, one, three, straight = kind(0), kind(0.5), kind(1), kind(3), kind(_STRAIGHT)
    if code == _RELU:
        for i in range(size):
            put(g, g0 + i, zero if get(buf, t0 + i) <= zero else get(g, g0 + i))
    elif code == _TANH:
        for i in range(size):
            t = get(buf, t0 + i)
            put(g, g0 + i, get(g, g0 + i) * (one - t * t))
    elif code == _SIGMOID:
        for i in range(size):
            t = get(buf, t0 + i)
            put(g, g0 + i, get(g, g0 + i) * (t * (one - t)))
    elif code == _GELU:
        bell = kind(_BELL)
        for i in range(size):
            x = get(buf, x0 + i)
            put(g, g0 + i, get(g, g0 + i) * (normal(x) + x * bell * exp(-half * x * x)))
    elif code == _GELU_TANH:
        inner, outer = kind(_CUBE), kind(_ROOT)
        for i in range(size):
            x = get(buf, x0 + i)
            s = tanh(outer * (x + inner * x * x * x))
            slope_of = half * (one + s) + half * x * (one - s * s) * outer * (one + three * inner * x * x)
            put(g, g0 + i, get(g, g0 + i) * slope_of)
    elif code == _SILU:
        for i in range(size):
            x = get(buf, x0 + i)
            s = sigmoid(x)
            put(g, g0 + i, get(g, g0 + i) * (s * (one + x * (one - s))))
    elif code == _SOFTPLUS:
        for i in range(size):
            x = get(buf, x0 + i)
            put(g, g0 + i, get(g, g0 + i) * (one if x > straight else sigmoid(x)))
    elif code == _SIN:
        if _is_near(buf, x0, size):
            for i in range(size):
                put(g, g0 + i, get(g, g0 + i) * cos(get(buf, x0 + i)))
        else:
            for i in range(size):
                put(g, g0 + i, get(g, g0 + i) * math.cos(get(buf, x0 + i)))
    else:
        for i in range(size):
            v = get(g, g0 + i)
            put(g, g0 + i, v if get(buf, t0 + i) > zero else v * slope)
