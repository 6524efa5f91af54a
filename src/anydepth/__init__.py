"""anydepth: networks whose depth is continuous. Train once, run at any depth."""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.2.0"

if TYPE_CHECKING:
    from anydepth.block.block import ContinuousBlock
    from anydepth.block.branch import branch
    from anydepth.block.paths import fast_paths
    from anydepth.deploy.anytime.anytime import Anytime
    from anydepth.deploy.depth_controller import DepthController, Rung
    from anydepth.deploy.freeze import freeze
    from anydepth.deploy.recalibrate import recalibrate
    from anydepth.deploy.smooth import smooth
    from anydepth.deploy.sweeps.result import Sweep
    from anydepth.deploy.sweeps.sweep import sweep
    from anydepth.depth.bases import BASES, make_basis
    from anydepth.depth.grids import Grid, by_step
    from anydepth.depth.schemes import SCHEMES
    from anydepth.errors import (
        AnydepthError,
        AnydepthWarning,
        BudgetError,
        ConfigError,
        DataError,
        FolderInUseError,
        ModelFileError,
        NumericalError,
        PluginError,
        RankLostError,
        ShapeError,
        StoppedError,
        StorageError,
        UnitError,
    )
    from anydepth.solve.adaptive import SolverError
    from anydepth.solve.odeint import odeint
    from anydepth.surgery.blocks import blocks_of
    from anydepth.surgery.change import Change, history
    from anydepth.surgery.compiling import compile
    from anydepth.surgery.ema import EMA
    from anydepth.surgery.from_layers import from_layers
    from anydepth.surgery.loading import adopt_form, load_state_dict
    from anydepth.surgery.parameters import init_, param_groups
    from anydepth.surgery.resize import compress, refine, set_gradient, set_solver
    from anydepth.surgery.store import load, save
    from anydepth.surgery.summary import summary
    from anydepth.surgery.to_layers import to_layers
    from anydepth.train.any_depth import any_depth
    from anydepth.verdict.check import Verdict, check
    from anydepth.weights.evolutions import EVOLUTIONS, Evolution
    from anydepth.weights.evolved import Evolved
    from anydepth.weights.expansion import Expansion
    from anydepth.weights.protocol import WeightFunction
    from anydepth.weights.time_kernel import TimeKernel
    from anydepth.zoo import models, units
    from anydepth.zoo.parts import MODELS, UNITS, build
    from anydepth.zoo.stitch import Stitch

_WHERE = {
    "AnydepthError": "errors",
    "AnydepthWarning": "errors",
    "Anytime": "deploy.anytime.anytime",
    "BASES": "depth.bases",
    "BudgetError": "errors",
    "Change": "surgery.change",
    "ConfigError": "errors",
    "ContinuousBlock": "block.block",
    "DataError": "errors",
    "DepthController": "deploy.depth_controller",
    "EMA": "surgery.ema",
    "EVOLUTIONS": "weights.evolutions",
    "Evolution": "weights.evolutions",
    "Evolved": "weights.evolved",
    "Expansion": "weights.expansion",
    "FolderInUseError": "errors",
    "Grid": "depth.grids",
    "MODELS": "zoo.parts",
    "ModelFileError": "errors",
    "NumericalError": "errors",
    "PluginError": "errors",
    "RankLostError": "errors",
    "Rung": "deploy.depth_controller",
    "SCHEMES": "depth.schemes",
    "ShapeError": "errors",
    "SolverError": "solve.adaptive",
    "Stitch": "zoo.stitch",
    "StoppedError": "errors",
    "StorageError": "errors",
    "Sweep": "deploy.sweeps.result",
    "TimeKernel": "weights.time_kernel",
    "UNITS": "zoo.parts",
    "UnitError": "errors",
    "Verdict": "verdict.check",
    "WeightFunction": "weights.protocol",
    "adopt_form": "surgery.loading",
    "any_depth": "train.any_depth",
    "blocks_of": "surgery.blocks",
    "branch": "block.branch",
    "build": "zoo.parts",
    "by_step": "depth.grids",
    "check": "verdict.check",
    "compile": "surgery.compiling",
    "compress": "surgery.resize",
    "fast_paths": "block.paths",
    "freeze": "deploy.freeze",
    "from_layers": "surgery.from_layers",
    "history": "surgery.change",
    "init_": "surgery.parameters",
    "load": "surgery.store",
    "load_state_dict": "surgery.loading",
    "make_basis": "depth.bases",
    "models": "zoo",
    "odeint": "solve.odeint",
    "param_groups": "surgery.parameters",
    "recalibrate": "deploy.recalibrate",
    "refine": "surgery.resize",
    "save": "surgery.store",
    "set_gradient": "surgery.resize",
    "set_solver": "surgery.resize",
    "smooth": "deploy.smooth",
    "summary": "surgery.summary",
    "sweep": "deploy.sweeps.sweep",
    "to_layers": "surgery.to_layers",
    "units": "zoo",
}
"""Public names and the modules that hold them: nothing is imported before it is used."""

__all__ = [
    "AnydepthError",
    "AnydepthWarning",
    "Anytime",
    "BASES",
    "BudgetError",
    "Change",
    "ConfigError",
    "ContinuousBlock",
    "DataError",
    "DepthController",
    "EMA",
    "EVOLUTIONS",
    "Evolution",
    "Evolved",
    "Expansion",
    "FolderInUseError",
    "Grid",
    "MODELS",
    "ModelFileError",
    "NumericalError",
    "PluginError",
    "RankLostError",
    "Rung",
    "SCHEMES",
    "ShapeError",
    "SolverError",
    "Stitch",
    "StoppedError",
    "StorageError",
    "Sweep",
    "TimeKernel",
    "UNITS",
    "UnitError",
    "Verdict",
    "WeightFunction",
    "adopt_form",
    "any_depth",
    "blocks_of",
    "branch",
    "build",
    "by_step",
    "check",
    "compile",
    "compress",
    "fast_paths",
    "freeze",
    "from_layers",
    "history",
    "init_",
    "load",
    "load_state_dict",
    "make_basis",
    "models",
    "odeint",
    "param_groups",
    "recalibrate",
    "refine",
    "save",
    "set_gradient",
    "set_solver",
    "smooth",
    "summary",
    "sweep",
    "to_layers",
    "units",
]


def __getattr__(name: str) -> object:
    if name in ("models", "units"):
        return import_module(f"anydepth.zoo.{name}")
    if name not in _WHERE:
        raise AttributeError(f"module 'anydepth' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"anydepth.{_WHERE[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
