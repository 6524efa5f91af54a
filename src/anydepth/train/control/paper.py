"""Algorithm 1 of Ott et al. 2020: for the step of fixed schemes, and for the tolerances of adaptive ones (B.6)."""

from abc import ABC, abstractmethod

from anydepth.depth.grids import by_step
from anydepth.errors import ConfigError
from anydepth.runs.control import Adaption, PaperControl, ToleranceControl
from anydepth.solve.ladder import higher
from anydepth.solve.solver import Solver
from anydepth.train.control.controller import CONTROLLERS, Clock, Decision, Solvers, known
from anydepth.train.control.estimate import first_step, need_fixed
from anydepth.train.control.probe import Probe


class Algorithm(ABC):
    """Shrink when a more accurate solver changes the accuracy on the batch by more than the threshold, else grow.

    A growth is checked at once, and taken back when that fails.
    """

    examples: int | None = None

    def __init__(self, settings: Adaption):
        self.constants = settings

    @abstractmethod
    def scaled(self, solvers: Solvers, factor: float) -> Solvers:
        """Solvers with steps, or tolerances, so many times as large, as far as their bounds allow."""

    @abstractmethod
    def finer(self, solvers: Solvers) -> Solvers:
        """The more accurate solvers that these are checked by."""

    def recall(self, memory: dict[str, object]) -> None:
        if memory:
            raise ValueError(f"nothing is to be remembered, got {memory!r:.60}")

    def is_due(self, clock: Clock, memory: dict[str, object]) -> bool:
        return clock.step % self.constants.every == 0 and clock.step < clock.total

    def check(self, probe: Probe, clock: Clock, memory: dict[str, object]) -> Decision:
        constants, now = self.constants, probe.solvers
        found = self.gap_to(probe, now)
        if found > constants.threshold:
            smaller = self.scaled(now, constants.shrink)
            return Decision("keep" if smaller == now else "shrink", smaller, (False,), known(gap=found))
        larger = self.scaled(now, constants.grow)
        if larger == now:
            return Decision("keep", now, (True,), known(gap=found))
        found_next = self.gap_to(probe, larger)
        passed = found_next <= constants.threshold
        event, after = ("grow", larger) if passed else ("revert", now)
        return Decision(event, after, (True, passed), known(gap=found, gap_grown=found_next))

    def gap_to(self, probe: Probe, solvers: Solvers) -> float:
        """How much the accuracy changes; the outputs, relatively, where there are no classes."""
        outputs, others = probe.outputs(solvers), probe.outputs(self.finer(solvers))
        if outputs is None or others is None:
            return float("inf")
        if probe.has_classes:
            return abs(probe.accuracy(outputs) - probe.accuracy(others))
        return probe.distance(outputs, others)


@CONTROLLERS.register("paper")
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


@CONTROLLERS.register("paper_tolerance")
class PaperTolerance(Algorithm):
    """rtol and atol of all blocks keep their proportions; the check solver's are `tighter` times as large."""

    def __init__(self, settings: ToleranceControl):
        super().__init__(settings)
        self.settings = settings

    def refuse(self, solvers: Solvers) -> None:
        for block, solver in solvers.items():
            if solver.tolerance is None or solver.tolerance.rtol == 0:
                raise ConfigError(
                    f"control 'paper_tolerance' chooses relative tolerances, but block {block!r} has {solver}; "
                    "use an adaptive scheme such as 'dopri54' with rtol above 0, or control.name=paper"
                )

    def start(self, probe: Probe) -> Decision:
        first = self.settings.first
        return Decision("start", self.scaled(probe.solvers, 1.0 if first is None else first / _rtol(probe.solvers)))

    def scaled(self, solvers: Solvers, factor: float) -> Solvers:
        rtol = _rtol(solvers)
        return _times(solvers, min(1.0, max(factor * rtol, self.settings.tightest)) / rtol)

    def finer(self, solvers: Solvers) -> Solvers:
        return _times(solvers, self.settings.tighter)


def _rtol(solvers: Solvers) -> float:
    """The loosest relative tolerance."""
    return max(solver.tolerance.rtol for solver in solvers.values() if solver.tolerance is not None)


def _times(solvers: Solvers, factor: float) -> Solvers:
    return {
        name: solver.changed(rtol=factor * solver.tolerance.rtol, atol=factor * solver.tolerance.atol)
        for name, solver in solvers.items()
        if solver.tolerance is not None
    }
