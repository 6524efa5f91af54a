"""One study as Markdown: its figure, how it was run, verdicts, data, notes and changes."""

from collections.abc import Sequence
from typing import Any

SMALL = 1e-6
"""Chances below this are not told apart."""


def section(result: dict[str, Any], figure: str | None = None) -> str:
    """The section of a study that was judged by the present rules."""
    parts = [
        heading(result),
        [f"![{result['title']}]({figure})"] if figure else [],
        run_lines(result),
        verdict_lines(result["verdicts"]),
        data_lines(result),
        bullets("Notes", result["notes"]),
        bullets("Changed after figures had been seen", map(change_line, result["changes"])),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def heading(result: dict[str, Any]) -> list[str]:
    """What the study asks, and where in which paper."""
    title = result["title"]
    return [f"## {result['name']}", "", f"{title}{'' if title.endswith('?') else '.'} {result['paper']}."]


def run_lines(result: dict[str, Any]) -> list[str]:
    """Command, seeds, machine, date and code."""
    seeds = ", ".join(map(str, result["seeds"]))
    code = result.get("code", {})
    at = f", commit {code['commit'][:10]}{' with changes' if code['is_changed'] else ''}" if code.get("commit") else ""
    return [
        f"    {result['command']}",
        "",
        f"Scale {result['scale']}; seeds {seeds}; {result['seconds'] / 60:.1f} minutes on {result['machine']}; "
        f"{result['date']}, torch {result['versions']['torch']}{at}.",
    ]


def verdict_lines(verdicts: Sequence[dict[str, Any]]) -> list[str]:
    """A compact table, and the figures of every claim below it."""
    rows = [
        row(str(number), v["claim"], v["source"], v["kind"], f"**{v['verdict']}**")
        for number, v in enumerate(verdicts, 1)
    ]
    return [
        *table_head("", "claim", "where", "kind", "verdict"),
        *rows,
        "",
        *_all_found(verdicts),
    ]


def _all_found(verdicts: Sequence[dict[str, Any]]) -> list[str]:
    """Claim by claim; one line where the same is told of all."""
    found = [_found(verdict) for verdict in verdicts]
    if len(found) > 1 and len(set(found)) == 1:
        return [f"All: {found[0]}"]
    return [f"{number}. {text}" for number, text in enumerate(found, 1)]


def _found(verdict: dict[str, Any]) -> str:
    """What the paper says, what was found, and what the rule looked at where that is something else."""
    chance = verdict.get("p")
    looked_at = verdict["figures"] if verdict["figures"] != verdict["ours"] else ""
    parts = [
        f"Paper: {verdict['paper']}" if verdict["paper"] else "",
        f"Ours: {verdict['ours']}" if verdict["ours"] else "",
        f"Rule: {looked_at}" if looked_at else "",
        "" if chance is None else f"p = {chance:.2g}" if chance >= SMALL else f"p < {SMALL:g}",
    ]
    return " ".join(f"{part.strip().rstrip('.')}." for part in parts if part)


def data_lines(result: dict[str, Any]) -> list[str]:
    """The table of figures."""
    if not result["rows"]:
        return []
    return [*table_head(*result["columns"]), *(row(*map(cell, values)) for values in result["rows"])]


def change_line(change: dict[str, str]) -> str:
    return f"{change['date']}: {change['what']} Why: {change['why']} Before: {change['before']}"


def bullets(title: str, lines: Any) -> list[str]:
    """A short list with a title; nothing for an empty one."""
    found = [f"- {line}" for line in lines if line]
    return [f"{title}:", "", *found] if found else []


def table_head(*cells: str) -> list[str]:
    return [row(*cells), row(*["---"] * len(cells))]


def row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.{6 if abs(value) >= 1000 else 4}g}" if isinstance(value, float) else str(value)
