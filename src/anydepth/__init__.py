"""anydepth: networks whose depth is continuous. Train once, run at any depth."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from anydepth.block.block import ContinuousBlock
    from anydepth.block.branch import branch
    from anydepth.block.paths import fast_paths
    from anydepth.deploy.freeze import freeze
    from anydepth.deploy.recalibrate import recalibrate
    from anydepth.deploy.sweeps.result import Sweep
    from anydepth.deploy.sweeps.sweep import sweep
    from anydepth.depth.bases import BASES, make_basis
    from anydepth.depth.grids import Grid, by_step
    from anydepth.depth.schemes import SCHEMES
    from anydepth.solve.adaptive import SolverError
    from anydepth.solve.odeint import odeint
    from anydepth.surgery.blocks import blocks_of
    from anydepth.surgery.change import Change, history
    from anydepth.surgery.from_layers import from_layers
    from anydepth.surgery.loading import adopt_form, load_state_dict
    from anydepth.surgery.resize import compress, refine, set_gradient, set_solver
    from anydepth.surgery.store import load, save
    from anydepth.surgery.summary import summary
    from anydepth.surgery.to_layers import to_layers
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
    "BASES": "depth.bases",
    "Change": "surgery.change",
    "ContinuousBlock": "block.block",
    "EVOLUTIONS": "weights.evolutions",
    "Evolution": "weights.evolutions",
    "Evolved": "weights.evolved",
    "Expansion": "weights.expansion",
    "Grid": "depth.grids",
    "MODELS": "zoo.parts",
    "SCHEMES": "depth.schemes",
    "SolverError": "solve.adaptive",
    "Stitch": "zoo.stitch",
    "Sweep": "deploy.sweeps.result",
    "TimeKernel": "weights.time_kernel",
    "UNITS": "zoo.parts",
    "WeightFunction": "weights.protocol",
    "adopt_form": "surgery.loading",
    "blocks_of": "surgery.blocks",
    "branch": "block.branch",
    "build": "zoo.parts",
    "by_step": "depth.grids",
    "compress": "surgery.resize",
    "fast_paths": "block.paths",
    "freeze": "deploy.freeze",
    "from_layers": "surgery.from_layers",
    "history": "surgery.change",
    "load": "surgery.store",
    "load_state_dict": "surgery.loading",
    "make_basis": "depth.bases",
    "models": "zoo",
    "odeint": "solve.odeint",
    "recalibrate": "deploy.recalibrate",
    "refine": "surgery.resize",
    "save": "surgery.store",
    "set_gradient": "surgery.resize",
    "set_solver": "surgery.resize",
    "summary": "surgery.summary",
    "sweep": "deploy.sweeps.sweep",
    "to_layers": "surgery.to_layers",
    "units": "zoo",
    "Verdict": "verdict.check",
    "check": "verdict.check",
}
"""Public names and the modules that hold them: nothing is imported before it is used."""

__all__ = [
    "BASES",
    "Change",
    "ContinuousBlock",
    "EVOLUTIONS",
    "Evolution",
    "Evolved",
    "Expansion",
    "Grid",
    "MODELS",
    "SCHEMES",
    "SolverError",
    "Stitch",
    "Sweep",
    "TimeKernel",
    "UNITS",
    "Verdict",
    "WeightFunction",
    "adopt_form",
    "blocks_of",
    "branch",
    "build",
    "by_step",
    "check",
    "compress",
    "fast_paths",
    "freeze",
    "from_layers",
    "history",
    "load",
    "load_state_dict",
    "make_basis",
    "models",
    "odeint",
    "recalibrate",
    "refine",
    "save",
    "set_gradient",
    "set_solver",
    "summary",
    "sweep",
    "to_layers",
    "units",
]


def __getattr__(name: str) -> Any:
    if name in ("models", "units"):
        return import_module(f"anydepth.zoo.{name}")
    if name not in _WHERE:
        raise AttributeError(f"module 'anydepth' has no attribute {name!r}")
    return getattr(import_module(f"anydepth.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
