"""The form of a run's model that fits a budget, measured once more before it is taken."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from torch import nn

from anydepth.deploy.sweeps.budget import Budget
from anydepth.deploy.sweeps.result import FormRow, Sweep
from anydepth.deploy.sweeps.sweep import SWEEP_ROUNDS, sweep_on, threads_set_to
from anydepth.deploy.sweeps.sweep_file import sweep_of
from anydepth.deploy.sweeps.sweep_inputs import SweepInputs, inputs_of_run
from anydepth.errors import BudgetError, DataError, ModelFileError
from anydepth.reporting import Report
from anydepth.runs.folder import Run
from anydepth.surgery.forms import in_form

MARGIN = 0.1
"""Share of a latency that is kept free at first, since clocks are noisy."""


ROUNDS = 21
"""Of the measurement before a form is taken."""


@dataclass(frozen=True)
class Picked:
    """A row of a sweep, and its latency as it was measured once more; None where no latency was asked for."""

    row: FormRow
    latency_ms: float | None = None


@dataclass(frozen=True)
class Fitted:
    """A run's model in the form that fits a budget."""

    model: nn.Module
    picked: Picked
    sweep: Sweep
    inputs: SweepInputs
    """What it was measured on, with the run's own model."""
    unread: str = ""
    """Why data could not be used."""


def pick(table: Sweep, budget: Budget, timed: Callable[[FormRow], float]) -> Picked:
    """The best row within the budget; with a latency, the best whose fresh measurement keeps it.

    Rows that keep a margin come first. One that fails takes with it all that the sweep found to be as slow and that
    have as much to compute: its latency may be the one that was measured badly.
    """
    ranked = table.ranked(budget)
    limit = budget.max_latency_ms
    if limit is None:
        return Picked(ranked[0])
    waiting = sorted(ranked, key=lambda row: row.latency_ms > (1 - MARGIN) * limit)
    lowest: tuple[float, str] | None = None
    while waiting:
        row = waiting[0]
        fresh = timed(row)
        if fresh <= limit:
            return Picked(row, fresh)
        lowest = min(lowest or (fresh, row.name), (fresh, row.name))
        waiting = [other for other in waiting if other.latency_ms < row.latency_ms or other.flops < row.flops]
    assert lowest is not None
    raise BudgetError(
        f"no form of this model meets {budget} when measured once more; the lowest latency is {lowest[0]:.3g} ms "
        f"({lowest[1]}); is the machine busy?"
    )


def fit_to(
    run: Run,
    budget: Budget,
    data: Path | None = None,
    use_data: bool = True,
    folder: Path | None = None,
    report: Report | None = None,
) -> Fitted:
    """Pick from the run's sweep, which is made first if it is not there; where data is missing, without data.

    Args:
        folder: where the sweep is kept, by default the run's folder.
    """
    split = "validation" if use_data else None
    table, folder = _kept(run, split, folder), folder or run.folder
    try:
        given = inputs_of_run(run, data, split, None, 1 if table is None else table.settings["batch"], SWEEP_ROUNDS)
    except DataError as error:
        if not use_data:
            raise
        return replace(fit_to(run, budget, data, False, folder, report), unread=str(error))
    table = table or sweep_on(given, run, split, folder, {}, report=report)
    meter = given.meter
    meter.rounds = ROUNDS
    with threads_set_to(table.settings["threads"]):
        picked = pick(table, budget, lambda row: meter.cost(in_form(meter.model, row.form)).latency_ms)
    return Fitted(in_form(meter.model, picked.row.form), picked, table, given)


def _kept(run: Run, split: str | None, folder: Path | None) -> Sweep | None:
    """The finished sweep that is there; one that is damaged is left to be measured again."""
    try:
        return sweep_of(run, split, folder)
    except ModelFileError:
        return None
