"""Algorithm 1 for adaptive solvers, whose tolerances play the part of the step (Ott et al. 2020, B.6)."""

from anydepth.errors import ConfigError
from anydepth.train.control.algorithm import Algorithm
from anydepth.train.control.controller import Decision, Solvers
from anydepth.train.control.probe import Probe
from anydepth.train.control.settings import ToleranceControl


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
