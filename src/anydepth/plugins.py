"""Parts and commands of others: packages by the entry point group `anydepth.plugins`, and modules by `--import`.

A package that adds something says so in its pyproject.toml:

    [project.entry-points."anydepth.plugins"]
    mine = "my_package.plugin"

The module `my_package.plugin` says where its parts are, by kind; it should import nothing itself:

    PARTS = {"unit": "my_package.units", "recipe": "my_package.recipes", "command": "my_package.commands"}
    LISTS = {"experiments": "my_package.experiments:EXPERIMENTS"}

All modules of such a package are imported when a part of that kind is looked up that anydepth does not have, or when
all of them are listed; they register themselves as anydepth's own do. A module of commands has a function
`register(app)`. `LISTS` are registries of the package's own, which `anydepth list` shows. An entry point may also name
a function, which is called, or a module without `PARTS`, which is imported: then everything is registered at once. Such
a module, as one of `--import`, may have a function `register(app)` for its commands.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from pkgutil import iter_modules
from threading import RLock
from types import ModuleType
from typing import Any, TypeVar
from warnings import warn

from anydepth.errors import AnydepthWarning, ConfigError, PluginError

GROUP = "anydepth.plugins"
ELSEWHERE = {
    "command": dict.fromkeys(("reproduce", "campaign", "bench"), "papers"),
    "dataset": {"landscape": "papers", "wave": "papers"},
    "model": {"anode": "papers"},
    "net": {"cifar10-*": "papers"},
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


def origin_of(module: ModuleType) -> str:
    """What a module of commands came by, as errors name it."""
    for (name, kind), found in _found.items():
        if kind == "command" and isinstance(found, list) and module in found:
            return f"plugin {name!r}, module {module.__name__}"
    return f"--import {module.__name__}"


def lists() -> dict[str, Any]:
    """Registries of the plugins' own, by title."""
    found = {}
    for entry in _entries():
        try:
            found |= _guarded(entry, lambda entry=entry: _lists(_plugin(entry)))
        except PluginError as error:
            warn(str(error), AnydepthWarning, stacklevel=2)
    return found


def _lists(plugin: object) -> dict[str, Any]:
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


def load_plugins(modules: Iterable[str]) -> list[ModuleType]:
    """Import modules that register parts: names as Python imports them, also from here, or paths of .py files."""
    return [_loaded(name) for name in modules]


def _loaded(name: str) -> ModuleType:
    try:
        return _from_file(Path(name)) if name.endswith(".py") else _by_name(name)
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(f"--import {name}: {type(error).__name__}: {error}; --debug shows where") from error


def _by_name(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise ConfigError(f"--import takes the name of a module, or the path of a .py file, got {name!r}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise ConfigError(f"--import {name}: no such module here or installed; name it, or a .py file") from None


def _from_file(path: Path) -> ModuleType:
    """A file as the module of its name, once."""
    place = path.expanduser().resolve()
    known = sys.modules.get(place.stem)
    if known is not None:
        if getattr(known, "__file__", None) == str(place):
            return known
        raise ConfigError(f"--import {path}: there is a module {place.stem!r} already; rename the file")
    if not place.is_file():
        raise ConfigError(f"--import {path}: no such file")
    spec = spec_from_file_location(place.stem, place)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[place.stem] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[place.stem]
        raise
    return module


@cache
def _entries() -> tuple[EntryPoint, ...]:
    return tuple(sorted(entry_points(group=GROUP), key=lambda entry: entry.name))


def _modules(entry: EntryPoint, kind: str) -> list[ModuleType]:
    key = entry.name, kind
    with _lock:
        if key not in _found:
            _found[key] = []
            try:
                _found[key] = _guarded(entry, lambda: _imported(entry, kind))
            except PluginError as error:
                _found[key] = error
            except BaseException:
                del _found[key]
                raise
        found = _found[key]
    if isinstance(found, PluginError):
        raise found
    return found


def _imported(entry: EntryPoint, kind: str) -> list[ModuleType]:
    plugin, package = _plugin(entry), _parts(entry).get(kind)
    if package is not None:
        return _all_of(package)
    if kind == "command" and isinstance(plugin, ModuleType) and hasattr(plugin, "register"):
        return [plugin]
    return []


def _parts(entry: EntryPoint) -> Mapping[str, str]:
    parts = getattr(_plugin(entry), "PARTS", {})
    if not isinstance(parts, Mapping):
        raise PluginError(f"plugin {entry.name!r}: PARTS is {parts!r:.60}, expected packages by kind of part")
    return parts


def _all_of(package: str) -> list[ModuleType]:
    found = import_module(package)
    return [import_module(f"{package}.{module.name}") for module in iter_modules(found.__path__)]


@cache
def _plugin(entry: EntryPoint) -> object:
    """What an entry point names, loaded once; a function is called."""

    def load() -> object:
        plugin = entry.load()
        return plugin() if callable(plugin) else plugin

    return _guarded(entry, load)


Found = TypeVar("Found")


def _guarded(entry: EntryPoint, work: Callable[[], Found]) -> Found:
    """The result of a plugin's own code; whatever goes wrong in it names the plugin."""
    try:
        return work()
    except PluginError:
        raise
    except Exception as error:
        package = entry.dist.name if entry.dist is not None else entry.value
        what = f"plugin {entry.name!r} of {package} cannot be loaded: {type(error).__name__}: {error}"
        raise PluginError(f"{what}; fix or uninstall {package}") from error
