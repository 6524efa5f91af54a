"""Solvers to compare with the one a model was trained with: finer, of higher order, coarser."""

from dataclasses import replace

from anydepth.depth.grids import Grid
from anydepth.depth.schemes import SCHEMES
from anydepth.solve.solver import Solver

Solvers = tuple[Solver, ...]
"""One for every block of a model."""

TIGHTER, LONGER = 0.1, 4
"""What one level does to the tolerances of an adaptive solver, and to the steps it may try."""


def finer(solver: Solver, level: int, floor: float = 0.0) -> Solver:
    """Every step halved `level` times; or tolerances a tenth, so many times, but rtol not below a floor.

    Points of the grid stay points of it.
    """
    if solver.grid is not None:
        return replace(solver, grid=solver.grid.refined(2**level))
    found, factor = solver.describe(), TIGHTER**level
    if found["rtol"] > 0:
        factor = max(factor, min(1.0, floor / found["rtol"]))
    if factor == 1:
        return solver
    limits = {"rtol": found["rtol"] * factor, "atol": found["atol"] * factor}
    return solver.changed(**limits, max_steps=found["max_steps"] * LONGER**level)


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


def largest_step(solvers: Solvers) -> float | None:
    """Of the fixed grids; None where every solver chooses its own steps."""
    grids = [solver.grid for solver in solvers if solver.grid is not None]
    widths = [b - a for grid in grids for a, b in zip(grid.times[:-1], grid.times[1:], strict=True)]
    return float(max(widths)) if widths else None


def order_of(solvers: Solvers) -> int | None:
    """The lowest order of the fixed schemes, which is that of the whole; None where any solver is adaptive."""
    if any(solver.grid is None for solver in solvers):
        return None
    return min(solver.scheme.order for solver in solvers)


def name_of(solvers: Solvers) -> str:
    return ", ".join(dict.fromkeys(map(str, solvers)))


def scheme_of(solvers: Solvers) -> str:
    return ", ".join(dict.fromkeys(solver.scheme.name for solver in solvers))
