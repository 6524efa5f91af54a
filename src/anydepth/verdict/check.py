"""Check: run a trained model with solvers of equal or smaller error; a proper ODE hardly notices."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from math import isnan

import torch
from torch import Tensor, nn

from anydepth.data.table import Batch
from anydepth.depth.grids import GridLike
from anydepth.depth.times import TimeLike
from anydepth.errors import NumericalError
from anydepth.measure.crossings import crossing_rate
from anydepth.measure.distance import distance as distance_between
from anydepth.measure.distance import relative_distance
from anydepth.measure.observed_order import observed_order
from anydepth.measure.predictions import Margin, Reader, examples_of, gap
from anydepth.printing import html_table, text_table
from anydepth.reporting import Report
from anydepth.verdict.arguments import are_classes, subject_of
from anydepth.verdict.row import SolverRow, is_as_accurate, row_of
from anydepth.verdict.rule import FAR, THIN, Limits, judged
from anydepth.verdict.subject import Subject
from anydepth.verdict.swap import largest_step, order_of
from anydepth.verdict.trials import IsClose, Trials

_LIMITS = Limits()
_GUESS = "the last of three axes was taken for classes; give classes=False if the outputs are numbers"
_PAIRS = 5_000_000
"""Pairs of straight pieces that are looked at for crossings, at most."""


@dataclass(frozen=True)
class Verdict:
    """Whether a model is a proper ODE: its outputs belong to the ODE and not to one solver."""

    proper: bool
    reason: str
    table: tuple[SolverRow, ...]
    """The trained solver first, then those of equal or smaller error."""
    coarser: tuple[SolverRow, ...] = ()
    """Fewer steps than the model was trained with; the verdict does not rest on them."""
    reference: str = ""
    """The finest solver, which stands for the ODE itself."""
    settled: bool = False
    """Whether halving the steps once more no longer changes the outputs."""
    order: float | None = None
    """At which outputs converge when the trained steps are halved; None where rounding hides it, or without a grid."""
    scheme_order: int | None = None
    """What the scheme promises for smooth fields; the lowest where blocks differ."""
    step: float | None = None
    """The largest step the model was trained with; None for adaptive solvers."""
    critical_step: float | None = None
    """The largest tried step of the trained scheme such that it and all smaller ones give the settled outputs."""
    margin: Margin | None = None
    """Margins of the trained predictions against the solver's error."""
    crossing_rate: float | None = None
    """Share of pairs of trajectories that cross, as trained; of planar autonomous states on a fixed grid only."""

    def describe(self) -> dict[str, object]:
        """JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self._word}: {self.reason}\n{text_table(_HEAD, self._body())}"

    def _repr_html_(self) -> str:
        return html_table(_HEAD, self._body(), above=f"{self._word}: {self.reason}")

    @property
    def _word(self) -> str:
        return "proper" if self.proper else "not proper"

    def _body(self) -> list[tuple[str, ...]]:
        return [_cells(row) for row in (*self.table, *self.coarser)]


_HEAD = ("solver", "NFE", "same", "accuracy", "change", "error")


def _cells(row: SolverRow) -> tuple[str, ...]:
    """A solver of larger error than the trained one, which does not count, is starred."""
    same, accuracy = ("-" if x is None else f"{x:.1f} %" for x in (row.agreement, row.accuracy))
    change = "not finite" if row.distance is None else f"{row.distance:.1e}"
    error = "-" if row.error is None else f"{row.error:.1e}"
    return row.solver + ("" if row.counts else " *"), str(row.nfe), same, accuracy, change, error


def check(
    model: nn.Module | Callable[[Tensor, object], object],
    batches: Iterable[object],
    classes: bool | None = None,
    agreement: float = _LIMITS.agreement,
    distance: float = _LIMITS.distance,
    report: Report | None = None,
    *,
    scheme: str | None = None,
    steps: GridLike | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    head: Callable[[object], Tensor] | None = None,
    span: tuple[TimeLike, TimeLike] = (0, 1),
) -> Verdict:
    """Judge a model by running it with more steps, a higher order, or a tighter tolerance.

    Args:
        model: a module with continuous blocks; or a vector field f(t, y), given with the solver it was trained with.
        batches: inputs; or pairs of inputs and labels, which add accuracies to the table.
        classes: whether outputs are scores of classes along the last axis (a single score: of two classes by its sign),
            or numbers. By default labels tell, if they are whole numbers or not. Without labels, outputs of two or
            three axes are scores unless there is only one; feature maps of more axes, and states (of one block alone,
            or of a field without a head) are numbers.
        agreement: per cent of predictions that must stay the same.
        distance: largest relative change of outputs, if they are no classes.
        scheme, steps, rtol, atol: of a vector field, the solver it was trained with.
        head: of a vector field, makes outputs from the last state.
        span: of a vector field, the times between which it is integrated.
    """
    limits = Limits(agreement, distance)
    settings = {"scheme": scheme, "steps": steps, "rtol": rtol, "atol": atol}
    subject = subject_of(model, {name: value for name, value in settings.items() if value is not None}, head, span)
    examples = examples_of(batches)
    reader = Reader(examples, are_classes(classes, subject, examples, head))
    trials = Trials(subject, reader, _closeness(reader, limits), report or _silent)
    if not trials.finer:
        raise NumericalError(
            f"no solver finer than {trials.trained.name} could be run in this precision; use model.double(), "
            "or a fixed scheme"
        )
    verdict = _verdict(trials, limits)
    assert trials.trained.outputs is not None
    is_guess = classes is None and reader.classes and not reader.has_labels and trials.trained.outputs[0].dim() == 3
    return replace(verdict, reason=f"{verdict.reason}; {_GUESS}") if is_guess else verdict


def _verdict(trials: Trials, limits: Limits) -> Verdict:
    reader, subject, trained, finest = trials.reader, trials.subject, trials.trained.outputs, trials.reference.outputs
    assert trained is not None
    rows = [row_of(t, trained, finest, reader, subject.duration) for t in (trials.trained, *trials.finer)]
    if trials.has_settled:
        rows = [replace(row, counts=is_as_accurate(row, rows[0])) for row in rows]
    proper, reason = judged(rows, limits, reader.classes)
    step = largest_step(subject.solvers)
    coarser = [row_of(t, trained, finest, reader, subject.duration) for t in trials.coarser]
    return Verdict(
        proper,
        "; ".join([reason, *_remarks(trials, rows, proper)]),
        tuple(rows),
        tuple(replace(row, counts=False) for row in coarser),
        trials.reference.name,
        trials.has_settled,
        _order(trials),
        order_of(subject.solvers),
        None if step is None else step * subject.duration,
        trials.critical_step,
        None if finest is None else reader.margin(trained, finest),
        _crossings(subject, reader.examples[0]),
    )


def _remarks(trials: Trials, rows: list[SolverRow], proper: bool) -> list[str]:
    """What else the reader of a verdict should know."""
    found, reader, trained = [], trials.reader, trials.trained.outputs
    assert trained is not None
    same = reader.same(trained, trained)
    seen = sum(len(batch) if batch.dim() else 1 for batch in trained) if same is None else same.count
    changes = [row.distance for row in rows[1:] if row.counts and row.distance is not None]
    if proper and reader.classes and max(changes, default=0.0) > FAR:
        lost = f"the outputs change by {100 * max(changes):.0f} % of their size all the same"
        found.append(f"{lost}: the predictions survive by their margins")
    if proper and not trials.has_settled and trials.change is not None:
        found.append(
            f"with {trials.reference.name} the outputs still change by {100 * trials.change:.2g} % per halving"
        )
    if same is not None and same.count and reader.kinds(trained) == 1:
        found.append("all predictions are of one class, so their agreement says little")
    if seen < THIN:
        found.append(f"the evidence is thin: {seen} {'examples' if same is None else 'predictions'}")
    return found


def _order(trials: Trials) -> float | None:
    """By Richardson: from the changes at each halving of the steps, as far as they are above rounding."""
    outputs = [trial.outputs for trial in trials.levels]
    if order_of(trials.subject.solvers) is None or any(found is None for found in outputs):
        return None
    known = [found for found in outputs if found is not None]
    floor = 64 * torch.finfo(known[0][0].dtype).eps
    above = [distance_between(a, b) for a, b in pairwise(known) if relative_distance(a, b) > floor]
    order = observed_order(above)
    return None if isnan(order) else order


def _crossings(subject: Subject, example: Batch) -> float | None:
    """Among the first examples, as many as can be looked at."""
    paths = subject.paths(example)
    if paths is None or paths.shape[1] < 2:
        return None
    points = max(10, int((2 * _PAIRS) ** 0.5 / (len(paths) - 1)))
    return crossing_rate(paths[:, : min(points, 100)])


def _closeness(reader: Reader, limits: Limits) -> IsClose:
    def is_close(settled: Sequence[Tensor], outputs: Sequence[Tensor]) -> bool:
        same = reader.same(settled, outputs)
        if same is not None:
            return same.percent >= limits.agreement
        change = gap(settled, outputs)
        return change is not None and change <= limits.distance

    return is_close


def _silent(what: str, share: float) -> None:
    """Nobody asked."""
