"""What a sweep found: rows, the front that none of them dominates, the best within a budget. Numbers, no torch."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import isfinite

from anydepth.deploy.sweeps.budget import CONFIDENCE, Budget
from anydepth.errors import BudgetError
from anydepth.json_values import JsonObject
from anydepth.measure.paired import CLOSE, Paired, drop_of, loss_in, shown
from anydepth.printing import html_table, text_table
from anydepth.surgery.forms import Form

COSTS = ("parameters", "latency_ms")
"""What a form is paid for with."""
RIVALS = 2
"""As how many independent forms those of a sweep count when one is chosen, since they answer nearly alike.

With as many as there are, one would give away most of what can be had; see benchmarks/picks.py for what two leave."""


@dataclass(frozen=True)
class FormRow:
    """One form of a model, what it costs, and how well it does."""

    basis: str
    size: int
    steps: int | None
    """None: an adaptive scheme, which chooses its own."""
    scheme: str
    is_source: bool
    parameters: int
    nfe: int
    flops: int
    """Of one example: matrix products, convolutions, attention."""
    memory_bytes: int
    """Weights, inputs, and the tensors of one pass that are alive at the same time."""
    latency_ms: float
    """Of one batch; the median ratio to the source, measured in turns, times the source's own median."""
    latency_ratio: float
    """To the source."""
    is_frozen: bool
    """Whether the plain network was measured, or, where there is none, the model itself."""
    value: float | None
    """The sweep's metric; None where outputs are not finite."""
    agreement: float | None
    """Per cent of predictions that are the source's; None without classes or without data."""
    paired: Paired | None
    """The form beside the source on the same examples; None without data or where outputs are not finite."""
    projection_error: float
    """Largest relative L2 change over depth of a tensor."""
    solver_error: float | None
    """Relative distance of outputs from those of the same weights with the source's solver, on random inputs."""

    @property
    def form(self) -> Form:
        return Form(self.basis, self.size, self.steps, self.scheme)

    @property
    def name(self) -> str:
        return str(self.form)

    def describe(self) -> JsonObject:
        """JSON values."""
        return {"name": self.name, **asdict(self)}


def depth_form(own: "Form | FormRow | DepthRow", max_drop: float) -> Form:
    """The same weights with a depth for every example."""
    return Form(own.basis, own.size, None, f"anytime {max_drop:g}")


@dataclass(frozen=True)
class DepthRow:
    """An anytime net: a coarse form answers first, and finer ones only where it is unsure.

    Its figures are of examples that did not calibrate it: two nets, each calibrated on a half, answer the other half.
    """

    basis: str
    size: int
    max_drop: float
    """Points that it may lose, with `confidence`."""
    confidence: float
    stops: dict[str, float]
    """Per cent of the examples that each form answered."""
    parameters: int
    evaluations: float
    """Mean over examples, of all passes that each took."""
    latency_ms: float
    """Of one batch; the median ratio to the source on the same batches, in turns, times the source's latency."""
    latency_ratio: float
    value: float | None
    agreement: float | None
    paired: Paired | None
    """Beside the source on the same examples."""

    @property
    def name(self) -> str:
        return str(depth_form(self, self.max_drop))

    def describe(self) -> JsonObject:
        """JSON values."""
        return {"name": self.name, **asdict(self)}


