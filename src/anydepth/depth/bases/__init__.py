"""Bases for functions of depth: one file per family, found by the registry."""

from collections.abc import Iterable

from anydepth.depth.bases.base import Basis
from anydepth.depth.times import TimeLike, exact
from anydepth.errors import ConfigError
from anydepth.registry import Registry

BASES: Registry[type[Basis]] = Registry("basis", package=__name__ + ".families")

__all__ = ["BASES", "Basis", "make_basis", "read_basis"]


def make_basis(name: str, size: int | None = None, knots: Iterable[TimeLike] | None = None) -> Basis:
    """The basis called `name` with `size` functions, or on the given knots."""
    family = BASES[name]
    if knots is None:
        return family(1 if size is None else size)
    basis = family.on_knots(tuple(exact(knot) for knot in knots))
    if size is not None and size != basis.size:
        raise ConfigError(f"basis {name!r} on these knots has size {basis.size}, got size {size}; leave size out")
    return basis


def read_basis(description: dict) -> Basis:
    """Inverse of `Basis.describe`."""
    return make_basis(description["basis"], description["size"], description.get("knots"))
