"""torchdiffeq's methods by name: which scheme each is here, and why some are left out."""

from dataclasses import replace
from fractions import Fraction
from functools import cache

from anydepth.depth.schemes import SCHEMES, Scheme
from anydepth.errors import ConfigError, choices

METHODS = {
    "euler": "euler",
    "midpoint": "midpoint",
    "heun2": "heun",
    "heun3": "heun3",
    "rk4": "rk4_38",
    "explicit_adams": "rk4_38",
    "adaptive_heun": "heun21",
    "fehlberg2": "fehlberg21",
    "bosh3": "bosh32",
    "dopri5": "dopri54",
    "dopri8": "dopri87",
}
"""The scheme of every method; that of the Adams method makes its first steps."""

SHAMPINE = ("1951/21600", "0", "22642/50085", "451/720", "-12231/42400", "649/6300", "1/60")
"""The row of order 4 by which torchdiffeq estimates the error of dopri5 (Shampine 1986), where ours is Dormand and
Prince's own: with it both take the same steps."""

_IMPLICIT = "implicit methods are left out"
_REFUSED = {
    "scipy_solver": "scipy's solvers are left out; call scipy.integrate.solve_ivp",
    "tsit5": "its tableau is not in the table; use 'dopri5', of the same order",
    **dict.fromkeys(
        (
            "implicit_adams",
            "fixed_adams",
            "implicit_euler",
            "implicit_midpoint",
            "trapezoid",
            "radauIIA3",
            "radauIIA5",
            "gl4",
            "gl6",
            "sdirk2",
            "trbdf2",
        ),
        f"{_IMPLICIT}; use an explicit one, adaptive if the field is mildly stiff",
    ),
}


@cache
def scheme_of(method: str) -> Scheme:
    """The scheme of a method."""
    if method in _REFUSED:
        raise ConfigError(f"method {method!r} is not supported: {_REFUSED[method]}")
    if method not in METHODS:
        raise ConfigError(f"unknown method {method!r}; {choices(method, METHODS)}")
    scheme = SCHEMES[METHODS[method]]
    return replace(scheme, b_low=tuple(map(Fraction, SHAMPINE))) if method == "dopri5" else scheme
