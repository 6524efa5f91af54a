"""Whether a unit is still what it was when it was traced.

A guard notes every attribute and child of every module, and all that the unit's code reads from outside (`reads.py`).
If that has parts that can change unseen (a list, a dictionary, a tensor), the guard is not closed: the program is found
anew in every pass.
"""

from collections.abc import Callable, Collection, Mapping
from copy import copy
from operator import is_
from typing import Any

from torch import nn

from anydepth.fast.native.reads import Reads


class Guard:
    """What a unit was at one moment."""

    def __init__(self, unit: nn.Module):
        reads = Reads(unit)
        self.is_closed, self.unknown = reads.is_closed and not reads.unknown, reads.unknown
        objects = tuple(reads.objects.values())
        self.modules = tuple(part for part in objects if isinstance(part, nn.Module))
        self._attributes = [(own := vars(part), tuple(own.values()), len(own)) for part in objects]
        self._names = [tuple(vars(part)) for part in objects]
        self._children = [(part._modules, tuple(part._modules.values())) for part in self.modules]
        self._forwards = list({type(part): type(part).forward for part in self.modules}.items())
        self._functions, self._places, self._cells = tuple(reads.functions.values()), reads.places, reads.cells
        self._classes = [(kind, dict(vars(kind))) for kind in reads.classes]
        self._containers = [(held, copy(held)) for held in reads.containers]

    def holds(self) -> bool:
        """Whether nothing has changed that can be told by identity."""
        for own, attributes, number in self._attributes:
            if len(own) != number or not all(map(is_, own.values(), attributes)):
                return False
        for children, was in self._children:
            if not _are_same(children.values(), was):
                return False
        for kind, forward in self._forwards:
            if kind.forward is not forward:
                return False
        return (
            all(space.get(name, self) is value for space, name, value in self._places)
            and all(cell.cell_contents is value for cell, value in self._cells)
            and all(_are_same(vars(kind).values(), was.values()) for kind, was in self._classes)
            and all(
                f.__code__ is code and f.__defaults__ is defaults and f.__kwdefaults__ is named
                for f, code, defaults, named in self._functions
            )
        )

    def undo(self) -> bool:
        """Put back what a call of the unit has changed (globals, class attributes, lists, ...); whether it did."""
        changed = [(now, was) for now, was in self._containers if not _is_same(now, was)]
        for now, was in changed:
            now.clear()
            now.extend(was) if hasattr(now, "extend") else now.update(was)
        if self.holds():
            return bool(changed)
        for space, name, value in self._places:
            space[name] = value
        for cell, value in self._cells:
            cell.cell_contents = value
        for (own, values, _), names in zip(self._attributes, self._names, strict=True):
            _put_back(own, dict(zip(names, values, strict=True)), own.__setitem__, own.__delitem__)
        for kind, was in self._classes:
            _put_back(vars(kind), was, lambda n, v, k=kind: setattr(k, n, v), lambda n, k=kind: delattr(k, n))
        return True


def _are_same(now: Collection[object], was: Collection[object]) -> bool:
    return len(now) == len(was) and all(map(is_, now, was))


def _is_same(now: Any, was: Any) -> bool:
    """Whether two containers of a kind hold the same objects."""
    if isinstance(now, Mapping):
        return _are_same(now.values(), was.values())
    return now == was if isinstance(now, set) else _are_same(now, was)


def _put_back(
    now: Mapping[str, object],
    was: dict[str, object],
    put: Callable[[str, object], None],
    remove: Callable[[str], None],
) -> None:
    for name in [name for name in now if name not in was]:
        remove(name)
    for name, value in was.items():
        if now.get(name) is not value:
            put(name, value)
