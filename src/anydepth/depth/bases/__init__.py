"""Bases for functions of depth: one file per family, found by the registry."""

from collections.abc import Iterable
from functools import cache

import numpy as np

from anydepth.depth.bases.base import Basis
from anydepth.depth.times import TimeLike, exact
from anydepth.errors import ConfigError
from anydepth.registry import Registry


def _check(name: str, part: object) -> None:
    """Refuse what is no basis, before anything is computed with it."""
    base = "anydepth.extend.Basis"
    if not (isinstance(part, type) and issubclass(part, Basis)):
        what = f"the class {part.__name__!r}" if isinstance(part, type) else f"a {type(part).__name__}"
        raise ConfigError(f"basis {name!r} is {what}, expected a subclass of {base}")
    missing = sorted(part.__abstractmethods__)
    if missing:
        raise ConfigError(f"basis {name!r}: class {part.__name__!r} lacks {', '.join(missing)} of {base}")
    own = getattr(part, "name", None)
    if own != name:
        raise ConfigError(
            f"basis {name!r}: class {part.__name__!r} has the name {own!r}, by which files find it; "
            f"write name: ClassVar[str] = {name!r}"
        )


BASES: Registry[type[Basis]] = Registry("basis", package=__name__ + ".families", check=_check)

__all__ = ["BASES", "Basis", "make_basis", "read_basis"]


def make_basis(name: str, size: int | None = None, knots: Iterable[TimeLike] | None = None) -> Basis:
    """The basis called `name` with `size` functions, or on the given knots."""
    family = BASES[name]
    if knots is None:
        basis = family(1 if size is None else size)
        if not family.__module__.startswith(__name__):
            _check_values(basis)
        return basis
    basis = family.on_knots(tuple(exact(knot) for knot in knots))
    if size is not None and size != basis.size:
        raise ConfigError(f"basis {name!r} on these knots has size {basis.size}, got size {size}; leave size out")
    return basis


@cache
def _check_values(basis: Basis) -> None:
    """Refuse a basis of others whose matrix has another shape, or does not determine the coefficients."""
    what, size = f"basis {basis.name!r} of size {basis.size}", basis.size
    values = np.asarray(basis.evaluate(basis.control_points))
    if len(basis.control_points) != size or values.shape != (size, size):
        raise ConfigError(
            f"{what}: evaluate gives shape {values.shape} at its {len(basis.control_points)} control points, "
            f"expected ({size}, {size}): a row for every instant, a column for every function"
        )
    if not np.isfinite(values).all() or np.linalg.matrix_rank(values) < size:
        raise ConfigError(
            f"{what}: its values at the control points do not determine the coefficients; "
            "evaluate(control_points) must be an invertible matrix"
        )


def read_basis(description: dict) -> Basis:
    """Inverse of `Basis.describe`."""
    return make_basis(description["basis"], description["size"], description.get("knots"))


# The sizes that a basis can be brought down to, each inside the one above where the family has such

FEW = 4
"""Up to this size, all sizes are tried."""


def ladder(basis: str, size: int) -> tuple[int, ...]:
    """From the largest size that is not above `size` down to 1: linear 9, 5, 3, 2, 1; constant 8, 4, 2, 1."""
    first = _at_most(basis, size)
    if first <= FEW:
        return tuple(k for k in range(first, 0, -1) if _exists(basis, k))
    found = [first]
    while found[-1] > 1:
        found.append(_below(basis, found[-1]))
    return tuple(found)


def _below(basis: str, size: int) -> int:
    """The size whose next nested size this is; where there is none, half of it or a little less."""
    for smaller in range(size - 1, 0, -1):
        refined = _refined(basis, smaller)
        if refined == size:
            return smaller
        if refined is not None and refined < size:
            break
    return _at_most(basis, size // 2)


def _refined(basis: str, size: int) -> int | None:
    """None where there is no such size, or none that is larger."""
    try:
        return BASES[basis](size).refined().size
    except ConfigError:
        return None


def _at_most(basis: str, size: int) -> int:
    return next(k for k in range(size, 0, -1) if k == 1 or _exists(basis, k))


def _exists(basis: str, size: int) -> bool:
    try:
        BASES[basis](size)
    except ConfigError:
        return False
    return True
