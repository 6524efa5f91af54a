"""The solvers of all blocks of a model: names and facts about them together."""

from anydepth.solve.solver import Solver

Solvers = tuple[Solver, ...]
"""One for every block of a model."""


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
