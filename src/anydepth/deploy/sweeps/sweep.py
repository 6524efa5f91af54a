"""Sweep: one trained model in every form of a grid, measured; a killed sweep resumes."""

import os
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypedDict

import torch
from torch import nn

from anydepth import artifact
from anydepth.deploy.anytime.rungs import STATISTICS
from anydepth.deploy.recalibrate import training_batches
from anydepth.deploy.sweeps.candidates import Axes, axes_of
from anydepth.deploy.sweeps.depth_rows import DepthRows
from anydepth.deploy.sweeps.result import DepthRow, FormRow, Sweep, depth_form
from anydepth.deploy.sweeps.sweep_file import file_name, known_rows, write_sweep
from anydepth.deploy.sweeps.sweep_inputs import SweepInputs, inputs_by_hand, inputs_of_run
from anydepth.errors import ConfigError, DataError, NumericalError
from anydepth.json_values import JsonObject
from anydepth.measure.cost import is_busy
from anydepth.measure.form_meter import FormMeter
from anydepth.reporting import Report
from anydepth.runs.folder import Run, open_run
from anydepth.runs.lock import locked, refuse_if_locked
from anydepth.surgery.change import history
from anydepth.surgery.forms import Form, form_of, in_form
from anydepth.surgery.summary import summary

MOST = 1024
"""Forms of one sweep."""
SWEEP_ROUNDS = 11
"""How often a form and the source are timed in turns."""

Keep = Callable[[Sweep, bool], None]


class Chosen(TypedDict, total=False):
    """The grid of a sweep, as far as it was asked for; see `sweep`."""

    bases: Sequence[str] | None
    sizes: Sequence[int] | None
    steps: Sequence[int] | None
    schemes: Sequence[str] | None


def sweep(
    subject: nn.Module | Run | str | os.PathLike[str],
    batches: Iterable[object] | None = None,
    *,
    bases: Sequence[str] | None = None,
    sizes: Sequence[int] | None = None,
    steps: Sequence[int] | None = None,
    schemes: Sequence[str] | None = None,
    anytime: Sequence[float] = (),
    split: str | None = "validation",
    data: Path | None = None,
    examples: int | None = None,
    classes: bool | None = None,
    batch: int = 1,
    rounds: int = SWEEP_ROUNDS,
    threads: int | None = None,
    out: str | os.PathLike[str] | None = None,
    fresh: bool = False,
    report: Report | None = None,
) -> Sweep:
    """Project a trained model to every form of a grid, and measure accuracy and cost of each.

    The frozen network is what is timed, weighed and counted, where there is one. Results of a run are kept in its
    folder after every form; a killed sweep resumes from there.

    Args:
        subject: a model, given with batches; or a run or its folder.
        batches: of a model, inputs or pairs of inputs and labels.
        bases, sizes, steps, schemes: the grid; by default the model's own basis, its size down the ladder of nested
            sizes (linear 9, 5, 3, 2, 1; all sizes up to 4), its steps halved down to 1, its
            scheme and one of every lower order.
        anytime: for each of these drops, in points, one more form: a depth for every example; see `ad.Anytime`.
        split: of a run, the part of its data; None: no data, errors are estimated on random inputs.
        data: of a run, the data directory.
        examples: of a run, measure on at most this many examples.
        classes: of a model, whether outputs are scores of classes; by default labels or outputs tell.
        batch: examples in one timed pass.
        rounds: how often each form is timed, alternating with the source.
        threads: of PyTorch while measuring.
        out: of a run, another folder to keep results in.
        fresh: measure everything again and ignore stored results.
        report: a function called with the progress.
    """
    for name, count in (("batch", batch), ("rounds", rounds), ("examples", examples), ("threads", threads)):
        if count is not None and count < 1:
            raise ConfigError(f"{name} of a sweep must be a whole number of at least 1, got {count}")
    grid: Chosen = {"bases": bases, "sizes": sizes, "steps": steps, "schemes": schemes}
    with threads_set_to(threads):
        if isinstance(subject, nn.Module):
            given = inputs_by_hand(subject, batches, classes, batch, rounds)
            return _swept(given, axes_of(subject, **grid), _asked(given, anytime, None), {}, None, report, "")
        run = subject if isinstance(subject, Run) else open_run(Path(subject))
        folder = run.folder if out is None else Path(out)
        refuse_if_locked(folder)
        given = inputs_of_run(run, data, split, examples, batch, rounds)
        return sweep_on(given, run, split, folder, grid, fresh, report, anytime)


def sweep_on(
    given: SweepInputs,
    run: Run,
    split: str | None,
    folder: Path,
    grid: Chosen,
    fresh: bool = False,
    report: Report | None = None,
    anytime: Sequence[float] = (),
) -> Sweep:
    """The sweep of a run on inputs that are at hand, kept in a folder; `split` is the part that was asked for."""
    with _held(folder):
        path, axes, model = folder / file_name(split), axes_of(given.meter.model, **grid), run.model_hash()
        known, why = known_rows(path, model, settings_of(given), fresh)
        deep = _asked(given, anytime, run)

        def keep(found: Sweep, is_complete: bool) -> None:
            write_sweep(path, found, model, axes, is_complete)

        return _swept(given, axes, deep, known, keep, report, why)


