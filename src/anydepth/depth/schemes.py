"""Runge-Kutta schemes as validated tableaus. Everything but a and b is derived.

k_i = f(t + c_i h, y + h sum_j a_ij k_j),   y_next = y + h sum_i b_i k_i
"""

from dataclasses import dataclass
from fractions import Fraction as F
from functools import cached_property
from typing import TYPE_CHECKING

from anydepth.depth.trees import order_of
from anydepth.errors import ConfigError
from anydepth.registry import Registry

if TYPE_CHECKING:
    from anydepth.depth.dense import Dense

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

    @cached_property
    def stages(self) -> int:
        return len(self.b)

    @cached_property
    def c(self) -> Row:
        """Where in the step each stage sits."""
        return tuple(sum(row, F(0)) for row in self.a)

    @cached_property
    def reads_behind(self) -> tuple[bool, ...]:
        """Whether a stage on a knot reads the side behind it, as one at the end of a step does."""
        return tuple(c == 1 for c in self.c)

    @cached_property
    def order(self) -> int:
        return order_of(self.a, self.b)

    @cached_property
    def low_order(self) -> int | None:
        """Order of the embedded lower-order row, if there is one."""
        return order_of(self.a, self.b_low) if self.b_low is not None else None

    @cached_property
    def is_adaptive(self) -> bool:
        return self.b_low is not None

    @cached_property
    def is_fsal(self) -> bool:
        """First same as last: the last stage is the next step's first."""
        return self.stages > 1 and self.a[-1] == self.b[:-1] and self.b[-1] == 0

    @cached_property
    def dense(self) -> "Dense":
        """The solution inside a step, from the step's own slopes."""
        from anydepth.depth.dense import dense_output

        return dense_output(self.a, self.b, min(self.order, 6))


SCHEMES: Registry[Scheme] = Registry("scheme")


def _rows(*rows: str) -> tuple[Row, ...]:
    return tuple(_row(row) for row in rows)


def _row(text: str) -> Row:
    return tuple(F(entry) for entry in text.split())


def _summing(total: str | int, text: str) -> Row:
    """A row published as rounded numbers, with a first entry that makes it add up exactly."""
    rest = _row(text)
    return (F(total) - sum(rest), *rest)


_TABLE = (
    Scheme("euler", a=_rows(""), b=_row("1")),
    Scheme("midpoint", a=_rows("", "1/2"), b=_row("0 1")),
    Scheme("heun", a=_rows("", "1"), b=_row("1/2 1/2")),
    Scheme("heun3", a=_rows("", "1/3", "0 2/3"), b=_row("1/4 0 3/4")),
    Scheme("ralston", a=_rows("", "2/3"), b=_row("1/4 3/4")),
    Scheme("rk4", a=_rows("", "1/2", "0 1/2", "0 0 1"), b=_row("1/6 1/3 1/3 1/6")),
    Scheme("rk4_38", a=_rows("", "1/3", "-1/3 1", "1 -1 1"), b=_row("1/8 3/8 3/8 1/8")),
    Scheme("heun21", a=_rows("", "1"), b=_row("1/2 1/2"), b_low=_row("1 0")),
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
    Scheme(
        "dopri87",
        a=(
            (),
            _summing("1/18", ""),
            _summing("1/12", "1/16"),
            _summing("1/8", "0 3/32"),
            _summing("5/16", "0 -75/64 75/64"),
            _summing("3/8", "0 0 3/16 3/20"),
            _summing("59/400", "0 0 77736538/692538347 -28693883/1125000000 23124283/1800000000"),
            _summing("93/200", "0 0 61564180/158732637 22789713/633445777 545815736/2771057229 -180193667/1043307555"),
            _summing(
                "5490023248/9719169821",
                "0 0 -433636366/683701615 -421739975/2616292301 100302831/723423059 790204164/839813087 "
                "800635310/3783071287",
            ),
            _summing(
                "13/20",
                "0 0 -37695042795/15268766246 -309121744/1061227803 -12992083/490766935 "
                "6005943493/2108947869 393006217/1396673457 123872331/1001029789",
            ),
            _summing(
                "1201146811/1299019798",
                "0 0 8478235783/508512852 1311729495/1432422823 -10304129995/1701304382 "
                "-48777925059/3047939560 15336726248/1032824649 -45442868181/3398467696 "
                "3065993473/597172653",
            ),
            _summing(
                1,
                "0 0 -3185094517/667107341 -477755414/1098053517 -703635378/230739211 "
                "5731566787/1027545527 5232866602/850066563 -4093664535/808688257 3962137247/1805957418 "
                "65686358/487910083",
            ),
            _summing(
                1,
                "0 0 -5068492393/434740067 -411421997/543043805 652783627/914296604 11173962825/925320556 "
                "-13158990841/6184727034 3936647629/1978049680 -160528059/685178525 248638103/1413531060 "
                "0",
            ),
            _summing(
                1,
                "0 0 0 0 -59238493/1068277825 181606767/758867731 561292985/797845732 "
                "-1041891430/1371343529 760417239/1151165299 118820643/751138087 -528747749/2220607170 "
                "1/4",
            ),
        ),
        b=_summing(
            1,
            "0 0 0 0 -59238493/1068277825 181606767/758867731 561292985/797845732 "
            "-1041891430/1371343529 760417239/1151165299 118820643/751138087 -528747749/2220607170 "
            "1/4 0",
        ),
        b_low=_summing(
            1,
            "0 0 0 0 -808719846/976000145 1757004468/5645159321 656045339/265891186 "
            "-3867574721/1518517206 465885868/322736535 53011238/667516719 2/45 0 0",
        ),
    ),
)
for _scheme in _TABLE:
    SCHEMES.add(_scheme.name, _scheme)


def fixed_schemes() -> list[str]:
    return [name for name in SCHEMES if not SCHEMES[name].is_adaptive]
