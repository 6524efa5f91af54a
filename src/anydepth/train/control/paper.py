"""Algorithm 1 for the step of fixed schemes."""

from anydepth.depth.grids import by_step
from anydepth.solve.ladder import higher
from anydepth.solve.solver import Solver
from anydepth.train.control.algorithm import Algorithm
from anydepth.train.control.controller import Decision, Solvers, known
from anydepth.train.control.first import first_step
from anydepth.train.control.fixed_only import need_fixed
from anydepth.train.control.probe import Probe
from anydepth.train.control.settings import PaperControl


class Paper(Algorithm):
    """One step size for all blocks, at most 1; the last step is cut to end at depth 1."""

    def __init__(self, settings: PaperControl):
        super().__init__(settings)
        self.settings = settings

    def refuse(self, solvers: Solvers) -> None:
        need_fixed("paper", solvers)

    def start(self, probe: Probe) -> Decision:
        settings = self.settings
        step = first_step(probe, settings.threshold) if settings.first is None else settings.first
        return Decision("start", self._stepping(probe.solvers, step), measured=known(step=step))

    def scaled(self, solvers: Solvers, factor: float) -> Solvers:
        return self._stepping(solvers, factor * max(map(step_of, solvers.values())))

    def finer(self, solvers: Solvers) -> Solvers:
        """A higher order on the same steps, each cut into as many as it takes for 1/h to reach `check_steps`."""
        pieces = -(-self.settings.check_steps * max(map(step_of, solvers.values())) // 1)
        return {name: higher(solver, int(pieces)) for name, solver in solvers.items()}

    def _stepping(self, solvers: Solvers, step: float) -> Solvers:
        grid = by_step(min(1.0, max(step, 1 / self.settings.most_steps)))
        return {name: solver.changed(steps=grid) for name, solver in solvers.items()}


def step_of(solver: Solver) -> float:
    """The step, which is where a grid's first one ends."""
    assert solver.grid is not None
    return float(solver.grid.times[1])
