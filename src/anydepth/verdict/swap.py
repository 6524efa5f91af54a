"""Solvers that are at least as accurate as the one a model was trained with."""

from collections.abc import Iterator
from copy import deepcopy

from torch import nn

from anydepth.depth.schemes import SCHEMES
from anydepth.nn.solver import Solver
from anydepth.surgery.blocks import blocks_of

_FINER = (2, 4)
"""Factors on the steps of a fixed grid."""
_TIGHTER = (0.1, 0.01)
"""Factors on the tolerances of an adaptive solver."""
_HIGHER = ("midpoint", "rk4")
"""Schemes tried on the same grid, where their order is higher."""


def finer(solver: Solver) -> list[Solver]:
    """More steps, a higher order on the same steps, or a tighter tolerance."""
    if solver.grid is None:
        found = solver.describe()
        limits = [(found["rtol"] * factor, found["atol"] * factor) for factor in _TIGHTER]
        return [solver.changed(rtol=rtol, atol=atol) for rtol, atol in limits]
    steps = [solver]
    for _ in _FINER:
        grid = steps[-1].grid
        assert grid is not None
        steps.append(solver.changed(steps=grid.refined()))
    higher = [name for name in _HIGHER if SCHEMES[name].order > solver.scheme.order]
    return [*steps[1:], *(solver.changed(scheme=name) for name in higher)]


def finer_models(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Copies of a model with every block on a more accurate solver; named by what they are."""
    choices = {name: finer(block.solver) for name, block in blocks_of(model).items()}
    for i in range(min(len(solvers) for solvers in choices.values())):
        changed = deepcopy(model)
        for name, block in blocks_of(changed).items():
            block.set_solver(**choices[name][i].describe())
        yield ", ".join(dict.fromkeys(str(solvers[i]) for solvers in choices.values())), changed
