"""anydepth: networks whose depth is continuous. Train once, run at any depth."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from anydepth.deploy.freeze import freeze
    from anydepth.deploy.recalibrate import recalibrate
    from anydepth.deploy.sweeps.sweep import sweep
    from anydepth.deploy.sweeps.table import Sweep
    from anydepth.depth.bases import BASES, make_basis
    from anydepth.depth.grids import Grid, by_step
    from anydepth.depth.schemes import SCHEMES
    from anydepth.nn import models, units
    from anydepth.nn.adaptive import SolverError
    from anydepth.nn.block import ContinuousBlock
    from anydepth.nn.branch import branch
    from anydepth.nn.evolutions import EVOLUTIONS, Evolution
    from anydepth.nn.evolved import Evolved
    from anydepth.nn.functions import Expansion, WeightFunction
    from anydepth.nn.kernels import TimeKernel
    from anydepth.nn.odeint import odeint
    from anydepth.nn.parts import MODELS, UNITS, build
    from anydepth.nn.paths import fast_paths
    from anydepth.nn.stitch import Stitch
    from anydepth.surgery.blocks import blocks_of
    from anydepth.surgery.change import Change, history
    from anydepth.surgery.loading import adopt_form, load_state_dict
    from anydepth.surgery.resize import compress, refine, set_gradient, set_solver
    from anydepth.surgery.store import load, save
    from anydepth.surgery.summary import summary
    from anydepth.verdict.check import Verdict, check

_WHERE = {
    "BASES": "depth.bases",
    "Change": "surgery.change",
    "ContinuousBlock": "nn.block",
    "EVOLUTIONS": "nn.evolutions",
    "Evolution": "nn.evolutions",
    "Evolved": "nn.evolved",
    "Expansion": "nn.functions",
    "Grid": "depth.grids",
    "MODELS": "nn.parts",
    "SCHEMES": "depth.schemes",
    "SolverError": "nn.adaptive",
    "Stitch": "nn.stitch",
    "Sweep": "deploy.sweeps.table",
    "TimeKernel": "nn.kernels",
    "UNITS": "nn.parts",
    "WeightFunction": "nn.functions",
    "adopt_form": "surgery.loading",
    "blocks_of": "surgery.blocks",
    "branch": "nn.branch",
    "build": "nn.parts",
    "by_step": "depth.grids",
    "compress": "surgery.resize",
    "fast_paths": "nn.paths",
    "freeze": "deploy.freeze",
    "history": "surgery.change",
    "load": "surgery.store",
    "load_state_dict": "surgery.loading",
    "make_basis": "depth.bases",
    "models": "nn",
    "odeint": "nn.odeint",
    "recalibrate": "deploy.recalibrate",
    "refine": "surgery.resize",
    "save": "surgery.store",
    "set_gradient": "surgery.resize",
    "set_solver": "surgery.resize",
    "summary": "surgery.summary",
    "sweep": "deploy.sweeps.sweep",
    "units": "nn",
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
    "units",
]


def __getattr__(name: str) -> Any:
    if name in ("models", "units"):
        return import_module(f"anydepth.nn.{name}")
    if name not in _WHERE:
        raise AttributeError(f"module 'anydepth' has no attribute {name!r}")
    return getattr(import_module(f"anydepth.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
