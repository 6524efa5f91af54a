"""The forms that a trained model can be given: every (basis, size, steps, scheme) of a grid."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from torch import nn

from anydepth.depth.bases import BASES, ladder
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

    sizes: dict[str, tuple[int, ...]]
    """Of every basis."""
    steps: tuple[int, ...]
    schemes: tuple[str, ...]

    def candidates(self) -> list[Form]:
        """By basis, the largest first."""
        kinds = ((basis, size) for basis, sizes in self.sizes.items() for size in sizes)
        return [Form(*kind, *way) for kind, way in product(kinds, product(self.steps, self.schemes))]


def axes_of(
    model: nn.Module,
    bases: Sequence[str] | None = None,
    sizes: Sequence[int] | None = None,
    steps: Sequence[int] | None = None,
    schemes: Sequence[str] | None = None,
) -> Axes:
    """What was asked for; else the model's own basis, its size down the ladder of nested sizes (all of them where there
    are few), its steps halved to 1, its scheme and simpler ones."""
    own = form_of(model)
    chosen = tuple(dict.fromkeys(bases or (own.basis,)))
    for name in chosen:
        if name != MIXED:
            BASES[name]
    return Axes(
        {basis: _counts("size", sizes or _smaller(basis, own.size)) for basis in chosen},
        _counts("steps", steps or _halved(own.steps or STEPS_WITHOUT_GRID)),
        _fixed(schemes) if schemes else _simpler(model),
    )


def _smaller(basis: str, size: int) -> Sequence[int]:
    """Down to 1: the nested sizes of a basis; halves where every tensor has its own."""
    return _halved(size) if basis == MIXED else ladder(basis, size)


def _halved(count: int) -> list[int]:
    """count, count / 2, ..., 1."""
    found = [count]
    while found[-1] > 1:
        found.append(found[-1] // 2)
    return found


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
                f"scheme {name!r} is adaptive, and a sweep needs fixed steps; "
                f"expected some of {', '.join(fixed_schemes())}"
            )
    return tuple(dict.fromkeys(names))


def _counts(what: str, values: Sequence[int]) -> tuple[int, ...]:
    for value in values:
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ConfigError(f"{what} of a sweep must be whole numbers of at least 1, got {value!r}")
    return tuple(sorted(set(values), reverse=True))
