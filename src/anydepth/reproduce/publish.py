"""From findings to files: table.md, result.json, figure.png and figure.svg."""

import os
import platform
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any

import torch

from anydepth import artifact
from anydepth.reproduce.experiment import Experiment, Findings, Verdict
from anydepth.reproduce.study import Study

RESULT, TABLE = "result.json", "table.md"


def publish(experiment: Experiment, study: Study, findings: Findings, command: str) -> dict[str, Any]:
    """Write everything about a study into its folder; what is in result.json."""
    result = {
        "name": study.name,
        "title": experiment.title,
        "paper": experiment.paper,
        "scale": study.scale,
        "seeds": list(study.seeds),
        "command": command,
        "date": datetime.now(UTC).date().isoformat(),
        "seconds": round(study.seconds, 1),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads",
        "versions": {"anydepth": version("anydepth"), "torch": torch.__version__},
        "columns": list(findings.columns),
        "rows": [list(row) for row in findings.rows],
        "verdicts": [_judged(verdict, study.scale).describe() for verdict in findings.verdicts],
        "notes": list(findings.notes),
    }
    artifact.write_json(study.folder / RESULT, result)
    artifact.write_bytes(study.folder / TABLE, markdown(result).encode())
    _draw(findings, study.folder)
    return result


def _judged(verdict: Verdict, scale: str) -> Verdict:
    """A try-out decides nothing."""
    return replace(verdict, judgement=replace(verdict.judgement, holds=None)) if scale == "smoke" else verdict


def _draw(findings: Findings, folder: Path) -> None:
    if findings.draw is None:
        return
    import matplotlib

    matplotlib.use("Agg")
    with matplotlib.rc_context({"svg.hashsalt": "anydepth", "font.size": 9}):
        figure = findings.draw()
        for kind in ("png", "svg"):
            image = BytesIO()
            metadata = {"Date": None} if kind == "svg" else None
            figure.savefig(image, format=kind, bbox_inches="tight", dpi=140, metadata=metadata)
            artifact.write_bytes(folder / f"figure.{kind}", image.getvalue())
        import matplotlib.pyplot as plt

        plt.close(figure)


def markdown(result: dict[str, Any]) -> str:
    """A result as a page section: verdicts first, then the table."""
    seeds = ", ".join(map(str, result["seeds"]))
    minutes = result["seconds"] / 60
    lines = [
        f"## {result['name']}: {result['title']}",
        "",
        f"{result['paper']}. Scale `{result['scale']}`, seeds {seeds}; {minutes:.1f} minutes on {result['machine']}; "
        f"{result['date']}, torch {result['versions']['torch']}.",
        "",
        f"    {result['command']}",
        "",
        "| claim | where | paper | ours | verdict |",
        "| --- | --- | --- | --- | --- |",
        *(_row(v["claim"], v["source"], v["paper"], v["ours"], f"**{v['verdict']}**") for v in result["verdicts"]),
        "",
        _row(*result["columns"]),
        _row(*["---"] * len(result["columns"])),
        *(_row(*map(_cell, row)) for row in result["rows"]),
        "",
    ]
    notes = [result["notes"]] if isinstance(result["notes"], str) else result["notes"]
    return "\n".join([*lines, *(f"- {note}" for note in notes if note), ""])


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
