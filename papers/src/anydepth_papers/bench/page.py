"""The tables of `docs/performance.md`, from a file of results: every figure of them comes from there."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anydepth.errors import ConfigError
from anydepth_papers.bench.goals import is_met

START, END = "<!-- figures of anydepth bench -->", "<!-- end of the figures -->"


def tables(found: Mapping[str, Any]) -> str:
    """All cases as Markdown, after a line about the machine."""
    parts = [_about(found["about"])]
    for name, case in found["cases"].items():
        if not name.startswith("growth"):
            parts.append(_table(name, case))
    growth = {n: c for n, c in found["cases"].items() if n.startswith("growth")}
    if growth:
        parts.append(_growth(growth))
    return "\n\n".join(parts) + "\n"


def rewrite(page: Path, found: Mapping[str, Any]) -> None:
    """Put the tables between the page's two marks."""
    text = page.read_text(encoding="utf-8")
    if START not in text or END not in text:
        raise ConfigError(f"{page} has no place for tables; expected the lines {START!r} and {END!r}")
    before, after = text.split(START)[0], text.split(END)[1]
    page.write_text(f"{before}{START}\n\n{tables(found)}\n{END}{after}", encoding="utf-8")


def _about(about: Mapping[str, Any]) -> str:
    busy = "; **other processes wanted the same cores**" if about.get("busy") else ""
    machine = ", ".join(str(about[key]) for key in ("cpu", "device", "precision") if about.get(key))
    return (
        f"{about['date']}, {about['cores']} cores ({machine}), {about['threads']} threads, torch {about['torch']}, "
        f"{about['rounds']} rounds (more of short cases){busy}."
    )


def _table(name: str, case: Mapping[str, Any]) -> str:
    lines = [f"**{name}**, relative to {case['base']}", "", "| side | ms | ratio [quartiles] | goal | MB |"]
    lines.append("| --- | --- | --- | --- | --- |")
    for side, row in case["sides"].items():
        ratio = f"{row['ratio']:.2f} [{row['ratio_low']:.2f}, {row['ratio_high']:.2f}]"
        goal = f"{row['goal']:.2f} {'met' if is_met(row) else '**not met**'}" if "goal" in row else ""
        memory = f"{row['megabytes']:.0f}" if "megabytes" in row else ""
        lines.append(f"| {side} | {row['milliseconds']:.2f} | {ratio} | {goal} | {memory} |")
    return "\n".join([*lines, *(f"\n{side} is left out: {reason}" for side, reason in case["failed"].items())])


def _growth(growth: Mapping[str, Any]) -> str:
    lines = ["**Growth of a training step**", "", "| of | milliseconds | time ~ |", "| --- | --- | --- |"]
    for name, case in growth.items():
        axis = name.removeprefix("growth ")
        times = ", ".join(f"{s.removeprefix(axis).strip()}: {r['milliseconds']:.1f}" for s, r in case["sides"].items())
        lines.append(f"| {axis} | {times} | {axis}^{case['exponent']:.2f} |")
    return "\n".join(lines)


def draw(found: Mapping[str, Any], to: Path) -> None:
    """The growth as a figure, one panel for each quantity."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    growth = {n.removeprefix("growth "): c for n, c in found["cases"].items() if n.startswith("growth")}
    if not growth:
        raise ConfigError("the results have no growth; measure with --growth")
    figure, panels = plt.subplots(1, len(growth), figsize=(3.2 * len(growth), 2.8), sharey=True, squeeze=False)
    for panel, (axis, case) in zip(panels[0], growth.items(), strict=True):
        values = [int(side.rsplit(" ", 1)[1]) for side in case["sides"]]
        panel.loglog(values, [row["milliseconds"] for row in case["sides"].values()], marker="o", color="#2a6f97")
        panel.set_xticks(values, [str(value) for value in values])
        panel.minorticks_off()
        panel.set_xlabel(axis)
        panel.set_title(f"time ~ {axis}^{case['exponent']:.2f}", fontsize=10)
    panels[0][0].set_ylabel("ms per training step")
    figure.tight_layout()
    figure.savefig(to, dpi=120)
    plt.close(figure)
