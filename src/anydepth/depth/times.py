"""Depth as exact rational time, and the side from which a discontinuity is read."""

import re
from enum import IntEnum
from fractions import Fraction
from math import isfinite
from numbers import Rational, Real
from typing import NamedTuple

from anydepth.errors import ConfigError

_SIMPLE = 10**6
_WRITTEN = re.compile(r"-?\d{1,400}(/0*[1-9]\d{0,400}|\.\d{1,400})?")
"""A fraction or a decimal, of bounded length and without an exponent that could expand without bound."""


class Side(IntEnum):
    """Which one-sided limit is meant at a breakpoint."""

    LEFT = -1
    RIGHT = 1


class Instant(NamedTuple):
    """A time together with the side from which it is read."""

    time: Fraction
    side: Side = Side.RIGHT


TimeLike = Fraction | int | float | str


def exact(value: TimeLike) -> Fraction:
    """`value` as a rational.

    A float stands for the simplest fraction that rounds to it (1/3 for 0.333...), so that a
    time written as a float meets the knot it was meant to meet.
    """
    if isinstance(value, Real) and not isinstance(value, Rational):
        value = float(value)
        if not isfinite(value):
            raise ConfigError(f"a time must be finite, got {value}")
        simple = Fraction(value).limit_denominator(_SIMPLE)
        return simple if float(simple) == value else Fraction(value)
    if isinstance(value, Rational) and not isinstance(value, bool):
        return Fraction(value)
    if isinstance(value, str) and _WRITTEN.fullmatch(value):
        return Fraction(value)
    raise ConfigError(f"a time must be a number or a fraction such as '1/3', got {value!r}")
