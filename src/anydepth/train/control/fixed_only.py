"""What controllers of fixed steps refuse."""

from anydepth.errors import ConfigError
from anydepth.train.control.controller import Solvers


def need_fixed(name: str, solvers: Solvers) -> None:
    """Refuse adaptive solvers."""
    for block, solver in solvers.items():
        if solver.grid is None:
            raise ConfigError(
                f"control {name!r} chooses fixed steps, but block {block!r} has the adaptive scheme "
                f"{solver.scheme.name!r}; use control.name=paper_tolerance, or a fixed scheme such as 'euler'"
            )
