"""Other solvers of differential equations, where they are installed."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

INSTALL = "pip install 'anydepth-papers[bench]'"


@dataclass(frozen=True)
class Peer:
    """How another library is called: solve(module, unit, x, scheme, steps)."""

    module: str
    schemes: dict[str, str]
    """Their name of each of our schemes that they have."""
    solve: Callable[[Any, nn.Module, Tensor, str, int], Tensor]


def _torchdiffeq(library: Any, unit: nn.Module, x: Tensor, scheme: str, steps: int) -> Tensor:
    ends = torch.tensor([0.0, 1.0])
    return library.odeint(lambda t, y: unit(y), x, ends, method=scheme, options={"step_size": 1 / steps})[-1]


def _torchode(library: Any, unit: nn.Module, x: Tensor, scheme: str, steps: int) -> Tensor:
    method = getattr(library, scheme)(library.ODETerm(lambda t, y: unit(y)))
    start = torch.zeros(len(x))
    problem = library.InitialValueProblem(y0=x, t_start=start, t_end=start + 1)
    solver = library.AutoDiffAdjoint(method, library.FixedStepController())
    return solver.solve(problem, dt0=start + 1 / steps).ys[:, -1]


def _torchdyn(library: Any, unit: nn.Module, x: Tensor, scheme: str, steps: int) -> Tensor:
    return library.odeint(lambda t, y: unit(y), x, torch.linspace(0, 1, steps + 1), solver=scheme)[1][-1]


def adaptive_solver(tolerance: float) -> Callable[[nn.Module], Callable[[Tensor], Tensor]]:
    """torchdiffeq's dopri5."""
    library = import_module("torchdiffeq")

    def solver(unit: nn.Module) -> Callable[[Tensor], Tensor]:
        options = {"method": "dopri5", "rtol": tolerance, "atol": tolerance}
        return lambda x: library.odeint(lambda t, y: unit(y), x, torch.tensor([0.0, 1.0]), **options)[-1]

    return solver


PEERS = {
    "torchdiffeq": Peer("torchdiffeq", {"euler": "euler", "rk4_38": "rk4"}, _torchdiffeq),
    "torchode": Peer("torchode", {"euler": "Euler"}, _torchode),
    "torchdyn": Peer("torchdyn.numerics", {"euler": "euler", "rk4": "rk4"}, _torchdyn),
}
"""torchdiffeq's rk4 is the 3/8 rule, torchdyn's the classic one; torchode has neither."""


@cache
def missing(module: str) -> str | None:
    """Why a library cannot be used; None if it can."""
    try:
        import_module(module)
    except ImportError as error:
        return f"not installed ({error}): {INSTALL}"
    return None


def solvers(scheme: str, steps: int) -> dict[str, Callable[[nn.Module], Callable[[Tensor], Tensor]]]:
    """By name, those that are installed and have a scheme: unit -> (x -> state at 1)."""

    def solver(peer: Peer) -> Callable[[nn.Module], Callable[[Tensor], Tensor]]:
        library = import_module(peer.module)
        return lambda unit: lambda x: peer.solve(library, unit, x, peer.schemes[scheme], steps)

    usable = {n: peer for n, peer in PEERS.items() if scheme in peer.schemes and missing(peer.module) is None}
    return {name: solver(peer) for name, peer in usable.items()}
