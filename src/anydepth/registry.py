"""Named parts, found by importing the package that holds them: a new part is one new file."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from inspect import signature
from pkgutil import iter_modules
from types import UnionType
from typing import Generic, TypeVar, get_args, get_origin
from warnings import warn

from anydepth import plugins
from anydepth.errors import AnydepthWarning, ConfigError, PluginError, choices

T = TypeVar("T")
Part = TypeVar("Part")
_FROM_JSON = (bool, int, float, str, list, tuple, dict, type(None))


class UnknownPartError(ConfigError):
    """There is no part of this name."""


class Registry(Generic[T]):
    """Maps names to parts of one kind.

    With `package`, every module of that package is imported at the first look-up, so a part
    registers itself by existing. Plugins are asked only for names that are not found so, and for the list of all names:
    one that is broken stops nobody who does not need it. `check(name, part)` refuses what is no such part.
    """

    def __init__(self, kind: str, package: str | None = None, check: Callable[[str, object], None] | None = None):
        self.kind = kind
        self._check = check
        self._added_by: dict[str, str] = {}
        self._package = package
        self._parts: dict[str, T] = {}

    def add(self, name: str, part: T) -> T:
        """Register a part under a name that is not taken, and return it."""
        if name in self._parts:
            raise ConfigError(f"{self.kind} {name!r} is registered twice; give one of them another name")
        if self._check is not None:
            self._check(name, part)
        self._parts[name], self._added_by[name] = part, _caller()
        return part

    def register(self, name: str) -> Callable[[Part], Part]:
        """Decorator form of `add`; the part keeps its own type."""

        def added(part: Part) -> Part:
            self.add(name, part)  # pyright: ignore[reportArgumentType]
            return part

        return added

    def __getitem__(self, name: str) -> T:
        if name not in self:
            elsewhere = plugins.where_else(self.kind, name)
            raise UnknownPartError(elsewhere or f"unknown {self.kind} {name!r}; {choices(name, self._parts)}")
        return self._parts[name]

    def module_of(self, name: str) -> str:
        """The module of a class or function; of another object, the one that added it."""
        part = self[name]
        return part.__module__ if hasattr(part, "__qualname__") else self._added_by[name]

    def __contains__(self, name: object) -> bool:
        self._discover()
        if isinstance(name, str) and name not in self._parts:
            plugins.modules_of(self.kind)  # importing registers
        return isinstance(name, str) and name in self._parts

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def names(self) -> list[str]:
        self._discover()
        try:
            plugins.modules_of(self.kind)
        except PluginError as error:
            warn(str(error), AnydepthWarning, stacklevel=2)
        return sorted(self._parts)

    def _discover(self) -> None:
        if self._package:
            for module in iter_modules(import_module(self._package).__path__):
                import_module(f"{self._package}.{module.name}")
            self._package = None


def _caller() -> str:
    """The module that called into this one."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__") == __name__:
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", ""))


def check_options(what: str, make: Callable, options: Mapping[str, object], given: int = 0) -> None:
    """Refuse options that a callable does not take by name, before it is called; the first `given` are not options."""
    taken = dict(list(signature(make).parameters.items())[given:])
    for name, value in options.items():
        if name not in taken:
            raise ConfigError(f"{what} has no option {name!r}; {choices(name, taken)}")
        kinds = _plain_kinds(taken[name].annotation) if isinstance(value, _FROM_JSON) else ()
        found = list if type(value) is tuple else type(value)
        if kinds and found not in kinds and not (type(value) is int and float in kinds):
            expected = " or ".join(_IN_WORDS[kind] for kind in kinds)
            raise ConfigError(f"option {name!r} of {what} is {value!r:.60}, expected {expected}")


def _plain_kinds(annotation: object) -> tuple[type, ...]:
    """The types of a parameter as JSON has them, if all of them have such a type, else none."""
    kinds: tuple[object, ...] = get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)
    plain = [_JSON_KINDS.get(get_origin(kind) or kind) for kind in kinds]
    return tuple(kind for kind in plain if kind is not None) if None not in plain else ()


_IN_WORDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    list: 'a list such as ["a", "b"] or [1, 2]',
    dict: 'a mapping such as {"a": 1}',
    type(None): "null",
}
_JSON_KINDS: dict[object, type] = {
    **{kind: kind for kind in (bool, int, float, str, list, dict, type(None))},
    Sequence: list,
    tuple: list,
    Mapping: dict,
}
