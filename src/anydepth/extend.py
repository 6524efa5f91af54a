"""What code of your own builds on: the registries, their contracts, and loading the modules that add to them.

The names are those of docs/extending.md. They stay here, whatever room they live in.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from anydepth.plugins import load_plugins

if TYPE_CHECKING:
    from anydepth.block.block import ContinuousBlock
    from anydepth.data.images import Images
    from anydepth.data.records import Fields, Records
    from anydepth.data.source import SOURCES, Part, Source
    from anydepth.data.vectors import Vectors
    from anydepth.recipes import RECIPES
    from anydepth.runs.config import RunConfig, read_config
    from anydepth.train.control.controller import CONTROLLERS, Clock, Controller, Decision, Solvers
    from anydepth.train.control.probe import Probe
    from anydepth.train.growth import RULES, Growth
    from anydepth.zoo.parts import MODELS, UNITS

_WHERE = {
    "CONTROLLERS": "train.control.controller",
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
    "RunConfig": "runs.config",
    "SOURCES": "data.source",
    "Solvers": "train.control.controller",
    "Source": "data.source",
    "UNITS": "zoo.parts",
    "Vectors": "data.vectors",
    "read_config": "runs.config",
}

__all__ = [
    "CONTROLLERS", "Clock", "ContinuousBlock", "Controller", "Decision", "Fields", "Growth", "Images", "MODELS", "Part",
    "Probe", "RECIPES", "RULES", "Records", "RunConfig", "SOURCES", "Solvers", "Source", "UNITS", "Vectors",
    "load_plugins", "read_config",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'anydepth.extend' has no attribute {name!r}")
    return getattr(import_module(f"anydepth.{_WHERE[name]}"), name)
