"""The forms that a trained model can be given: every (basis, size, steps, scheme) of a grid."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from torch import nn

from anydepth.depth.bases import BASES
from anydepth.depth.schemes import SCHEMES, fixed_schemes
from anydepth.errors import ConfigError
from anydepth.surgery.blocks import blocks_of
from anydepth.surgery.forms import MIXED, Form, form_of

STEPS_WITHOUT_GRID = 8
"""Where an adaptive scheme chose its own steps, those to begin with."""
BY_ORDER = {1: "euler", 2: "midpoint", 4: "rk4"}
"""The scheme that stands for an order."""


@dataclass(frozen=True)
class Axes:
    """What a grid of candidates is made of."""

    bases: tuple[str, ...]
    sizes: tuple[int, ...]
    steps: tuple[int, ...]
    schemes: tuple[str, ...]

    def candidates(self) -> list[Form]:
        """The largest first."""
        return [Form(*point) for point in product(self.bases, self.sizes, self.steps, self.schemes)]


def axes_of(
    model: nn.Module,
    bases: Sequence[str] | None = None,
    sizes: Sequence[int] | None = None,
    steps: Sequence[int] | None = None,
    schemes: Sequence[str] | None = None,
) -> Axes:
    """What was asked for; else the model's own basis, its size and steps halved to 1, its scheme and simpler ones."""
    own = form_of(model)
    chosen = tuple(dict.fromkeys(bases or (own.basis,)))
    for name in chosen:
        if name != MIXED:
            BASES[name]
    return Axes(
        chosen,
        _counts("size", sizes or _halved(own.size, chosen)),
        _counts("steps", steps or _halved(own.steps or STEPS_WITHOUT_GRID)),
        _fixed(schemes) if schemes else _simpler(model),
    )


def _halved(count: int, bases: Sequence[str] = ()) -> list[int]:
    """count, count / 2, ..., 1; a size that a basis does not have is one less."""
    found = [count]
    while found[-1] > 1:
        half = found[-1] // 2
        found.append(half if _exists(half, bases) else half - 1)
    return found


def _exists(size: int, bases: Sequence[str]) -> bool:
    try:
        for name in bases:
            if name != MIXED:
                BASES[name](size)
    except ConfigError:
        return False
    return True


def _simpler(model: nn.Module) -> tuple[str, ...]:
    """The model's own scheme where it is fixed, and one of every lower order; for an adaptive one, up to its order."""
    own = {block.scheme.name for block in blocks_of(model).values()}
    order = max(SCHEMES[name].order for name in own)
    fixed = {SCHEMES[name].order: name for name in own if not SCHEMES[name].is_adaptive}
    known = {o: name for o, name in BY_ORDER.items() if o <= order} | fixed
    return tuple(known[o] for o in sorted(known, reverse=True))


def _fixed(names: Sequence[str]) -> tuple[str, ...]:
    for name in names:
        if SCHEMES[name].is_adaptive:
            raise ConfigError(
                f"scheme {name!r} chooses its own steps, so a sweep has no place for it; "
                f"expected some of {', '.join(fixed_schemes())}"
            )
    return tuple(dict.fromkeys(names))


def _counts(what: str, values: Sequence[int]) -> tuple[int, ...]:
    for value in values:
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ConfigError(f"{what} of a sweep must be whole numbers of at least 1, got {value!r}")
    return tuple(sorted(set(values), reverse=True))
