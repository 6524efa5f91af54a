"""One line of the table."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from anydepth.measure.predictions import Reader, gap
from anydepth.verdict.swap import largest_step, scheme_of
from anydepth.verdict.trials import Trial

ROUNDING = 1e-6
"""Errors that differ by less, relative to the outputs, count as equal."""


@dataclass(frozen=True)
class SolverRow:
    """One solver: how its outputs compare with those of the solver the model was trained with."""

    solver: str
    nfe: int
    agreement: float | None
    """Per cent of predictions that are the same; None without classes."""
    distance: float | None
    """Root mean square of the change, relative to that of the outputs; None if the outputs are not finite."""
    accuracy: float | None
    """Per cent right, where labels are given."""
    agreement_low: float | None = None
    agreement_high: float | None = None
    """Wilson's interval of 95 % for the agreement."""
    safe: float | None = None
    """Per cent of predictions whose margin exceeds the change of the scores: these cannot differ."""
    error: float | None = None
    """Relative distance from the outputs of the finest solver."""
    scheme: str = ""
    step: float | None = None
    """The largest step; None where the solver chooses its steps."""
    counts: bool = True
    """Whether the verdict rests on it: its error is not larger than that of the trained solver."""
    failure: str = ""
    """Why there are no outputs, if there are none."""


def row_of(
    trial: Trial, trained: Sequence[Tensor], finest: Sequence[Tensor] | None, reader: Reader, unit: float
) -> SolverRow:
    """A trial beside the trained outputs and the finest ones; `unit` is one unit of depth in the field's time."""
    step = largest_step(trial.solvers)
    known = {"scheme": scheme_of(trial.solvers), "step": None if step is None else step * unit}
    outputs = trial.outputs
    if outputs is None:
        nothing = 0.0 if reader.classes else None
        return SolverRow(trial.name, trial.nfe, nothing, None, None, nothing, nothing, **known, failure=trial.failure)
    same, margin = reader.same(trained, outputs), reader.margin(trained, outputs)
    low, high = (None, None) if same is None else same.interval
    return SolverRow(
        trial.name,
        trial.nfe,
        None if same is None else same.percent,
        gap(trained, outputs),
        reader.accuracy(outputs),
        low,
        high,
        None if margin is None else margin.safe,
        None if finest is None else gap(finest, outputs),
        **known,
    )


def is_as_accurate(row: SolverRow, trained: SolverRow) -> bool:
    """Whether a solver's error is not larger than the trained solver's, or not known to be."""
    return row.error is None or trained.error is None or row.error <= trained.error + ROUNDING
