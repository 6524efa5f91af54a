"""The forms of a run that a server answers with: frozen side by side, and timed before the first request."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import torch
from torch import Tensor

from anydepth.data.facts import Facts
from anydepth.deploy.depth_controller import Rung
from anydepth.deploy.predictor import Predictor, of_module
from anydepth.deploy.sweeps.result import FormRow, Sweep
from anydepth.deploy.sweeps.sweep import SWEEP_ROUNDS, sweep_on
from anydepth.deploy.sweeps.sweep_file import sweep_of
from anydepth.deploy.sweeps.sweep_inputs import inputs_of_run, plain_form, random_inputs
from anydepth.errors import DataError
from anydepth.measure.paired import RISING
from anydepth.reporting import Report
from anydepth.runs.folder import Run
from anydepth.surgery.forms import Form, in_form

MAX_DROP = 2.0
"""Points below the model as trained that a form may lose, as measured."""
_CHEAPER = 0.9
"""A rung takes at most this share of the time of the one above."""
_ROUNDS, _MANY = 5, 16


@dataclass(frozen=True)
class ServedForm:
    """One form, ready to answer; its own tensors, so that no other form can disturb a pass."""

    name: str
    """As clients write it."""
    row: FormRow
    predictor: Predictor
    rung: Rung


@dataclass(frozen=True)
class Served:
    """What a server answers with, the deepest form first."""

    run: Run
    sweep: Sweep
    forms: tuple[ServedForm, ...]

    @property
    def facts(self) -> Facts:
        return self.run.facts

    @property
    def told_as(self) -> str:
        """What the value of a form is called in answers."""
        return f"{self.sweep.split or 'estimated'}_{self.sweep.metric}"


def served(
    run: Run,
    data: Path | None = None,
    max_drop: float = MAX_DROP,
    is_fixed: bool = False,
    threads: int | None = None,
    report: Report | None = None,
) -> Served:
    """The run's model as it is, and below it the forms of its sweep that none beats; the sweep is made if need be.

    Args:
        data: the data directory, for the sweep.
        max_drop: how much less accurate than the model as it is a form may be.
        is_fixed: the model as it is alone.
        threads: of PyTorch, from now on; by default as many as the sweep was measured with.
    """
    sweep = _sweep(run, data, report)
    torch.set_num_threads(threads or int(sweep.settings["threads"]))
    rows = [sweep.source]
    if not is_fixed:
        front = reversed(sweep.front_by("latency_ms"))
        is_close = sweep.metric not in RISING
        rows += [row for row in front if not row.is_source and (is_close or sweep.drop(row) <= max_drop)]
    model = run.model()
    forms: list[ServedForm] = []
    for row in rows:
        if report is not None:
            report(f"preparing {row.name}", len(forms) / len(rows))
        plain, _ = plain_form(in_form(model, row.form), random_inputs(run.facts, 2))
        made = _timed(short_name(row.form, sweep.source.form), row, of_module(plain, run.facts))
        if not forms or made.rung.milliseconds(_MANY) <= _CHEAPER * forms[-1].rung.milliseconds(_MANY):
            forms.append(made)
    return Served(run, sweep, tuple(forms))


def _sweep(run: Run, data: Path | None, report: Report | None) -> Sweep:
    """The one that is kept, or a new one that then is; without data where there is none."""
    for split in ("validation", None):
        kept = sweep_of(run, split)
        if kept is not None:
            return kept
        try:
            given = inputs_of_run(run, data, split, None, 1, SWEEP_ROUNDS)
        except DataError:
            continue
        return sweep_on(given, run, split, run.folder, {}, report=report)
    raise AssertionError("a sweep without data needs none")


def short_name(form: Form, source: Form) -> str:
    """Scheme and steps, as in rk4-16; basis and size too where they are not the source's."""
    solver = form.scheme if form.steps is None else f"{form.scheme}-{form.steps}"
    is_same = (form.basis, form.size) == (source.basis, source.size)
    return solver if is_same else f"{solver}-{form.basis}-{form.size}"


def _timed(name: str, row: FormRow, predictor: Predictor) -> ServedForm:
    """From two examples on, a pass is taken for a constant and a part for every example; controllers correct both."""
    one, two, many = (_milliseconds(predictor, random_inputs(predictor.facts, count)) for count in (1, 2, _MANY))
    each = max((many - two) / (_MANY - 2), 0.2 * many / _MANY, 1e-6)
    rung = Rung(name, row.value if row.value is not None else 0.0, each, max(two - 2 * each, 0.0), one)
    return ServedForm(name, row, predictor, rung)


def _milliseconds(predictor: Predictor, inputs: Sequence[Tensor]) -> float:
    times = []
    for _ in range(_ROUNDS + 1):
        began = perf_counter()
        predictor(inputs)
        times.append(1000 * (perf_counter() - began))
    return min(times[1:])
