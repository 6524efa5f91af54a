"""One page per paper: its studies, and where each of its figures, tables and claims is shown."""

from typing import Any

from anydepth_papers.pages.coverage import COVERAGE, Item
from anydepth_papers.pages.entries import Entry, counted
from anydepth_papers.pages.front_page import link
from anydepth_papers.pages.section import bullets, change_line, data_lines, heading, row, run_lines, section, table_head

TITLES = {
    "C": "ContinuousNet: Continuous-in-depth neural networks (Queiruga et al. 2020)",
    "P": "Proper ODEs: When are Neural ODE solutions proper ODEs? (Ott et al. 2020)",
    "S": "Stateful ODE-Nets using basis function expansions (Queiruga et al. 2021)",
    "A": "ANODEV2: a coupled neural ODE framework (Zhang et al. 2019)",
    "ours": "Our own claims",
}
_LINKS = "[Overview](README.md), [how claims are judged](README.md#how-claims-are-judged)."


def paper_page(paper: str, found: list[Entry], figures: dict[str, str]) -> str:
    """`figures` are paths, from this page, by the name of the study."""
    own = [entry for entry in found if entry.home == paper]
    verdicts = [v for entry in found for v in entry.verdicts if v["family"] == paper]
    parts = [
        [f"# {TITLES[paper]}", "", f"{counted(verdicts)}. {_LINKS}"],
        _contents(own),
        _elsewhere(paper, found),
        *([_section(entry, figures.get(entry.name))] for entry in own),
        _coverage(paper, found),
    ]
    return "\n\n".join("\n".join(part).rstrip() for part in parts if part) + "\n"


def _contents(own: list[Entry]) -> list[str]:
    return [
        f"- [{e.name}](#{e.name}): {e.result['title']}; "
        f"{'not run under the current rules' if e.is_earlier else counted(e.verdicts)}"
        for e in own
    ]


def _elsewhere(paper: str, found: list[Entry]) -> list[str]:
    """Claims of this paper that studies on other pages judge."""
    lines = [
        f"{verdict['claim']}: **{verdict['verdict']}** ({link(entry)})"
        for entry in found
        if entry.home != paper
        for verdict in entry.verdicts
        if verdict["family"] == paper
    ]
    return bullets("Claims judged by studies on other pages", lines)


def _section(entry: Entry, figure: str | None) -> str:
    result = entry.result | {"changes": entry.changes, "verdicts": entry.verdicts}
    return _earlier(result, entry.result["verdicts"]) if entry.is_earlier else section(result, figure)


def _earlier(result: dict[str, Any], verdicts: list[dict[str, Any]]) -> str:
    """A study that was judged by earlier rules only."""
    parts = [
        heading(result),
        ["**Not run under the current rules.** What follows is an earlier run. Its verdicts no longer count."],
        run_lines(result),
        [
            *table_head("", "claim", "where", "earlier verdict"),
            *(row(str(n), v["claim"], v["source"], f"earlier: {v['verdict']}") for n, v in enumerate(verdicts, 1)),
            "",
            *(f"{n}. Earlier figures: {v['ours']}." for n, v in enumerate(verdicts, 1)),
        ],
        data_lines(result),
        bullets("Changed after figures had been seen", map(change_line, result["changes"])),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def _coverage(paper: str, found: list[Entry]) -> list[str]:
    known = {entry.name: entry for entry in found}
    what = "Figures, tables and claims of the paper" if paper != "ours" else "What is claimed"
    return [
        f"## {what}",
        "",
        *table_head("item", "what it shows", "where"),
        *(row(item.name, item.shows, _where(item, known)) for item in COVERAGE[paper]),
    ]


def _where(item: Item, known: dict[str, Entry]) -> str:
    """Studies with their commands, tests, or the reason why there is neither."""
    studies = [f"{link(known[name]) if name in known else name}: `anydepth reproduce {name}`" for name in item.studies]
    tests = [f"`{name}`" for name in item.tests]
    return "; ".join([*studies, *tests, *([item.reason] if item.reason else [])])
