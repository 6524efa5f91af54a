"""From findings to files: result.json, table.md and the figure; and what of them is kept as evidence."""

import os
import platform
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from anydepth import artifact
from anydepth_papers.changes import CHANGES
from anydepth_papers.judge.commit import commit_of_code
from anydepth_papers.judge.experiment import ClaimVerdict, Experiment, Findings
from anydepth_papers.judge.pieces import plain
from anydepth_papers.judge.study import RESULT, Study
from anydepth_papers.judge.wording import rules_of
from anydepth_papers.pages.figure_files import drawn, rendered, small
from anydepth_papers.pages.section import section

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TABLE = "table.md"


def publish(experiment: Experiment, study: Study, findings: Findings, command: str) -> dict[str, Any]:
    """Write everything about a study into its folder and, where there is one, its evidence; what is in result.json.

    In both places result.json comes last: where it is new, all that it speaks of is there.
    """
    result = _result(experiment, study, findings, command)
    artifact.write_bytes(study.folder / TABLE, section(result).encode())
    with drawn(findings) as figure:
        _draw(figure, study.folder)
        if study.evidence is not None:
            study.publish_pieces()
            _keep_figure(figure, study.evidence)
            artifact.write_json(study.evidence / RESULT, result)
    artifact.write_json(study.folder / RESULT, result)
    return result


def _result(experiment: Experiment, study: Study, findings: Findings, command: str) -> dict[str, Any]:
    verdicts = [_judged(verdict, study.scale).describe() for verdict in findings.verdicts]
    return {
        "name": study.name,
        "title": experiment.title,
        "paper": experiment.paper,
        "scale": study.scale,
        "seeds": list(study.seeds),
        "settings": plain(study.settings),
        "command": command,
        "date": datetime.now(UTC).date().isoformat(),
        "seconds": round(study.seconds, 1),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads",
        "versions": {"anydepth": version("anydepth"), "torch": torch.__version__},
        "code": commit_of_code(),
        "columns": list(findings.columns),
        "rows": [list(row) for row in findings.rows],
        "verdicts": verdicts,
        "rules": {verdict["kind"]: rules_of(verdict["kind"]) for verdict in verdicts},
        "notes": list(findings.notes),
        "changes": [change.describe() for change in CHANGES.get(study.name, ())],
    }


def _judged(verdict: ClaimVerdict, scale: str) -> ClaimVerdict:
    """A try-out decides nothing."""
    return replace(verdict, judgement=replace(verdict.judgement, holds=None)) if scale == "smoke" else verdict


def _draw(figure: "Figure | None", folder: Path) -> None:
    if figure is not None:
        for kind in ("png", "svg"):
            artifact.write_bytes(folder / f"figure.{kind}", rendered(figure, kind))


def _keep_figure(figure: "Figure | None", evidence: Path) -> None:
    """One figure, which replaces the one before; none where there is nothing to draw."""
    name, content = ("", b"") if figure is None else small(figure)
    if name:
        artifact.write_bytes(evidence / name, content)
    for other in {"figure.png", "figure.svg"} - {name}:
        (evidence / other).unlink(missing_ok=True)
