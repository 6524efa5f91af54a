"""Runs of one subject with many solvers, up to one at which the outputs have settled."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from anydepth.data.table import IGNORED
from anydepth.errors import DataError, NumericalError
from anydepth.measure.predictions import Reader, gap, is_finite
from anydepth.reporting import Report
from anydepth.solve.adaptive import Cause, SolverError
from anydepth.solve.ladder import coarser, finer, raised
from anydepth.verdict.subject import Subject
from anydepth.verdict.swap import Solvers, largest_step, name_of

IsClose = Callable[[Sequence[Tensor], Sequence[Tensor]], bool]

SETTLED, SAME = 0.005, 99.0
"""Outputs have settled when one more halving changes them by less, and so many per cent of the predictions stay."""
ALWAYS, FINEST = 2, 4
"""Every check halves the steps so often; it goes on to the second number while the outputs have not settled."""
COARSEST = 6
_HIGHER = ("midpoint", "rk4")
_ROUNDING = 16
"""A relative tolerance below so many times the precision of the outputs means nothing."""
_EXPECTED = 9
"""Trials that most checks take, for the progress bar."""
_NOT_FINITE = "the outputs are not finite"


@dataclass(frozen=True, eq=False)
class Trial:
    """One pass over all examples with one choice of solvers."""

    solvers: Solvers
    outputs: list[Tensor] | None
    """None where they are not finite, or the solver gave up."""
    nfe: int
    failure: str = ""

    @property
    def name(self) -> str:
        return name_of(self.solvers)


class Trials:
    """All trials of one subject, each made once.

    Args:
        is_close: whether outputs (the second) are close enough to others (the first) to count as the same.
    """

    def __init__(self, subject: Subject, reader: Reader, is_close: IsClose, report: Report):
        self.subject, self.reader, self.is_close, self.report = subject, reader, is_close, report
        self.made: dict[Solvers, Trial] = {}
        own = subject.solvers
        self.trained = self._trained()
        for level in range(1, ALWAYS + 1):
            self._try(self._finer(own, level))
        for scheme in _HIGHER:
            self._try(_raised(own, scheme))
        self.has_settled = False
        self.change: float | None = None
        self.reference = self._settle(_raised(own, _HIGHER[-1]))
        self._approach()
        ladder = self.levels
        self.finer = [*ladder[1:], *(trial for trial in self.made.values() if trial not in ladder)]
        self.coarser = self._coarser()

    @property
    def levels(self) -> list[Trial]:
        """The trained scheme: as it is, and with its steps halved again and again."""
        choices = dict.fromkeys(self._finer(self.subject.solvers, level) for level in range(FINEST + 1))
        return [self.made[solvers] for solvers in choices if solvers in self.made]

    @property
    def critical_step(self) -> float | None:
        """The largest tried step of the trained scheme such that it and all smaller ones give the settled outputs.

        None where the outputs have not settled, the solver chooses its own steps, or no tried step is small enough.
        """
        settled, found = self.reference.outputs, None
        if not self.has_settled or settled is None:
            return None
        for trial in [*self.levels[::-1], *self.coarser]:
            if trial.outputs is None or not self.is_close(settled, trial.outputs):
                break
            found = largest_step(trial.solvers)
        return None if found is None else found * self.subject.duration

    def _trained(self) -> Trial:
        solvers = self.subject.solvers
        trial = self._run(solvers)
        if trial.outputs is None:
            raise NumericalError(
                f"the outputs with {trial.name}, as the model is, are not finite; there is no verdict: "
                "see whether the inputs and the weights are finite"
            )
        if not self.reader.count(trial.outputs):
            raise DataError(
                f"nothing to judge: every label is {IGNORED} (ignore), or the outputs are empty; "
                "give inputs with other labels, or inputs without labels"
            )
        self.made[solvers] = trial
        return trial

    def _run(self, solvers: Solvers) -> Trial:
        self.report(f"running {name_of(solvers)}", min(0.97, len(self.made) / _EXPECTED))
        try:
            found = self.subject.outputs(solvers, self.reader.examples)
        except SolverError:
            raise
        except NumericalError:
            return Trial(solvers, None, self.subject.nfe, _NOT_FINITE)
        if not is_finite(found.batches):
            return Trial(solvers, None, found.nfe, _NOT_FINITE)
        return Trial(solvers, found.batches, found.nfe)

    def _try(self, solvers: Solvers) -> Trial | None:
        """A trial, made now or before; None where the precision does not allow the tolerance."""
        if solvers not in self.made:
            try:
                self.made[solvers] = self._run(solvers)
            except SolverError as error:
                if error.cause is Cause.UNDERFLOW:
                    return None
                why = _NOT_FINITE if error.cause is Cause.NON_FINITE else "the solver does not finish"
                self.made[solvers] = Trial(solvers, None, error.stats.evaluations, why)
        return self.made[solvers]

    def _finer(self, solvers: Solvers, level: int) -> Solvers:
        precision = torch.finfo((self.trained.outputs or [torch.empty(0)])[0].dtype).eps
        return tuple(finer(solver, level, _ROUNDING * precision) for solver in solvers)

    def _settle(self, base: Solvers) -> Trial:
        """Halve the steps of the highest order until that changes nothing; the last trial, finest of all."""
        before = self._try(base)
        assert before is not None
        at_least = ALWAYS if base == self.subject.solvers else 1
        for level in range(1, FINEST + 1):
            after = self._try(self._finer(base, level))
            if after is None or after is before:
                break
            self.change = _change(before, after)
            self.has_settled = self._is_settled(before, after)
            before = after
            if level >= at_least and self.has_settled:
                break
        return before

    def _is_settled(self, before: Trial, after: Trial) -> bool:
        change = _change(before, after)
        if change is None or before.outputs is None or after.outputs is None:
            return False
        same = self.reader.same(before.outputs, after.outputs)
        return change <= SETTLED and (same is None or same.percent >= SAME)

    def _approach(self) -> None:
        """Halve the steps of the trained scheme until its outputs are close to those that settled."""
        settled = self.reference.outputs
        for level in range(ALWAYS + 1, FINEST + 1):
            last = self.levels[-1].outputs
            if not self.has_settled or settled is None or (last is not None and self.is_close(settled, last)):
                return
            self._try(self._finer(self.subject.solvers, level))

    def _coarser(self) -> list[Trial]:
        found, solvers = [], self.subject.solvers
        for _ in range(COARSEST):
            before, solvers = solvers, tuple(map(coarser, solvers))
            trial = None if solvers == before else self._try(solvers)
            if trial is None:
                break
            found.append(trial)
        return found


def _change(before: Trial, after: Trial) -> float | None:
    return None if before.outputs is None or after.outputs is None else gap(before.outputs, after.outputs)


def _raised(solvers: Solvers, scheme: str) -> Solvers:
    return tuple(raised(solver, scheme) for solver in solvers)