@dataclass(frozen=True)
class Sweep:
    """The result of a sweep: all forms that were measured, the source model first."""

    rows: tuple[FormRow, ...]
    metric: str
    """accuracy, rmse, agreement (data without labels), or error (no data)."""
    split: str | None = None
    """The part of the data; None: no data, or data given by hand."""
    settings: JsonObject = field(default_factory=dict)
    """How it was measured: examples, batch, threads, rounds, machine."""
    refused: dict[str, str] = field(default_factory=dict)
    """Forms that could not be made, and why."""
    note: str = ""
    """What a reader should know of the data."""
    anytime: tuple[DepthRow, ...] = ()
    """Forms whose depth is another for every example, where they were asked for."""

    @property
    def source(self) -> FormRow:
        """The row of the model as it is."""
        return next(row for row in self.rows if row.is_source)

    @property
    def front(self) -> tuple[FormRow, ...]:
        """The Pareto front: rows that no other row beats in value, parameters and latency."""
        return front(self.rows, self.metric)

    def front_by(self, cost: str) -> tuple[FormRow, ...]:
        """The front of the value against one cost, the cheapest first; of equals those that cost least otherwise."""
        mine, whole = front(self.rows, self.metric, (cost,)), set(self.front)
        return tuple(sorted((row for row in mine if row in whole), key=lambda row: getattr(row, cost)))

    def drop(self, row: FormRow) -> float:
        """How much worse than the source; see `drop_of`."""
        return drop_of(self.metric, row.value, self.source.value)

    def most_drop(self, row: FormRow, confidence: float = CONFIDENCE) -> float:
        """Upper confidence bound of a row's drop on new examples of the same kind.

        With confidence 0, and without labelled examples, it is the measured drop. The source's own is 0.
        """
        drop = self.drop(row)
        if row.is_source or row.paired is None or not confidence:
            return drop
        return max(drop, row.paired.upper(1 - (1 - confidence) / RIVALS))

    def cheapest_close(self, cost: str) -> FormRow:
        """The row close to the source that costs least, which may be the source itself."""
        close = [row for row in self.rows if self.drop(row) <= CLOSE[self.metric]]
        return min(close, key=lambda row: (getattr(row, cost), loss_in(self.metric, row.value), row.latency_ms))

    def best(
        self,
        max_params: int | None = None,
        max_latency_ms: float | None = None,
        max_drop: float | None = None,
        confidence: float = CONFIDENCE,
    ) -> FormRow:
        """The best row within the budget; a BudgetError names the best that can be reached.

        The most accurate, of equals the smallest and then the fastest; with a drop alone, the smallest. A drop is kept
        if `most_drop` is within it.
        """
        return self.ranked(Budget(max_params, max_latency_ms, max_drop, confidence))[0]

    def ranked(self, budget: Budget) -> list[FormRow]:
        """All rows within the budget, the best first; at least one."""
        found = sorted(
            (row for row in self.rows if row.value is not None and self._fits(row, budget)),
            key=lambda row: self._preference(row, budget),
        )
        if not found:
            raise BudgetError(self._reachable(budget))
        return found

    def _fits(self, row: FormRow, budget: Budget) -> bool:
        return budget.affords(row.parameters, row.latency_ms) and self._keeps_drop(row, budget)

    def _keeps_drop(self, row: FormRow, budget: Budget) -> bool:
        return budget.tolerates(self.most_drop(row, budget.confidence))

    def _preference(self, row: FormRow, budget: Budget) -> tuple[float, ...]:
        loss = loss_in(self.metric, row.value)
        if budget.is_drop_alone:
            return row.parameters, row.latency_ms, loss
        return loss, row.parameters, row.latency_ms

    def _reachable(self, budget: Budget) -> str:
        """One line for a budget that cannot be met: the best that can be reached."""
        alive = [row for row in self.rows if row.value is not None]
        told = f"no form of this model meets {budget}"
        if not alive:
            return f"{told}: the outputs of all of them are not finite"
        for limit, cost, text in (
            (budget.max_params, "parameters", "the fewest parameters are {:,}"),
            (budget.max_latency_ms, "latency_ms", "the lowest latency is {:.3g} ms"),
        ):
            least = min(alive, key=lambda row: getattr(row, cost))
            if limit is not None and getattr(least, cost) > limit:
                return f"{told}; {text.format(getattr(least, cost))} ({least.name})"
        rows = [row for row in alive if budget.affords(row.parameters, row.latency_ms)]
        if not rows:
            few = [row for row in alive if budget.affords(row.parameters, 0.0)]
            least = min(few, key=lambda row: row.latency_ms)
            return f"{told}; with so few parameters the lowest latency is {least.latency_ms:.3g} ms ({least.name})"
        near = min(rows, key=self.drop)
        if budget.tolerates(self.drop(near)):
            return f"{told}; {self._doubt(near, budget)}"
        return f"{told}; the smallest drop within the rest of it is {self.drop(near):.3g} ({near.name})"

    def doubt(self, budget: Budget) -> str:
        """Why the row that would be best by measured drops is not chosen; empty where it is."""
        first = self.ranked(replace(budget, confidence=0.0))[0]
        return "" if self._keeps_drop(first, budget) else self._doubt(first, budget)

    def _doubt(self, row: FormRow, budget: Budget) -> str:
        count = row.paired.count if row.paired else 0
        return (
            f"{row.name} has a drop of {self.drop(row):.3g} as measured, but {count:,} examples show only that it is "
            f"at most {self.most_drop(row, budget.confidence):.3g} ({100 * budget.confidence:g} % confidence); give "
            "more validation data or a lower --confidence"
        )

    def __str__(self) -> str:
        note = f"\n{self.note}" if self.note else ""
        return f"{self._title}\n{text_table(self.head, self.body())}{note}"

    def _repr_html_(self) -> str:
        return html_table(self.head, self.body(), above=self._title, below=self.note)

    @property
    def _title(self) -> str:
        return f"{len(self.rows)} forms; the Pareto front (* as trained):"

    @property
    def head(self) -> tuple[str, ...]:
        """Column titles of the printed table."""
        return ("form", self.metric, "same", "parameters", "NFE", "ms", "MB")

    def body(self) -> list[tuple[str, ...]]:
        """The front, best first; then the source where it is not on it, and forms with a depth for every example."""
        best = sorted(self.front, key=lambda row: (loss_in(self.metric, row.value), row.parameters, row.latency_ms))
        rows = (*best, *(() if self.source in best else (self.source,)))
        return [_cells(self.metric, row) for row in rows] + [_depth_cells(self.metric, row) for row in self.anytime]

    def describe(self) -> JsonObject:
        """JSON values."""
        fronts = {"all": self.front} | {cost: self.front_by(cost) for cost in COSTS}
        return self.describe_rows() | {"front": {name: [row.name for row in rows] for name, rows in fronts.items()}}

    def describe_rows(self) -> JsonObject:
        """The same without the fronts, which a sweep that is not complete does not have."""
        return {
            "metric": self.metric,
            "split": self.split,
            "settings": self.settings,
            "note": self.note,
            "source": self.source.describe(),
            "rows": [row.describe() for row in self.rows],
            "anytime": [row.describe() for row in self.anytime],
            "refused": self.refused,
        }


