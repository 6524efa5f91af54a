"""Runge-Kutta schemes as validated tableaus. Everything but a and b is derived.

k_i = f(t + c_i h, y + h sum_j a_ij k_j),   y_next = y + h sum_i b_i k_i
"""

from dataclasses import dataclass
from fractions import Fraction as F
from functools import cached_property

from anydepth.depth.trees import order_of
from anydepth.errors import ConfigError
from anydepth.registry import Registry

Row = tuple[F, ...]


@dataclass(frozen=True)
class Scheme:
    """An explicit Runge-Kutta scheme; `b_low` is the lower-order row of an embedded pair."""

    name: str
    a: tuple[Row, ...]
    b: Row
    b_low: Row | None = None

    def __post_init__(self) -> None:
        for i, row in enumerate(self.a):
            if len(row) != i:
                raise ConfigError(
                    f"scheme {self.name!r} is not explicit: row {i} of a has {len(row)} entries, expected {i}"
                )
        for weights in (self.b, self.b_low):
            if weights is not None and (len(weights) != len(self.a) or sum(weights) != 1):
                raise ConfigError(f"scheme {self.name!r}: expected {len(self.a)} weights that sum to 1, got {weights}")

    @property
    def stages(self) -> int:
        return len(self.b)

    @cached_property
    def c(self) -> Row:
        """Where in the step each stage sits."""
        return tuple(sum(row, F(0)) for row in self.a)

    @cached_property
    def order(self) -> int:
        return order_of(self.a, self.b)

    @cached_property
    def low_order(self) -> int | None:
        """Order of the embedded lower-order row, if there is one."""
        return order_of(self.a, self.b_low) if self.b_low is not None else None

    @property
    def is_adaptive(self) -> bool:
        return self.b_low is not None

    @property
    def is_fsal(self) -> bool:
        """First same as last: the last stage is the next step's first."""
        return self.stages > 1 and self.a[-1] == self.b[:-1] and self.b[-1] == 0


SCHEMES: Registry[Scheme] = Registry("scheme")


def _rows(*rows: str) -> tuple[Row, ...]:
    return tuple(_row(row) for row in rows)


def _row(text: str) -> Row:
    return tuple(F(entry) for entry in text.split())


_TABLE = (
    Scheme("euler", a=_rows(""), b=_row("1")),
    Scheme("midpoint", a=_rows("", "1/2"), b=_row("0 1")),
    Scheme("heun", a=_rows("", "1"), b=_row("1/2 1/2")),
    Scheme("ralston", a=_rows("", "2/3"), b=_row("1/4 3/4")),
    Scheme("rk4", a=_rows("", "1/2", "0 1/2", "0 0 1"), b=_row("1/6 1/3 1/3 1/6")),
    Scheme("rk4_38", a=_rows("", "1/3", "-1/3 1", "1 -1 1"), b=_row("1/8 3/8 3/8 1/8")),
    Scheme(
        "fehlberg21",
        a=_rows("", "1/2", "1/256 255/256"),
        b=_row("1/512 255/256 1/512"),
        b_low=_row("1/256 255/256 0"),
    ),
    Scheme(
        "bosh32",
        a=_rows("", "1/2", "0 3/4", "2/9 1/3 4/9"),
        b=_row("2/9 1/3 4/9 0"),
        b_low=_row("7/24 1/4 1/3 1/8"),
    ),
    Scheme(
        "dopri54",
        a=_rows(
            "",
            "1/5",
            "3/40 9/40",
            "44/45 -56/15 32/9",
            "19372/6561 -25360/2187 64448/6561 -212/729",
            "9017/3168 -355/33 46732/5247 49/176 -5103/18656",
            "35/384 0 500/1113 125/192 -2187/6784 11/84",
        ),
        b=_row("35/384 0 500/1113 125/192 -2187/6784 11/84 0"),
        b_low=_row("5179/57600 0 7571/16695 393/640 -92097/339200 187/2100 1/40"),
    ),
)
for _scheme in _TABLE:
    SCHEMES.add(_scheme.name, _scheme)


def fixed_schemes() -> list[str]:
    return [name for name in SCHEMES if not SCHEMES[name].is_adaptive]
