"""What code of your own builds on: the registries, their contracts, and loading the modules that add to them.

The names are those of docs/extending.md. They stay here, whatever room they live in.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from anydepth.plugins import load_plugins

if TYPE_CHECKING:
    from anydepth.block.block import ContinuousBlock
    from anydepth.data.images import Images
    from anydepth.data.records import Fields, Records
    from anydepth.data.source import SOURCES, Part, Source
    from anydepth.data.vectors import Vectors
    from anydepth.depth.bases import BASES, Basis
    from anydepth.depth.schemes import SCHEMES, Scheme
    from anydepth.depth.times import Instant, Side
    from anydepth.recipes import RECIPES
    from anydepth.runs.config import RunConfig, read_config
    from anydepth.train.control.controller import CONTROLLERS, Clock, Controller, Decision, Solvers
    from anydepth.train.control.probe import Probe
    from anydepth.train.growth import RULES, Growth
    from anydepth.weights.evolutions import EVOLUTIONS, Evolution
    from anydepth.zoo.parts import MODELS, UNITS

_WHERE = {
    "BASES": "depth.bases",
    "Basis": "depth.bases",
    "CONTROLLERS": "train.control.controller",
    "Clock": "train.control.controller",
    "ContinuousBlock": "block.block",
    "Controller": "train.control.controller",
    "Decision": "train.control.controller",
    "EVOLUTIONS": "weights.evolutions",
    "Evolution": "weights.evolutions",
    "Fields": "data.records",
    "Growth": "train.growth",
    "Images": "data.images",
    "Instant": "depth.times",
    "MODELS": "zoo.parts",
    "Part": "data.source",
    "Probe": "train.control.probe",
    "RECIPES": "recipes",
    "RULES": "train.growth",
    "Records": "data.records",
    "RunConfig": "runs.config",
    "SCHEMES": "depth.schemes",
    "SOURCES": "data.source",
    "Scheme": "depth.schemes",
    "Side": "depth.times",
    "Solvers": "train.control.controller",
    "Source": "data.source",
    "UNITS": "zoo.parts",
    "Vectors": "data.vectors",
    "read_config": "runs.config",
}

__all__ = [
    "BASES", "Basis", "CONTROLLERS", "Clock", "ContinuousBlock", "Controller", "Decision", "EVOLUTIONS", "Evolution",
    "Fields", "Growth", "Images", "Instant", "MODELS", "Part", "Probe", "RECIPES", "RULES", "Records", "RunConfig",
    "SCHEMES", "SOURCES", "Scheme", "Side", "Solvers", "Source", "UNITS", "Vectors", "load_plugins", "read_config",
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module 'anydepth.extend' has no attribute {name!r}")
    return getattr(import_module(f"anydepth.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
