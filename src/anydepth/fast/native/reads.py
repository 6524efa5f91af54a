"""What a unit's code reads besides its arguments, followed from `forward`: globals, cells, classes, modules, objects.

Whatever is reached and can be told apart by identity is noted. What can change without that (a list, a tensor) makes
the unit one that is not closed. What may act on its own or on the world (a generator of numbers, a clock, a file,
`print`) is unknown, and a unit that reaches it cannot be traced.
"""

import builtins
import dis
import sys
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cached_property, lru_cache, partial
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    SimpleNamespace,
    WrapperDescriptorType,
)
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from anydepth.executor.follow import ATOMS

_TRUSTED = frozenset({"torch", "math", "cmath", "operator", "_operator", "typing", "functools", "_functools"})
_TRUSTED |= {"itertools", "collections", "builtins", "enum", "abc", "types", "numpy", "dataclasses"}
_OURS = "anydepth.zoo."
"""Where functions and classes come from that read nothing but their arguments and attributes."""
_OUTWARD = frozenset({"print", "open", "input", "breakpoint", "exec", "eval", "globals", "locals", "__import__"})
_DYNAMIC = frozenset({"getattr", "vars", "__dict__"})
"""Names that let code read attributes whose names are not in it."""
_INERT = frozenset(
    {"__init__", "__new__", "__repr__", "__init_subclass__", "__reduce__", "__setstate__", "__getstate__"}
)
"""Methods that no forward pass calls by itself."""
_NEVER_CHANGE = (Enum, np.generic, np.ufunc, torch.finfo, torch.iinfo, torch.memory_format, torch.layout)
_WRAPPERS = (GetSetDescriptorType, MemberDescriptorType, MethodWrapperType)
_USUAL = frozenset(vars(nn.Module()))
_MOST = 500
"""Functions; a unit whose code reaches more is unknown."""

CONTAINERS = (list, dict, set, deque)


class Opaque(Exception):  # noqa: N818
    """Something is reached whose behaviour is unknown."""


class _Code(NamedTuple):
    outside: frozenset[str]
    """Names looked up as globals."""
    names: frozenset[str]
    """All names, and texts that may be one."""
    imports: frozenset[str]
    stores: bool
    """Whether globals are written."""


@lru_cache(maxsize=2_000)
def _read(code: CodeType) -> _Code:
    outside, names, imports, stores = set(), set(code.co_names), set(), False
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            outside.add(step.argval)
        elif step.opname == "IMPORT_NAME":
            imports.add(step.argval)
        stores = stores or step.opname in ("STORE_GLOBAL", "DELETE_GLOBAL")
    for part in code.co_consts:
        if isinstance(part, str):
            names.add(part)
        elif isinstance(part, CodeType):
            inner = _read(part)
            outside, names, imports = outside | inner.outside, names | inner.names, imports | inner.imports
            stores = stores or inner.stores
    return _Code(frozenset(outside), frozenset(names), frozenset(imports), stores)