def _asked(given: SweepInputs, drops: Sequence[float], run: Run | None) -> dict[float, DepthRows]:
    """What measures a depth for every example, by the drop that is allowed."""
    if not drops:
        return {}
    if run is None:
        made = DepthRows(given.meter, None)
    elif given.split == "train":
        raise DataError(
            "a depth for every example is calibrated on examples that did not train the model; the run "
            "holds out no validation part, so use --split test, or train it with data.validation above 0"
        )
    else:
        made = DepthRows(given.meter, lambda: training_batches(run, None, given.dataset)[:STATISTICS])
    for drop in drops:
        made.check(drop)
    return dict.fromkeys(sorted(set(drops)), made)


@contextmanager
def threads_set_to(count: int | None) -> Iterator[None]:
    """PyTorch with so many threads, for a while."""
    before = torch.get_num_threads()
    try:
        if count is not None:
            torch.set_num_threads(count)
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """The folder, made if need be and held against other processes."""
    artifact.make_folder(folder)
    with locked(folder):
        artifact.remove_temporaries(folder)
        yield


def settings_of(given: SweepInputs) -> JsonObject:
    """What rows must have in common to be compared."""
    return {
        "examples": given.examples,
        "data": given.digest,
        "batch": len(given.meter.inputs[0]),
        "threads": torch.get_num_threads(),
        "rounds": given.meter.rounds,
        "device": given.meter.inputs[0].device.type,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "torch": torch.__version__,
    }


def _swept(
    given: SweepInputs,
    axes: Axes,
    anytime: Mapping[float, DepthRows],
    known: dict[str, FormRow | DepthRow],
    keep: Keep | None,
    report: Report | None,
    why: str,
) -> Sweep:
    meter, source = given.meter, form_of(given.meter.model)
    forms = [source, *(candidate for candidate in axes.candidates() if candidate != source)]
    if len(forms) > MOST:
        raise ConfigError(f"a sweep of {len(forms):,} forms is more than {MOST:,}; name fewer sizes, steps or schemes")
    rows = {name: row for name, row in known.items() if isinstance(row, FormRow)}
    deep = {name: row for name, row in known.items() if isinstance(row, DepthRow)}
    refused: dict[str, str] = {}
    note = "; ".join(filter(None, (given.note, why, _busy())))

    def measure(plan: Form | float) -> None:
        if isinstance(plan, Form):
            rows[str(plan)] = measured(meter, plan, rows.get(str(source)))
        else:
            deep[names[plan]] = anytime[plan].row(plan, rows[str(source)])

    def found() -> Sweep:
        order = sorted(rows.values(), key=lambda row: not row.is_source)
        last = sorted(deep.values(), key=lambda row: row.max_drop)
        return Sweep(tuple(order), meter.metric, given.split, settings_of(given), refused, note, tuple(last))

    names = {plan: str(plan) for plan in forms} | {drop: str(depth_form(source, drop)) for drop in anytime}
    for place, (plan, name) in enumerate(names.items()):
        if name in rows or name in deep:
            continue
        if report is not None:
            report(name, place / len(names))
        try:
            measure(plan)
        except (ConfigError, NumericalError) as error:
            if plan == source:
                raise
            refused[name] = str(error)
        if keep is not None:
            keep(found(), False)
    if keep is not None:
        keep(found(), True)
    return found()


def _busy() -> str:
    if not is_busy():
        return ""
    return "the machine was busy, so latencies are rough; sweep again with --fresh when it is idle"


def measured(meter: FormMeter, candidate: Form, source: FormRow | None) -> FormRow:
    """One form of the model; `source` is the source's own row, None for that itself."""
    model = meter.model if source is None else in_form(meter.model, candidate)
    outputs = meter.source_outputs if source is None else meter.outputs(model)
    moved = max((c[-1].largest_error for c in history(model).values() if c), default=0.0) if source else 0.0
    cost, made_of = meter.cost(model), summary(model)
    value = None if outputs is None else meter.value(outputs)
    solver_error = None
    if meter.examples is None:
        solver_error = 0.0 if source is None else meter.solver_error(model)
        value = None if solver_error is None or outputs is None else 100 * (moved + solver_error)
    return FormRow(
        basis=candidate.basis,
        size=candidate.size,
        steps=candidate.steps,
        scheme=candidate.scheme,
        is_source=source is None,
        parameters=made_of.parameters,
        nfe=made_of.nfe,
        flops=cost.flops,
        memory_bytes=cost.memory_bytes,
        latency_ms=cost.latency_ms if source is None else cost.ratio * source.latency_ms,
        latency_ratio=1.0 if source is None else cost.ratio,
        is_frozen=cost.is_frozen,
        value=value,
        agreement=None if outputs is None else meter.agreement(outputs),
        paired=None if outputs is None else meter.paired(outputs),
        projection_error=moved,
        solver_error=solver_error,
    )
