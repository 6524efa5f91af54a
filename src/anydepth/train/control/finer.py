"""The more accurate solvers that checks compare with."""

from anydepth.errors import ConfigError
from anydepth.solve.solver import Solver
from anydepth.train.control.controller import Solvers

_HIGHER = {1: "midpoint", 2: "rk4", 3: "rk4"}
"""The scheme that checks one of such an order; one of a higher order is checked by itself with half the step."""


def finer(solver: Solver, pieces: int = 1) -> Solver:
    """A higher order on the same steps, each cut into so many pieces."""
    assert solver.grid is not None
    higher = _HIGHER.get(solver.scheme.order)
    return solver.changed(scheme=higher, steps=solver.grid.refined(pieces if higher else max(pieces, 2)))


def need_fixed(name: str, solvers: Solvers) -> None:
    """Refuse adaptive solvers."""
    for block, solver in solvers.items():
        if solver.grid is None:
            raise ConfigError(
                f"control {name!r} chooses fixed steps, but block {block!r} has the adaptive scheme "
                f"{solver.scheme.name!r}; use control.name=paper_tolerance, or a fixed scheme such as 'euler'"
            )
