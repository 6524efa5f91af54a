"""The sections of a run's page that say what it is and where it came from."""

import json
from collections.abc import Mapping

from anydepth.report.curves import last_value
from anydepth.report.findings import Findings
from anydepth.report.html import Markup, pairs, section, table, tag
from anydepth.surgery.summary import Summary

MOST_LABELS = 24


def blocks(found: Findings) -> Markup | None:
    return None if found.model is None else section("Blocks", "blocks", summary_table(found.model.summary))


def summary_table(summary: Summary) -> Markup:
    def number(text: str) -> Markup:
        return tag("td", text, class_="right")

    head = ["block", "unit", "weights", "solver", "scale", "NFE", "parameters", "state"]
    rows = [
        [
            *(tag("th", row.name, scope="row"), row.unit, row.form.weights, row.form.solver),
            *map(number, (f"{row.scale:g}", f"{row.nfe:,}", f"{row.form.parameters:,}", f"{row.form.state:,}")),
        ]
        for row in summary.rows
    ]
    rest = summary.parameters - sum(row.form.parameters for row in summary.rows)
    total = map(number, (f"{summary.nfe:,}", f"{summary.parameters:,}"))
    rows.append([tag("th", "the rest", scope="row"), *[""] * 5, number(f"{rest:,}"), ""])
    rows.append([tag("th", "total", scope="row"), *[""] * 4, *total, ""])
    return table(head, rows, "stacked")


def origin(found: Findings) -> Markup:
    record = found.run.record
    parts: list[str | None] = []
    if record.parent is None:
        parts.append(tag("p", "Trained from scratch: it has no parent."))
    else:
        made = pairs({"parent model": record.parent, "made by": json.dumps(record.transform)})
        parts += [made, tag("h3", "Ancestors, the oldest first"), tag("ol", *(tag("li", x) for x in record.lineage))]
    changes = found.model.history if found.model else {}
    rows = [
        [tag("th", block or "(model)", scope="row"), c.operation, str(c.before), str(c.after), _change(c.largest_error)]
        for block, listed in changes.items()
        for c in listed
    ]
    if rows:
        head = ["block", "operation", "before", "after", "largest change of a tensor"]
        parts += [tag("h3", "What was done to the blocks"), table(head, rows, "stacked")]
    return section("Origin", "origin", *parts)


def _change(error: float) -> str:
    return "none" if error == 0 else f"{error:.1e}"


def data(found: Findings) -> Markup:
    facts, settings = found.run.facts, found.run.config.data
    shown = {"dataset": settings.name, "task": facts.task, "inputs": _inputs(found)}
    shown |= {f"{part} examples": f"{count:,}" for part, count in found.counts.items()}
    if facts.labels:
        more = len(facts.labels) - MOST_LABELS
        listed = ", ".join(facts.labels[:MOST_LABELS]) + (f" and {more} more" if more > 0 else "")
        shown[f"{len(facts.labels)} classes"] = listed
    if facts.words:
        shown["vocabulary"] = f"{len(facts.words):,} words"
    if found.measured:
        shown["measured on"] = f"{found.measured.examples:,} {found.split} examples"
    return section("Data", "data", pairs(shown))


def _inputs(found: Findings) -> str:
    facts = found.run.facts
    return f"{facts.kind} of {' x '.join(map(str, facts.shape))}" if facts.shape else facts.kind


def config(found: Findings) -> Markup:
    values = found.run.record.config
    whole = tag("details", tag("summary", "The whole config as JSON"), tag("pre", json.dumps(values, indent=2)))
    single = {name: value for name, value in values.items() if not isinstance(value, Mapping)}
    groups = [single, *({name: value} for name, value in values.items() if isinstance(value, Mapping))]
    shown = tag("div", *(pairs(dotted(group)) for group in groups), class_="groups")
    return section("Config", "config", shown, whole)


def dotted(values: Mapping[str, object], before: str = "") -> dict[str, str]:
    """Nested settings by their dotted names, values as JSON."""
    flat: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            flat |= dotted(value, f"{before}{name}.")
        else:
            flat[f"{before}{name}"] = value if isinstance(value, str) else json.dumps(value)
    return flat


def machine(found: Findings) -> Markup:
    record = found.run.record
    shown = {f"{name} version": version for name, version in record.versions.items()}
    shown |= {"machine": record.machine, "threads": str(record.threads)}
    shown |= {"seed": str(found.run.config.seed), "created": record.created}
    seconds = last_value(found.metrics, "seconds")
    return section("Made with", "machine", pairs(shown | ({"seconds": f"{seconds:g}"} if seconds else {})))
