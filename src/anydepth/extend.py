"""What code of your own builds on: the registries, their contracts, and loading the modules that add to them.

The names are those of docs/extending.md. They stay here, whatever room they live in.
"""

import sys
from collections.abc import Iterable
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from anydepth.errors import ConfigError

if TYPE_CHECKING:
    from anydepth.block.block import ContinuousBlock
    from anydepth.data.images import Images
    from anydepth.data.records import Fields, Records
    from anydepth.data.source import SOURCES, Part, Source
    from anydepth.data.vectors import Vectors
    from anydepth.recipes import RECIPES
    from anydepth.train.config import RunConfig, read_config
    from anydepth.train.control.choose import CONTROLLERS
    from anydepth.train.control.controller import Clock, Controller, Decision, Solvers
    from anydepth.train.control.probe import Probe
    from anydepth.train.growth import RULES, Growth
    from anydepth.zoo.parts import MODELS, UNITS

_WHERE = {
    "CONTROLLERS": "train.control.choose",
    "Clock": "train.control.controller",
    "ContinuousBlock": "block.block",
    "Controller": "train.control.controller",
    "Decision": "train.control.controller",
    "Fields": "data.records",
    "Growth": "train.growth",
    "Images": "data.images",
    "MODELS": "zoo.parts",
    "Part": "data.source",
    "Probe": "train.control.probe",
    "RECIPES": "recipes",
    "RULES": "train.growth",
    "Records": "data.records",
    "RunConfig": "train.config",
    "SOURCES": "data.source",
    "Solvers": "train.control.controller",
    "Source": "data.source",
    "UNITS": "zoo.parts",
    "Vectors": "data.vectors",
    "read_config": "train.config",
}

__all__ = [
    "CONTROLLERS", "Clock", "ContinuousBlock", "Controller", "Decision", "Fields", "Growth", "Images", "MODELS", "Part",
    "Probe", "RECIPES", "RULES", "Records", "RunConfig", "SOURCES", "Solvers", "Source", "UNITS", "Vectors",
    "load_plugins", "read_config",
]  # fmt: skip


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


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'anydepth.extend' has no attribute {name!r}")
    return getattr(import_module(f"anydepth.{_WHERE[name]}"), name)
