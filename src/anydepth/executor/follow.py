"""References from a module's attributes back into its own tree, and the same attributes for an image of the tree.

A bound method, a closure over `self`, a partial, a list of layers or a back-reference leads from an attribute to
modules of the same tree. In an image of the tree they must lead to the image's modules. Attributes that do not lead
back are shared: what a unit appends to a list in its forward pass is in the list that the user holds.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping, Set
from copy import copy
from functools import partial
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType, NoneType
from typing import Any
from weakref import ref

import numpy as np
import torch
from torch import Tensor, fx

ATOMS = frozenset({int, float, bool, str, bytes, complex, NoneType, torch.dtype, torch.device, torch.Size})
"""Types of values that lead nowhere."""

MUTABLE = frozenset({dict, OrderedDict, list, set})
"""Types of containers whose contents may change."""

_CONTAINERS = MUTABLE | {tuple}
_STOPS = (Tensor, ModuleType, type, np.ndarray, BuiltinFunctionType, CodeType, torch.Generator, fx.Graph)
MOST = 10_000
"""A container with more entries is data, not structure, and is not searched."""

Homes = Mapping[int, object]
"""By identity: what takes the place of an object."""


def followed(value: object, homes: Homes) -> object:
    """The value, leading to other objects instead of those in `homes`; the value itself if it leads to none."""
    if is_plain(value):
        return value
    leading = _leading(value, homes)
    return _Rebuilt(homes, leading)(value) if leading else value


def is_plain(value: Any) -> bool:
    """Whether a value leads nowhere at first sight, as most attributes of most modules do."""
    kind = type(value)
    if kind in ATOMS:
        return True
    if kind in _CONTAINERS:
        return not value or (kind is not dict and kind is not OrderedDict and all(type(v) in ATOMS for v in value))
    if kind is FunctionType:
        return not (value.__closure__ or value.__defaults__ or value.__kwdefaults__ or vars(value))
    return kind is BuiltinFunctionType


def leads_to(value: object, homes: Homes, stops: set[int]) -> bool:
    """Whether one of the objects can be reached from a value without passing through one of the stops."""
    return type(value) not in ATOMS and bool(_leading(value, homes, stops))


def _leading(root: object, homes: Homes, stops: Set[int] = frozenset()) -> set[int]:
    """The identities of all objects on a way from the value to one in `homes`; none if there is no way."""
    if id(root) in homes:
        return {id(root)}
    holders: dict[int, list[int]] = {}
    todo, seen, found = [root], {id(root)}, set()
    while todo:
        holder = todo.pop()
        for part in _contents(holder):
            if type(part) in ATOMS:
                continue
            holders.setdefault(id(part), []).append(id(holder))
            if id(part) in homes:
                found.add(id(part))
            elif id(part) not in seen and id(part) not in stops:
                seen.add(id(part))
                todo.append(part)
    return _upward(found, holders)


def _upward(found: set[int], holders: dict[int, list[int]]) -> set[int]:
    leading, todo = set(found), list(found)
    while todo:
        for holder in holders.get(todo.pop(), ()):
            if holder not in leading:
                leading.add(holder)
                todo.append(holder)
    return leading


def _contents(value: object) -> Iterator[object]:
    """What a value holds, as far as it can be called or read through it."""
    if isinstance(value, _STOPS) or type(value).__module__.startswith("torch._dynamo"):
        return
    if isinstance(value, (dict, list, tuple, set, frozenset, deque)):
        if len(value) <= MOST:
            yield from value
            yield from value.values() if isinstance(value, dict) else ()
    elif isinstance(value, MethodType):
        yield value.__self__
    elif isinstance(value, FunctionType):
        yield from value.__closure__ or ()
        yield from (value.__defaults__, value.__kwdefaults__, vars(value))
    elif isinstance(value, CellType):
        yield from _inside(value)
    elif isinstance(value, partial):
        yield from (value.func, value.args, value.keywords)
    elif isinstance(value, ref):
        yield value()
    yield from _attributes(value).values()


def _inside(cell: CellType) -> tuple[object, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:  # nothing has been put into it yet
        return ()


def _attributes(value: object) -> dict[str, object]:
    """What an object keeps in its dictionary and its slots."""
    if isinstance(value, (FunctionType, partial, ref)):
        return {}
    slots = [name for kind in type(value).__mro__ for name in _names(vars(kind).get("__slots__", ()))]
    kept = {name: getattr(value, name) for name in slots if name != "__dict__" and hasattr(value, name)}
    return {**getattr(value, "__dict__", {}), **kept}


def _names(slots: str | Iterable[str]) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


class _Rebuilt:
    """Copies of all objects that lead to others, made once each; mutable ones before what they hold, for cycles."""

    def __init__(self, homes: Homes, leading: set[int]):
        self.homes, self.leading, self.done = homes, leading, {}

    def __call__(self, value: Any) -> Any:
        if id(value) in self.homes:
            return self.homes[id(value)]
        if id(value) not in self.leading:
            return value
        if id(value) not in self.done:
            self.done[id(value)] = self._made(value)
        return self.done[id(value)]

    def _made(self, value: object) -> object:
        if isinstance(value, MethodType):
            return MethodType(value.__func__, self(value.__self__))
        if isinstance(value, partial):
            return partial(self(value.func), *map(self, value.args), **{k: self(v) for k, v in value.keywords.items()})
        if isinstance(value, ref):
            return ref(self(value()))
        if isinstance(value, (tuple, frozenset)):
            items = [self(part) for part in value]
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)  # pyright: ignore
        if isinstance(value, FunctionType):
            return self._function(value)
        return self._filled(value)

    def _function(self, value: FunctionType) -> FunctionType:
        cells = tuple(self(cell) for cell in value.__closure__ or ())
        made = FunctionType(value.__code__, value.__globals__, value.__name__, self(value.__defaults__), cells or None)
        self.done[id(value)] = made
        made.__kwdefaults__ = self(value.__kwdefaults__)
        vars(made).update({name: self(part) for name, part in vars(value).items()})
        return made

    def _filled(self, value: Any) -> Any:
        """A copy that is noted first and filled then."""
        if isinstance(value, CellType):
            made = self.done[id(value)] = CellType()
            made.cell_contents = self(value.cell_contents)
            return made
        made = self.done[id(value)] = copy(value)
        if isinstance(value, dict):
            made.clear()
            made.update({self(key): self(part) for key, part in value.items()})
        elif isinstance(value, (list, set, deque)):
            made.clear()
            made.extend(map(self, value)) if not isinstance(value, set) else made.update(map(self, value))
        for name, part in _attributes(value).items():
            if id(part) in self.leading:
                object.__setattr__(made, name, self(part))
        return made
