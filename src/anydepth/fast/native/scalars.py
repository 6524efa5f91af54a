"""Elementary functions without branches, which compilers turn into vector code; good to a few last places.

exp by 2^n times a Taylor polynomial, tanh by expm1, sin and cos by their Taylor polynomials after subtracting multiples
of pi, log1p by the series of atanh. erfc(x) for x >= 0 is exp(-x^2) p(s) / (1 + 2x), s = (x - c) / (x + c), where p
interpolates at Chebyshev points. Each is made for both precisions, with as many terms as that precision needs.
"""

import math
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload

from anydepth.fast.native.intrinsics import scale_of, sign_of

_PI = Fraction(314159265358979323846264338327950288419716939937510582097494459, 10**62)
_LN2 = Fraction(693147180559945309417232121458176568075500134360255254120680009, 10**63)
_ERFC = {
    np.float32: (2.5, 10),
    np.float64: (3.0, 22),
}
"""c, and the degree of p."""


def _split(value: Fraction, kind: type[np.floating], bits: int) -> tuple[np.floating, ...]:
    """A number as the sum of three, the first two with few bits, so that small multiples of them are exact."""
    parts = []
    for _ in range(2):
        power = Fraction(2) ** (bits - 1 - math.floor(math.log2(float(value))))
        part = Fraction(math.floor(value * power)) / power
        parts.append(kind(float(part)))
        value -= part
    return (*parts, kind(float(value)))


def _erfc_polynomial(c: float, degree: int) -> list[float]:
    """Coefficients of p, the constant first."""
    points = 200
    nodes = np.cos(np.pi * (np.arange(points) + 0.5) / points)
    values = np.array([_erfc_scaled(c * (1 + s) / (1 - s)) for s in nodes])
    table = np.cos(np.outer(np.arange(degree + 1), np.arccos(nodes)))
    coefficients = 2 / points * table @ values
    coefficients[0] /= 2
    return [float(v) for v in np.polynomial.chebyshev.cheb2poly(coefficients)]


def _erfc_scaled(x: float) -> float:
    """exp(x^2) erfc(x) (1 + 2x)."""
    if x < 2:
        return math.exp(x * x) * math.erfc(x) * (1 + 2 * x)
    fraction = 0.0
    for k in range(400, 0, -1):  # Laplace's continued fraction
        fraction = k / 2 / (x + fraction)
    return (1 + 2 * x) / (x + fraction) / math.sqrt(math.pi)


def _made(kind: type[np.floating]) -> SimpleNamespace:
    """The functions of one precision."""
    is_single = kind is np.float32
    digits, terms = (23, 7) if is_single else (52, 13)
    magic = kind(1.5 * 2.0**digits)
    zero, half, one, two = kind(0), kind(0.5), kind(1), kind(2)
    lowest, highest = (kind(-87), kind(88)) if is_single else (kind(-708), kind(709))
    log2e = kind(1 / math.log(2))
    ln2_a, ln2_b, ln2_c = _split(_LN2, kind, digits - 12)
    powers = tuple(kind(1 / math.factorial(k)) for k in range(terms, 0, -1))
    pi_a, pi_b, pi_c = _split(_PI, kind, digits - 13)
    over_pi = kind(1 / math.pi)
    last = 13 if is_single else 21
    sines = tuple(kind((-1) ** (k // 2) / math.factorial(k)) for k in range(last, 0, -2))
    cosines = tuple(kind((-1) ** (k // 2) / math.factorial(k)) for k in range(last + 1, -1, -2))
    logs = tuple(kind(2 / (2 * k + 1)) for k in range(8 if is_single else 17, -1, -1))
    centre, degree = _ERFC[kind]
    erfcs = tuple(kind(v) for v in reversed(_erfc_polynomial(centre, degree)))
    centre = kind(centre)
    jit: Any = njit(fastmath={"contract"}, error_model="numpy", forceinline=True)

    def polynomial(coefficients):
        """Horner's rule in short loops, which are unrolled: long ones would stay loops, and their callers scalar."""
        one_third = -(-len(coefficients) // 3)
        parts = [coefficients[i : i + one_third] for i in range(0, len(coefficients), one_third)]
        first, second, third = (*parts, (), (), ())[:3]

        @jit
        def value(x):
            total = zero
            for k in range(len(first)):
                total = total * x + first[k]
            for k in range(len(second)):
                total = total * x + second[k]
            for k in range(len(third)):
                total = total * x + third[k]
            return total

        return value

    exp_of, sine_of, cosine_of, log_of, erfc_of = map(polynomial, (powers, sines, cosines, logs, erfcs))

    @jit
    def reduced(x):
        """n and r with x = n log 2 + r, and 2^n."""
        moved = x * log2e + magic
        n = moved - magic
        r = ((x - n * ln2_a) - n * ln2_b) - n * ln2_c
        return r, scale_of(moved, magic)

    @jit
    def less_one(r):
        """exp(r) - 1 for small r."""
        return exp_of(r) * r

    @jit
    def exp(x):
        x = highest if x > highest else x
        x = lowest if x < lowest else x
        r, scale = reduced(x)
        return scale * less_one(r) + scale

    @jit
    def tanh(x):
        a = -two * abs(x)
        a = lowest if a < lowest else a
        r, scale = reduced(a)
        e = scale * less_one(r) + (scale - one)
        value = -e / (e + two)
        return -value if x < zero else value

    @jit
    def sigmoid(x):
        return one / (one + exp(-x))

    @jit
    def softplus(x):
        u = exp(-abs(x))
        s = u / (two + u)
        return (x if x > zero else zero) + log_of(s * s) * s

    @jit
    def turned(x):
        """r and the sign with x = n pi + r, sign = (-1)^n."""
        moved = x * over_pi + magic
        n = moved - magic
        r = ((x - n * pi_a) - n * pi_b) - n * pi_c
        return r, sign_of(moved)

    @jit
    def sin(x):
        r, sign = turned(x)
        return sign * sine_of(r * r) * r

    @jit
    def cos(x):
        r, sign = turned(x)
        return sign * cosine_of(r * r)

    @jit
    def normal(x):
        """The share of the normal distribution below x."""
        a = abs(x) * kind(math.sqrt(0.5))
        s = (a - centre) / (a + centre)
        tail = half * exp(-a * a) * erfc_of(s) / (one + two * a)
        return one - tail if x > zero else tail

    return SimpleNamespace(**{name: found for name, found in locals().items() if isinstance(found, type(exp))})


NAMES = ("exp", "tanh", "sigmoid", "softplus", "sin", "cos", "normal")


def exp(x: float) -> float: ...
def tanh(x: float) -> float: ...
def sigmoid(x: float) -> float: ...
def softplus(x: float) -> float: ...
def sin(x: float) -> float: ...
def cos(x: float) -> float: ...
def normal(x: float) -> float: ...


_SINGLE, _DOUBLE = _made(np.float32), _made(np.float64)


def _overloaded(name: str) -> None:
    single, double = getattr(_SINGLE, name), getattr(_DOUBLE, name)

    @overload(globals()[name], jit_options={"fastmath": {"contract"}, "error_model": "numpy", "forceinline": True})
    def chosen(x):
        made = single if x == types.float32 else double
        return lambda x: made(x)


for _name in NAMES:
    _overloaded(_name)
