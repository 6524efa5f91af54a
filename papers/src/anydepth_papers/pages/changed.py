"""Every verdict that differs from the one before the present rules, and why."""

from typing import Any

from anydepth_papers.pages.entries import Entry
from anydepth_papers.pages.front_page import link
from anydepth_papers.pages.renamed import MOVED, RENAMED
from anydepth_papers.pages.section import row, table_head

_HEAD = """# Changed verdicts

The rules for verdicts changed on 18 November 2026. This page lists every verdict that is different since, with the
reason. Verdicts that stayed the same are not listed. [Overview](README.md)
"""


def changed_page(found: list[Entry], before: dict[str, Any]) -> str:
    """`before`: the earlier verdicts by study."""
    known = {entry.name: entry for entry in found}
    sections = [_section(name, before[name]["verdicts"], known.get(name)) for name in sorted(before)]
    total = sum(len(earlier["verdicts"]) for earlier in before.values())
    changed = sum(number for number, _ in sections)
    waiting = sum(
        len(earlier["verdicts"]) for name, earlier in before.items() if name not in known or known[name].is_earlier
    )
    told = f"{changed} of {total} verdicts changed, {waiting} of them because their study has not been run again yet."
    lines = [line for _, some in sections for line in some]
    return "\n".join([_HEAD, told, "", *lines])


def _section(name: str, earlier: list[dict[str, Any]], entry: Entry | None) -> tuple[int, list[str]]:
    """How many changed, and the lines that say so."""
    if entry is None or entry.is_earlier:
        why = "Not run again yet; verdicts by the earlier rules no longer count."
        rows = [(v["claim"], v["verdict"], "not run", "") for v in earlier]
    else:
        why = ""
        rows = [change for v in earlier if (change := _change(name, v, entry))]
    if not rows:
        return 0, []
    title = link(entry) if entry is not None else name
    head = table_head("claim", "before", "now", *(["why"] if not why else []))
    body = [row(*(cells[:3] if why else cells)) for cells in rows]
    return len(rows), [f"## {name}", "", f"Study: {title}. {why}".strip(), "", *head, *body, ""]


def _change(study: str, earlier: dict[str, Any], entry: Entry) -> tuple[str, str, str, str] | None:
    """None where the verdict is the same."""
    claim: str = earlier["claim"]
    sentence = RENAMED.get(study, {}).get(claim, claim)
    now = next((v for v in entry.verdicts if v["claim"] == sentence), None)
    if now is None:
        return claim, earlier["verdict"], "-", _why_not(study, claim, sentence)
    if now["verdict"] == earlier["verdict"]:
        return None
    told = claim if sentence == claim else f"{claim} (now: {sentence})"
    return told, earlier["verdict"], now["verdict"], f"{now['kind']}: {now['figures']}"


def _why_not(study: str, claim: str, sentence: str) -> str:
    """Why a claim is no longer there."""
    moved = next((to for begins, (at, to) in MOVED.items() if at == study and claim.startswith(begins)), None)
    if moved is not None:
        return f"moved to `{moved}`"
    return "restated: see the present claims of the study" if sentence else "dropped: see the changes of the study"