def _depth_cells(metric: str, row: DepthRow) -> tuple[str, ...]:
    return (
        row.name,
        shown(metric, row.value),
        _same(row),
        f"{row.parameters:,}",
        f"{row.evaluations:.1f}",
        f"{row.latency_ms:.3g}",
        "-",
    )


def _same(row: FormRow | DepthRow) -> str:
    """Predictions that are the source's."""
    return "-" if row.agreement is None else f"{row.agreement:.1f} %"


def _cells(metric: str, row: FormRow) -> tuple[str, ...]:
    return (
        row.name + (" *" if row.is_source else ""),
        shown(metric, row.value),
        _same(row),
        f"{row.parameters:,}",
        str(row.nfe),
        f"{row.latency_ms:.3g}",
        f"{row.memory_bytes / 1e6:.2g}",
    )


def front(rows: Iterable[FormRow], metric: str, costs: Sequence[str] = COSTS) -> tuple[FormRow, ...]:
    """The rows that no other dominates, in their order; rows without a value are left out."""
    alive = [row for row in rows if row.value is not None and isfinite(row.value)]
    points = [(loss_in(metric, row.value), *(getattr(row, cost) for cost in costs)) for row in alive]
    return tuple(row for row, point in zip(alive, points, strict=True) if not _is_dominated(point, points))


def _is_dominated(point: tuple[float, ...], others: Iterable[tuple[float, ...]]) -> bool:
    return any(other != point and all(a <= b for a, b in zip(other, point, strict=True)) for other in others)
