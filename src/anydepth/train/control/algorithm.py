"""Algorithm 1 of Ott et al. 2020, whatever it is that is shrunk and grown."""

from abc import ABC, abstractmethod
from typing import Any

from anydepth.train.control.controller import Clock, Decision, Solvers, known
from anydepth.train.control.probe import Probe
from anydepth.train.control.settings import Adaption


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

    def recall(self, memory: dict[str, Any]) -> None:
        if memory:
            raise ValueError(f"nothing is to be remembered, got {memory!r:.60}")

    def is_due(self, clock: Clock, memory: dict[str, Any]) -> bool:
        return clock.step % self.constants.every == 0 and clock.step < clock.total

    def check(self, probe: Probe, clock: Clock, memory: dict[str, Any]) -> Decision:
        constants, now = self.constants, probe.solvers
        found = self._gap(probe, now)
        if found > constants.threshold:
            smaller = self.scaled(now, constants.shrink)
            return Decision("keep" if smaller == now else "shrink", smaller, (False,), known(gap=found))
        larger = self.scaled(now, constants.grow)
        if larger == now:
            return Decision("keep", now, (True,), known(gap=found))
        found_next = self._gap(probe, larger)
        passed = found_next <= constants.threshold
        event, after = ("grow", larger) if passed else ("revert", now)
        return Decision(event, after, (True, passed), known(gap=found, gap_grown=found_next))

    def _gap(self, probe: Probe, solvers: Solvers) -> float:
        """How much the accuracy changes; the outputs, relatively, where there are no classes."""
        outputs, others = probe.outputs(solvers), probe.outputs(self.finer(solvers))
        if outputs is None or others is None:
            return float("inf")
        if probe.has_classes:
            return abs(probe.accuracy(outputs) - probe.accuracy(others))
        return probe.distance(outputs, others)