class Reads:
    """All that the code of a unit may read."""

    def __init__(self, unit: nn.Module):
        self.functions: dict[int, tuple[FunctionType, CodeType, object, object]] = {}
        self.places: list[tuple[dict[str, object], str, object]] = []
        self.cells: list[tuple[CellType, object]] = []
        self.classes: list[type] = []
        self.objects: dict[int, object] = {}
        """Modules of the unit's tree first, then others, and objects of plain classes."""
        self.containers: list[Any] = []
        self.is_closed = True
        self.unknown = ""
        self._names: set[str] = {"forward"}
        self._known_classes: set[type] = set()
        self._modules: dict[int, ModuleType] = {}
        self._visited: set[tuple[int, str]] = set()
        try:
            self._add_module(unit)
            while self._go_on():
                pass
        except Opaque as error:
            self.unknown = f"the unit reaches {error!s:.60}, whose behaviour is not known"

    def _go_on(self) -> bool:
        """Visit what has come within reach; whether there was anything."""
        before = len(self._visited)
        for holder in [*self.objects.values(), *self.classes, *self._modules.values()]:
            for name in self._reached(holder):
                if (id(holder), name) not in self._visited:
                    self._visited.add((id(holder), name))
                    value = vars(holder)[name]
                    if isinstance(holder, ModuleType):
                        self.places.append((vars(holder), name, value))
                    self._see(value, name)
        return len(self._visited) > before

    def _reached(self, holder: object) -> Iterator[str]:
        is_module, is_class = isinstance(holder, ModuleType), isinstance(holder, type)
        every = not is_module and not self._names.isdisjoint(_DYNAMIC)
        for name in tuple(vars(holder)) if every or is_class else tuple(self._names & vars(holder).keys()):
            if isinstance(holder, nn.Module) and name in _USUAL:
                continue
            if is_class and _is_dunder(name) and name not in self._names:
                if name not in _INERT and isinstance(vars(holder)[name], FunctionType):
                    yield name
            elif every or name in self._names:
                yield name

    def _see(self, value: object, name: str) -> None:
        if type(value) in ATOMS or value is Ellipsis or value is NotImplemented or isinstance(value, _NEVER_CHANGE):
            return
        if isinstance(value, FunctionType):
            self._see_function(value)
        elif isinstance(value, nn.Module):
            self._add_module(value)
        elif isinstance(value, ModuleType):
            if _root(value.__name__) not in _TRUSTED or _root(value.__name__) == "numpy":
                self._modules.setdefault(id(value), value)
        elif isinstance(value, type):
            self._see_class(value)
        elif isinstance(value, torch.Tensor | np.ndarray):
            self.is_closed = False
        elif type(value) in (tuple, frozenset, torch.Size, slice) or isinstance(value, CONTAINERS):
            self._see_container(value, name)
        else:
            self._see_callable(value, name)

    def _see_container(self, value: Any, name: str) -> None:
        if type(value) not in (tuple, frozenset, torch.Size, slice, *CONTAINERS, OrderedDict):
            raise Opaque(name)  # a class of its own, with methods of its own
        if isinstance(value, CONTAINERS):
            self.is_closed = False
            if any(held is value for held in self.containers):
                return
            self.containers.append(value)
        parts = (value.start, value.stop, value.step) if isinstance(value, slice) else value
        for part in [*parts, *parts.values()] if isinstance(parts, Mapping) else list(parts):
            self._see(part, name)

    def _see_callable(self, value: object, name: str) -> None:
        if isinstance(value, MethodType):
            parts = value.__func__, value.__self__
        elif isinstance(value, partial):
            parts = value.func, value.args, *value.keywords.values()
        elif isinstance(value, property):
            parts = (value.fget,)
        elif isinstance(value, staticmethod | classmethod):
            parts = (value.__func__,)
        elif isinstance(value, cached_property):
            parts = (value.func,)
        elif isinstance(value, _WRAPPERS) or _is_pure(value):
            parts = ()
        elif _is_plain_object(value):
            parts = (type(value),)
            self.objects.setdefault(id(value), value)
        else:
            raise Opaque(name)
        for part in parts:
            self._see(part, name)

    def _see_function(self, function: FunctionType) -> None:
        if id(function) in self.functions or _is_trusted(function.__module__):
            return
        code = _read(function.__code__)
        self.functions[id(function)] = (function, function.__code__, function.__defaults__, function.__kwdefaults__)
        if len(self.functions) > _MOST or code.stores:
            raise Opaque(function.__qualname__)
        self._names |= code.names
        for name in code.outside:
            self._see_global(function.__globals__, name)
        for name in code.imports:
            if name not in sys.modules:
                raise Opaque(name)
            self._see(sys.modules[name], name)
        for cell in function.__closure__ or ():
            try:
                self.cells.append((cell, cell.cell_contents))
            except ValueError:
                raise Opaque(function.__qualname__) from None
            self._see(cell.cell_contents, function.__qualname__)
        for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            self._see(value, function.__qualname__)

    def _see_global(self, space: dict[str, object], name: str) -> None:
        if name in space:
            self.places.append((space, name, space[name]))
            self._see(space[name], name)
        elif name in _OUTWARD or not hasattr(builtins, name):
            raise Opaque(name)

    def _see_class(self, kind: type) -> None:
        if kind in self._known_classes:
            return
        self._known_classes.add(kind)
        for base in kind.__mro__:
            if not _is_trusted(base.__module__):
                if not base.__flags__ & _HEAP:
                    raise Opaque(base.__qualname__)
                if base not in self.classes:
                    self.classes.append(base)

    def _add_module(self, module: nn.Module) -> None:
        for part in module.modules():
            if id(part) not in self.objects:
                self.objects[id(part)] = part
                self._see_class(type(part))


_HEAP = 1 << 9
"""Of classes that are made by a statement of Python."""


def _root(module: str) -> str:
    return module.partition(".")[0]


def _is_trusted(module: str | None) -> bool:
    return module is not None and (_root(module) in _TRUSTED or module.startswith(_OURS))


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _is_pure(value: object) -> bool:
    """Whether something callable in C is known to depend on its arguments alone."""
    if isinstance(value, MethodDescriptorType | WrapperDescriptorType):
        return _is_trusted(value.__objclass__.__module__)
    if isinstance(value, BuiltinFunctionType):
        owner = value.__self__
        if owner is None:
            return _is_trusted(value.__module__)
        if isinstance(owner, ModuleType):
            return _is_trusted(owner.__name__) and value.__name__ not in _OUTWARD
        return _is_trusted(owner.__module__) if isinstance(owner, type) else type(owner) in ATOMS
    return type(value).__name__ == "_ArrayFunctionDispatcher" or _root(type(value).__module__) == "typing"


def _is_plain_object(value: object) -> bool:
    """Whether an object is of a class of Python's own making whose state is its attributes."""
    kinds = type(value).__mro__[:-1]
    return type(value) is SimpleNamespace or (
        hasattr(value, "__dict__") and all(k.__flags__ & _HEAP and not _is_trusted(k.__module__) for k in kinds)
    )
