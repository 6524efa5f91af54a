"""The section of a run's page that shows its sweep: what can be had for how much."""

from anydepth.deploy.sweeps.result import COSTS, DepthRow, FormRow, Sweep
from anydepth.measure.paired import loss_in, shown
from anydepth.report.findings import Findings
from anydepth.report.html import NONE, Markup, picture, section, spot, table, tag
from anydepth.report.sweep_figure import Spot, sweep_panels

TITLE, ANCHOR = "What a budget buys", "budgets"
MOST = 12
"""Rows of the table."""


def budgets(found: Findings) -> Markup | None:
    """The sweep in a picture and a table; nothing where a run has none."""
    if found.unswept:
        return section(TITLE, ANCHOR, tag("p", f"Not shown: {found.unswept}", class_="missing"))
    sweep = found.sweep
    if sweep is None:
        return None
    drawn = tag("div", *(_panel(sweep, *panel) for panel in sweep_panels(sweep)), class_="pair")
    return section(
        TITLE,
        ANCHOR,
        tag("p", _words(sweep)),
        drawn,
        tag("h3", "The Pareto front: forms that no other form beats in accuracy, parameters and latency"),
        table(_head(sweep), [_cells(sweep, row) for row in _front(sweep)], class_="numbers stacked"),
        *_anytime(sweep),
        tag("p", sweep.note, class_="note") if sweep.note else None,
    )


def _words(sweep: Sweep) -> str:
    told = sweep.settings
    of = f"{told['examples']:,} {sweep.split} examples" if sweep.split else "random inputs, without data"
    frozen = "frozen" if all(row.is_frozen for row in sweep.rows) else "frozen where that can be"
    return (
        f"{len(sweep.rows)} forms of the same weights, made by projection without retraining and measured on {of}, "
        "with batch statistics as they are (compress --recalibrate estimates them again from training data). "
        f"Latency is of a batch of {told['batch']} on {told['threads']} thread(s) of a {told['machine']} machine, "
        f"{frozen}, median of {told['rounds']} rounds in turns with the model as it is. Memory is of the weights and "
        "of the tensors that are alive at the same time."
    )


def _panel(sweep: Sweep, svg: str, spots: list[Spot]) -> Markup:
    """A drawing with words at every form."""
    words = f"{sweep.metric} against a cost, with the Pareto front"
    told = [spot(at.left, at.top, _told(sweep, at.row), "spot front" if at.is_front else "spot") for at in spots]
    return picture(svg, words, spots=told)


def _told(sweep: Sweep, row: FormRow) -> str:
    """A form in a line, for readers who point at it."""
    return (
        f"{row.name}: {shown(sweep.metric, row.value)}, {row.parameters:,} parameters, {row.nfe:,} evaluations, "
        f"{row.latency_ms:.3g} ms"
    )


def _front(sweep: Sweep) -> list[FormRow]:
    """The fronts by either cost, and the source, best first."""
    chosen = {row for cost in COSTS for row in sweep.front_by(cost)} | {sweep.source}
    ordered = sorted(chosen, key=lambda row: (loss_in(sweep.metric, row.value), row.parameters, row.latency_ms))
    shown_first = ordered[:MOST]
    return shown_first if sweep.source in shown_first else [*shown_first[:-1], sweep.source]


def _anytime(sweep: Sweep) -> list[Markup]:
    """Forms with a depth for every example, where there are any."""
    if not sweep.anytime:
        return []
    head = ["form", sweep.metric, "same as source", "NFE, mean", "latency", "answered by"]
    words = (
        "Calibrated on one half of the examples and measured on the other, both ways; the number is the drop in points "
        f"that is allowed, with a confidence of {100 * sweep.anytime[0].confidence:g} %."
    )
    rows = [_anytime_cells(sweep, row) for row in sweep.anytime]
    return [tag("h3", "A depth for every example"), tag("p", words), table(head, rows, class_="numbers stacked")]


def _anytime_cells(sweep: Sweep, row: DepthRow) -> list[str]:
    return [
        tag("th", row.name, scope="row"),
        shown(sweep.metric, row.value),
        NONE if row.agreement is None else f"{row.agreement:.1f} %",
        f"{row.evaluations:.1f} ({100 * row.evaluations / max(sweep.source.nfe, 1):.0f} %)",
        f"{row.latency_ms:.3g} ms ({100 * row.latency_ratio:.0f} %)",
        ", ".join(f"{form} {share:.0f} %" for form, share in row.stops.items()),
    ]


def _head(sweep: Sweep) -> list[str]:
    return ["form", sweep.metric, "same as source", "parameters", "NFE", "latency", "memory"]


def _cells(sweep: Sweep, row: FormRow) -> list[str]:
    source = sweep.source
    return [
        tag("th", row.name + (" (as it is)" if row.is_source else ""), scope="row"),
        shown(sweep.metric, row.value),
        NONE if row.agreement is None else f"{row.agreement:.1f} %",
        f"{row.parameters:,} ({100 * row.parameters / source.parameters:.0f} %)",
        f"{row.nfe:,}",
        f"{row.latency_ms:.3g} ms ({100 * row.latency_ratio:.0f} %)",
        f"{row.memory_bytes / 1e6:.3g} MB",
    ]
