"""Parts and commands that other packages add, found by the entry point group `anydepth.plugins`.

A package that adds something says so in its pyproject.toml:

    [project.entry-points."anydepth.plugins"]
    mine = "my_package.plugin"

The module `my_package.plugin` says where its parts are, by kind; it should import nothing itself:

    PARTS = {"unit": "my_package.units", "recipe": "my_package.recipes", "command": "my_package.commands"}
    LISTS = {"experiments": "my_package.experiments:EXPERIMENTS"}

All modules of such a package are imported when a part of that kind is looked up that anydepth does not have, or when
all of them are listed; they register themselves as anydepth's own do. A module of commands has a function
`register(app)`. `LISTS` are registries of the package's own, which `anydepth list` shows. An entry point may also name
a function, which is called, or a module without `PARTS`, which is imported: then everything is registered at once.
"""

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pkgutil import iter_modules
from threading import RLock
from types import ModuleType
from typing import Any
from warnings import warn

from anydepth.errors import AnydepthWarning, PluginError

GROUP = "anydepth.plugins"
ELSEWHERE = {
    "command": dict.fromkeys(("reproduce", "campaign", "bench"), "papers"),
    "dataset": {"landscape": "papers", "wave": "papers"},
    "model": {"anode": "papers"},
    "recipe": dict.fromkeys(
        ("continuousnet-*", "stateful-*", "proper-*", "anodev2-*", "resnet-cifar10", "wide-resnet-*"), "papers"
    ),
    "unit": dict.fromkeys(("circular_conv", "conv_norm"), "papers"),
}
"""Parts of packages beside this one, by kind and name, and the folder of the package in the repository."""

_found: dict[tuple[str, str], list[ModuleType] | PluginError] = {}
"""Modules by plugin and kind, or why there are none. An entry is made before they are imported: what they look up does
not load them again."""
_lock = RLock()


def modules_of(kind: str) -> list[ModuleType]:
    """The modules in which plugins keep parts of a kind, imported; raises the first error after all were tried."""
    found, errors = [], []
    for entry in _entries():
        try:
            found += _modules(entry, kind)
        except PluginError as error:
            errors.append(error)
    if errors:
        raise errors[0]
    return found


def lists() -> dict[str, Any]:
    """Registries of the plugins' own, by title."""
    found = {}
    for entry in _entries():
        try:
            found |= _guarded(entry, lambda entry=entry: _lists(_plugin(entry)))
        except PluginError as error:
            warn(str(error), AnydepthWarning, stacklevel=2)
    return found


def _lists(plugin: Any) -> dict[str, Any]:
    places = {title: place.partition(":") for title, place in getattr(plugin, "LISTS", {}).items()}
    return {title: getattr(import_module(module), name) for title, (module, _, name) in places.items()}


def where_else(kind: str, name: object) -> str:
    """How to get a part that is known to be in another package; empty if it is not, or the package is installed."""
    installed = {entry.name for entry in _entries()}
    for pattern, package in ELSEWHERE.get(kind, {}).items():
        if package not in installed and fnmatchcase(str(name), pattern):
            return (
                f"{kind} {name!r} is in the package anydepth-{package}, which is not installed; "
                f"in anydepth's repository run: pip install -e {package}"
            )
    return ""


@cache
def _entries() -> tuple[EntryPoint, ...]:
    return tuple(sorted(entry_points(group=GROUP), key=lambda entry: entry.name))


def _modules(entry: EntryPoint, kind: str) -> list[ModuleType]:
    key = entry.name, kind
    with _lock:
        if key not in _found:
            _found[key] = []
            try:
                package = _parts(entry).get(kind)
                _found[key] = _guarded(entry, lambda: _all_of(package)) if package else []
            except PluginError as error:
                _found[key] = error
        found = _found[key]
    if isinstance(found, PluginError):
        raise found
    return found


def _parts(entry: EntryPoint) -> Mapping[str, str]:
    parts = getattr(_plugin(entry), "PARTS", {})
    if not isinstance(parts, Mapping):
        raise PluginError(f"plugin {entry.name!r}: PARTS is {parts!r:.60}, expected packages by kind of part")
    return parts


def _all_of(package: str) -> list[ModuleType]:
    found = import_module(package)
    return [import_module(f"{package}.{module.name}") for module in iter_modules(found.__path__)]


@cache
def _plugin(entry: EntryPoint) -> Any:
    """What an entry point names, loaded once; a function is called."""

    def load() -> Any:
        plugin = entry.load()
        return plugin() if callable(plugin) else plugin

    return _guarded(entry, load)


def _guarded(entry: EntryPoint, work: Callable[[], Any]) -> Any:
    """The result of a plugin's own code; whatever goes wrong in it names the plugin."""
    try:
        return work()
    except PluginError:
        raise
    except Exception as error:
        package = entry.dist.name if entry.dist is not None else entry.value
        what = f"plugin {entry.name!r} of {package} cannot be loaded: {type(error).__name__}: {error}"
        raise PluginError(f"{what}; mend or uninstall {package}") from error
