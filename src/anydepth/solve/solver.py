"""How a block is run: a scheme on a fixed grid, or an embedded pair that chooses its own steps."""

from dataclasses import dataclass, replace
from typing import TypedDict, Unpack

from anydepth.depth.grids import Grid, GridLike, unit_grid
from anydepth.depth.schemes import SCHEMES, Scheme
from anydepth.errors import ConfigError
from anydepth.solve.adaptive import Tolerance


class StepSettings(TypedDict, total=False):
    """How a scheme steps: in so many steps, or within tolerances."""

    steps: GridLike | None
    rtol: float | None
    atol: float | None
    max_steps: int | None
    per_example: bool | None


class SolverSettings(StepSettings, total=False):
    """The keyword arguments of `Solver.changed`."""

    scheme: str | None


class DescribedSolver(StepSettings):
    """Keyword arguments that give a solver from scratch, as JSON values."""

    scheme: str


@dataclass(frozen=True)
class Solver:
    """A scheme with its grid, or with its tolerance; never both."""

    scheme: Scheme
    grid: Grid | None = None
    tolerance: Tolerance | None = None

    def changed(
        self,
        scheme: str | None = None,
        steps: GridLike | None = None,
        rtol: float | None = None,
        atol: float | None = None,
        max_steps: int | None = None,
        per_example: bool | None = None,
    ) -> "Solver":
        """This solver with some settings replaced; settings that do not go together are refused."""
        chosen = self.scheme if scheme is None else SCHEMES[scheme]
        given = {"rtol": rtol, "atol": atol, "max_steps": max_steps, "per_example": per_example}
        given = {name: value for name, value in given.items() if value is not None}
        if chosen.is_adaptive:
            if steps is not None:
                raise ConfigError(
                    f"scheme {chosen.name!r} is adaptive and chooses its own steps; "
                    "give rtol and atol instead of steps, or a fixed scheme such as 'rk4'"
                )
            return Solver(chosen, None, replace(self.tolerance or Tolerance(), **given))
        if given and given != {"per_example": False}:
            raise ConfigError(
                f"scheme {chosen.name!r} has fixed steps, got {', '.join(given)}; give steps, or an adaptive scheme"
            )
        grid = self.grid if steps is None else unit_grid(steps)
        if grid is None:
            raise ConfigError(f"scheme {chosen.name!r} needs a number of steps; give steps")
        return Solver(chosen, grid)

    @property
    def steps(self) -> int | None:
        """The number of steps, if that is fixed."""
        return None if self.grid is None else self.grid.steps

    def describe(self) -> DescribedSolver:
        """Keyword arguments for `changed` that give this solver."""
        if self.grid is not None:
            return {"scheme": self.scheme.name, "steps": self.grid.describe()}
        limits = self.tolerance or Tolerance()
        return {
            "scheme": self.scheme.name,
            "rtol": limits.rtol,
            "atol": limits.atol,
            "max_steps": limits.max_steps,
            "per_example": limits.per_example,
        }

    def __str__(self) -> str:
        if self.tolerance is not None:
            each = " per example" if self.tolerance.per_example else ""
            return f"{self.scheme.name} rtol={self.tolerance.rtol:g} atol={self.tolerance.atol:g}{each}"
        return f"{self.scheme.name} x {self.steps}"


def make_solver(scheme: str, **settings: Unpack[StepSettings]) -> Solver:
    """A solver from scratch; the keyword arguments of `Solver.changed`."""
    return Solver(SCHEMES[scheme]).changed(**settings)
