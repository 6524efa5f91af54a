"""One run as one HTML file."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from anydepth import artifact
from anydepth.report import details, html, sections
from anydepth.report.advice import cheapest_told, solver_verdict
from anydepth.report.budgets import budgets
from anydepth.report.choices import chosen_form, chosen_solver, on_which
from anydepth.report.curves import last_value
from anydepth.report.findings import Findings, find
from anydepth.report.html import NONE, Markup, tag
from anydepth.reporting import Report
from anydepth.runs.folder import REPORT, Run

SECTIONS: dict[str, Callable[[Findings], Markup | None]] = {
    "Training": sections.training,
    "Solvers": sections.solvers,
    "Compression": sections.compression,
    "Budgets": budgets,
    "Control": sections.control,
    "Weights": sections.weights,
    "Blocks": details.blocks,
    "Origin": details.origin,
    "Data": details.data,
    "Config": details.config,
    "Machine": details.machine,
}
"""By their short titles, which in small letters are their anchors."""


@dataclass(frozen=True)
class ReportResult:
    """Where a report was written, and what is in it."""

    path: Path
    findings: Findings

    def describe(self) -> dict[str, object]:
        """JSON values."""
        found = self.findings
        lines = [] if found.model is None else [each.describe() for each in found.model.lines]
        return {
            "path": str(self.path),
            "split": found.split,
            "metric": found.yardstick.metric,
            "measured": None if found.measured is None else found.measured.describe(),
            "unmeasured": found.unmeasured or None,
            "roughness": {f"{told['block']}.{told['tensor']}": told["roughness"] for told in lines},
        }


def write_report(
    run: Run,
    root: Path | None = None,
    path: Path | None = None,
    split: str = "test",
    examples: int | None = None,
    report: Report | None = None,
) -> ReportResult:
    """Measure a run on a part of its data, and write everything about it to one HTML file.

    Args:
        root: the data directory.
        path: the file; by default report.html in the run's folder.
        split: the part of the data to measure on.
        examples: measure on so many examples only, spread over the part.
        report: a function called with the progress.
    """
    found = find(run, root, split, examples, report)
    target = run.folder / REPORT if path is None else path
    artifact.write_bytes(target, report_page(found).encode(errors="replace"))
    return ReportResult(target, found)


def report_page(found: Findings) -> str:
    """The text of the page."""
    name = found.run.folder.resolve().name
    made = {title: make(found) for title, make in SECTIONS.items()}
    there = {title: part for title, part in made.items() if part is not None}
    return html.page(f"{name}: anydepth report", _head(found, name, list(there)), *there.values())


def _head(found: Findings, name: str, titles: list[str]) -> Markup:
    config = found.run.config
    told = f"model {config.model.name}, data {config.data.name}, made on {found.run.record.created[:10]}"
    links = tag("nav", *(tag("a", title, href=f"#{title.lower()}") for title in titles))
    cards = tag("div", *(_card(*card) for card in _cards(found)), class_="cards")
    return tag("header", tag("h1", name), tag("p", told, class_="soft"), cards, _verdict(found), links)


def _card(what: str, value: str, note: str) -> Markup:
    return tag("div", tag("span", what, class_="what"), tag("b", value), tag("span", note), class_="card")


def _cards(found: Findings) -> list[tuple[str, str, str]]:
    return [card for card in (_metric(found), *_size(found), _time(found), *_reach(found)) if card is not None]


def _metric(found: Findings) -> tuple[str, str, str] | None:
    yardstick, measured = found.yardstick, found.measured
    if measured is not None:
        of = f"{yardstick.base}, {measured.examples:,} examples"
        return f"{found.split} {yardstick.metric}", yardstick.text(found.reference), of
    for part in ("test", "validation", "train"):
        value = last_value(found.metrics, f"{part}_{yardstick.metric}")
        if value is not None:
            return f"{part} {yardstick.metric}", yardstick.text(value), "as logged by the training"
    return None


def _size(found: Findings) -> list[tuple[str, str, str]]:
    if found.model is None:
        return []
    summary = found.model.summary
    weights, solvers = ({getattr(row.form, what) for row in summary.rows} for what in ("weights", "solver"))
    nfe = summary.nfe or last_value(found.metrics, "nfe")
    return [
        ("parameters", f"{summary.parameters:,}", _few(weights)),
        ("NFE", NONE if nfe is None else f"{nfe:,}", f"unit evaluations a pass, {_few(solvers)}"),
    ]


def _few(values: set[str]) -> str:
    return next(iter(values)) if len(values) == 1 else f"{len(values)} different kinds"


def _time(found: Findings) -> tuple[str, str, str] | None:
    seconds, epochs = last_value(found.metrics, "seconds"), last_value(found.metrics, "epoch")
    if seconds is None:
        return None
    return "training time", duration(seconds), f"{epochs} epochs" if epochs != 1 else "1 epoch"


def _reach(found: Findings) -> list[tuple[str, str, str]]:
    """How small and how cheap the model can be made."""
    measured, yardstick, reference = found.measured, found.yardstick, found.reference
    if measured is None or measured.score is None or reference is None:
        return []
    small, cheap = chosen_form(found), chosen_solver(found)
    near = f"within {yardstick.margin}{on_which(found)}"
    cards = [("size needed", "100 %", f"no smaller form is {near}")]
    if small is not None:
        share = f"{100 * small.parameters / measured.curve.parameters:.0f} %"
        cards = [("size needed", share, f"of parameters {near}: {small.label}, {yardstick.text(small.value)}")]
    if cheap is not None and cheap.nfe < measured.score.nfe:
        return [*cards, ("NFE needed", f"{cheap.nfe:,}", f"{near}: {cheap.label}, {yardstick.text(cheap.value)}")]
    return [*cards, ("NFE needed", f"{measured.score.nfe:,}", f"no cheaper solver is {near}")]


def _verdict(found: Findings) -> Markup | None:
    measured, reference = found.measured, found.reference
    if measured is None:
        return tag("p", f"Not measured: {found.unmeasured}.", class_="verdict missing")
    if measured.score is None or reference is None:
        return tag("p", "The outputs of this model are not finite.", class_="verdict missing")
    nfe = measured.score.nfe
    ending = cheapest_told(chosen_solver(found), found.yardstick, nfe, on_which(found))
    return tag("p", solver_verdict(measured.grid, found.yardstick, reference, nfe, ending), class_="verdict")


def duration(seconds: float) -> str:
    """In the two units that matter."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
