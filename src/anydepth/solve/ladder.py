"""Solvers finer and coarser than a given one: the one ladder of training, verdicts and studies."""

from dataclasses import replace

from anydepth.depth.grids import Grid
from anydepth.depth.schemes import SCHEMES
from anydepth.solve.adaptive import Tolerance
from anydepth.solve.solver import Solver

TIGHTER, LONGER = 0.1, 4
"""What one level does to the tolerances of an adaptive solver, and to the steps it may try."""


def finer(solver: Solver, level: int, floor: float = 0.0) -> Solver:
    """Every step halved `level` times; or tolerances a tenth, so many times, but rtol not below a floor.

    Points of the grid stay points of it.
    """
    if solver.grid is not None:
        return replace(solver, grid=solver.grid.refined(2**level))
    found, factor = solver.tolerance or Tolerance(), TIGHTER**level
    if found.rtol > 0:
        factor = max(factor, min(1.0, floor / found.rtol))
    if factor == 1:
        return solver
    most = found.max_steps * LONGER**level
    return solver.changed(rtol=found.rtol * factor, atol=found.atol * factor, max_steps=most)


def raised(solver: Solver, scheme: str) -> Solver:
    """Another scheme on the same steps if its order is higher; else the solver itself."""
    if solver.grid is None or solver.scheme.order >= SCHEMES[scheme].order:
        return solver
    return solver.changed(scheme=scheme)


def coarser(solver: Solver) -> Solver:
    """Two steps drawn into one, where there are two; adaptive solvers stay as they are."""
    if solver.grid is None or solver.grid.steps == 1:
        return solver
    times = solver.grid.times
    return replace(solver, grid=Grid((*times[:-1][::2], times[-1])))


_HIGHER = {1: "midpoint", 2: "rk4", 3: "rk4"}
"""The scheme that checks one of such an order; one of a higher order is checked by itself with half the step."""


def higher(solver: Solver, pieces: int = 1) -> Solver:
    """A higher order on the same steps, each cut into so many pieces."""
    assert solver.grid is not None
    scheme = _HIGHER.get(solver.scheme.order)
    return solver.changed(scheme=scheme, steps=solver.grid.refined(pieces if scheme else max(pieces, 2)))
