"""The tables of `docs/performance.md`, from a file of results: every figure of them comes from there."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anydepth.errors import ConfigError
from anydepth_papers.bench.goals import is_met

START, END = "<!-- figures of anydepth bench -->", "<!-- end of the figures -->"


def tables(found: Mapping[str, Any]) -> str:
    """All cases as Markdown, after a line about the machine."""
    plain = {n: c for n, c in found["cases"].items() if not n.startswith("growth")}
    growth = {n: c for n, c in found["cases"].items() if n.startswith("growth")}
    parts = [_about(found["about"]), _goals(plain), _sides(plain), _growth(growth), _missing(plain)]
    return "\n\n".join(part for part in parts if part) + "\n"


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


def _spread(row: Mapping[str, Any]) -> str:
    return f"{row['ratio']:.2f} [{row['ratio_low']:.2f}, {row['ratio_high']:.2f}]"


def _goals(cases: Mapping[str, Any]) -> str:
    """Every side that has a goal."""
    lines = [
        f"| {name} | {side} | {case['base']} | {_spread(row)} | {row['goal']:.2f}{_missed(row)} |"
        for name, case in cases.items()
        for side, row in case["sides"].items()
        if "goal" in row
    ]
    if not lines:
        return ""
    return "\n".join(["| what | side | against | ratio | goal |", "| --- | --- | --- | --- | --- |", *lines])


def _missed(row: Mapping[str, Any]) -> str:
    return "" if is_met(row) else ", **missed**"


def _sides(cases: Mapping[str, Any]) -> str:
    """Every case as a line: its base in milliseconds, and the ratios of all others."""
    lines = ["| what | 1 is | ratios (peak memory) |", "| --- | --- | --- |"]
    for name, case in cases.items():
        base, others = case["sides"][case["base"]], {s: r for s, r in case["sides"].items() if s != case["base"]}
        told = "; ".join(f"{side} {row['ratio']:.2f}{_memory(row)}" for side, row in others.items())
        lines.append(f"| {name} | {case['base']}, {base['milliseconds']:.2f} ms | {told} |")
    return "\n".join(lines)


def _memory(row: Mapping[str, Any]) -> str:
    return f" ({row['memory_ratio']:.2f})" if "memory_ratio" in row else ""


def _missing(cases: Mapping[str, Any]) -> str:
    lines = [f"{name}: {side} is left out: {why}." for name, c in cases.items() for side, why in c["failed"].items()]
    return "\n".join(lines)


def _growth(growth: Mapping[str, Any]) -> str:
    if not growth:
        return ""
    lines = ["| growth with | milliseconds of a training step | time ~ |", "| --- | --- | --- |"]
    for name, case in growth.items():
        axis = name.removeprefix("growth ")
        times = ", ".join(f"{s.removeprefix(axis).strip()}: {r['milliseconds']:.1f}" for s, r in case["sides"].items())
        lines.append(f"| {axis} | {times} | {axis}^{_power(case)} |")
    return "\n".join(lines)


def _power(case: Mapping[str, Any]) -> str:
    return f"{round(case['exponent'], 2) + 0:.2f}"  # no minus before a zero


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
        panel.set_title(f"time ~ {axis}^{_power(case)}", fontsize=10)
    panels[0][0].set_yticks([10, 30, 100, 300, 1000], ["10", "30", "100", "300", "1000"])
    panels[0][0].set_ylabel("ms per training step")
    figure.tight_layout()
    figure.savefig(to, dpi=120)
    plt.close(figure)
