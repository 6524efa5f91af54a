"""torchdiffeq's methods by name: which scheme each is here, and why some are left out."""

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


def scheme_of(method: str) -> Scheme:
    """The scheme of a method."""
    if method in _REFUSED:
        raise ConfigError(f"method {method!r} is not supported: {_REFUSED[method]}")
    if method not in METHODS:
        raise ConfigError(f"unknown method {method!r}; {choices(method, METHODS)}")
    return SCHEMES[METHODS[method]]
