"""Whether a unit is still what it was when it was traced.

A guard notes every attribute and child of every module, the classes' functions, and the plain global values that those
read. If a unit's code reads anything else that could change (a list, a dictionary, an object of another class), it is
not closed: its program is found anew in every pass.
"""

from collections import deque
from collections.abc import Iterator
from copy import copy
from dis import get_instructions
from operator import is_
from types import BuiltinFunctionType, CodeType, FunctionType, MethodDescriptorType, ModuleType
from typing import Any

from torch import nn

from anydepth.executor.follow import ATOMS

_STABLE = (ModuleType, type, BuiltinFunctionType, MethodDescriptorType)
_TRUSTED = ("torch.", "anydepth.zoo.")
"""Where classes come from whose functions read nothing but their arguments and attributes."""
_DEEPEST = 5
_CONTAINERS = (list, dict, set, deque)


class Guard:
    """What a unit was at one moment."""

    def __init__(self, unit: nn.Module):
        self.modules = tuple(unit.modules())
        self._attributes = [tuple(vars(module).values()) for module in self.modules]
        self._children = [tuple(module._modules.values()) for module in self.modules]
        self._forwards = [type(module).forward for module in self.modules]
        self._globals: list[tuple[dict[str, Any], str, Any]] = []
        self._cells: list[tuple[Any, Any]] = []
        self._classes: list[tuple[type, dict[str, Any]]] = []
        self.is_closed = self._is_closed()
        known = [*(v for held in self._attributes for v in held), *(v for *_, v in self._globals)]
        known += [*(v for _, v in self._cells), *(v for _, own in self._classes for v in own.values())]
        self._containers = [(held, copy(held)) for held in known if isinstance(held, _CONTAINERS)]

    def holds(self) -> bool:
        """Whether nothing has changed."""
        for module, attributes, children, forward in zip(
            self.modules, self._attributes, self._children, self._forwards, strict=True
        ):
            own, now = vars(module), module._modules
            if len(own) != len(attributes) or not all(map(is_, own.values(), attributes)):
                return False
            if len(now) != len(children) or not all(map(is_, now.values(), children)):
                return False
            if type(module).forward is not forward:
                return False
        same = all(space.get(name, self) is value for space, name, value in self._globals)
        same = same and all(dict(vars(kind)) == own for kind, own in self._classes)
        return same and all(cell.cell_contents is value for cell, value in self._cells)

    def undo(self) -> bool:
        """Put back what a call of the unit has changed (globals, class attributes, lists, ...); whether it did."""
        changed = [(now, was) for now, was in self._containers if len(now) != len(was) or now != was]
        for now, was in changed:
            now.clear()
            now.extend(was) if isinstance(now, list | deque) else now.update(was)
        is_same = not changed and self.holds()
        if not is_same:
            for space, name, value in self._globals:
                space[name] = value
            for cell, value in self._cells:
                cell.cell_contents = value
            for kind, own in self._classes:
                for name in own:
                    if vars(kind).get(name) is not own[name]:
                        setattr(kind, name, own[name])
        return not is_same

    def _is_closed(self) -> bool:
        has_plain = all(_is_fixed(v) for m in self.modules for k, v in vars(m).items() if not _is_usual(m, k))
        kinds = {type(module) for module in self.modules}
        found = [self._reads_little(kind) for kind in kinds]
        return has_plain and all(found)

    def _reads_little(self, kind: type) -> bool:
        for base in kind.__mro__:
            if base in (object, nn.Module) or base.__module__.startswith(_TRUSTED):
                continue
            self._classes.append((base, dict(vars(base))))
            functions = [_plain(found) for name, found in vars(base).items() if name != "__init__"]
            known = [self._is_known(found, 0) for found in functions if isinstance(found, FunctionType)]
            if not all(known):
                return False
        return True

    def _is_known(self, function: FunctionType, depth: int) -> bool:
        """Whether all that a function reads from outside is noted."""
        if function.__module__ is not None and function.__module__.startswith("torch"):
            return True
        if depth > _DEEPEST:
            return False
        is_known = True
        for name in _names(function.__code__):
            if name in function.__globals__:
                value = function.__globals__[name]
                self._globals.append((function.__globals__, name, value))
                is_known = self._is_stable(value, depth) and is_known
        for cell in function.__closure__ or ():
            try:
                value = cell.cell_contents
            except ValueError:
                return False
            self._cells.append((cell, value))
            is_known = self._is_stable(value, depth) and is_known
        return is_known

    def _is_stable(self, value: Any, depth: int) -> bool:
        if isinstance(value, FunctionType):
            return self._is_known(value, depth + 1)
        return isinstance(value, _STABLE) or type(value) in ATOMS


def _plain(found: Any) -> Any:
    """The function behind a property, a static method or a class method."""
    for name in ("fget", "__func__"):
        found = getattr(found, name, found)
    return found


def _names(code: CodeType) -> Iterator[str]:
    """Global names that a function and those defined in it look up or set."""
    yield from (step.argval for step in get_instructions(code) if step.opname.endswith(("_GLOBAL", "_NAME")))
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _names(part)


_USUAL = frozenset(vars(nn.Module()))


def _is_usual(module: nn.Module, key: str) -> bool:
    """Whether an attribute is one that every module has."""
    return key in _USUAL


def _is_fixed(value: Any) -> bool:
    """Whether a value is the same for ever as long as it is the same object."""
    if isinstance(value, tuple):
        return all(_is_fixed(part) for part in value)
    return type(value) in ATOMS or isinstance(value, nn.Module | BuiltinFunctionType | type)
