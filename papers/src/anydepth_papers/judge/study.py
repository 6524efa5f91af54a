"""A reproduction in progress: pieces that are kept when they are done, and trained nets that several studies share."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

from anydepth import artifact
from anydepth.errors import ModelFileError
from anydepth.reporting import Report
from anydepth.runs.config import RunConfig
from anydepth.runs.folder import RECORD, Run, open_run
from anydepth.runs.progress import Status, Watch
from anydepth.train.training import train
from anydepth_papers.campaign import NETS
from anydepth_papers.judge.pieces import KEPT, digest_of, read_pieces, write_pieces

PIECES, RUNS, RESULT = "pieces", "runs", "result.json"


@dataclass
class Study:
    """Where an experiment runs, at which scale, with which seeds."""

    name: str
    scale: str
    settings: Any
    seeds: tuple[int, ...]
    folder: Path
    """Of this study; trained nets are kept beside it."""
    data: Path | None = None
    nets: Path = NETS
    """Of the campaign."""
    report: Report = field(default=lambda what, share: None)
    seconds: float = 0.0
    """Spent on the pieces, now or earlier."""
    before: float = 0.0
    """Of the present piece: seconds spent on trainings that were resumed."""
    planned: int = 1
    done: int = 0
    evidence: Path | None = None
    """Of this study: pieces that are kept there need not be computed here."""
    used: dict[str, Any] = field(default_factory=dict)
    """The pieces that were asked for, by key."""
    _kept: dict[str, Any] | None = None

    def plan(self, pieces: int) -> None:
        """How many pieces there will be, for the progress bar."""
        self.planned = max(1, pieces)

    def piece(self, key: str, compute: Callable[[], Any]) -> Any:
        """The JSON value of one part of the work: read if it was done before, or is in the evidence; else computed."""
        path = self.folder / PIECES / f"{key}.json"
        self.report(key, self.done / self.planned)
        kept = _kept(path) if path.exists() else self._published().get(key)
        if kept is None:
            began = perf_counter()
            self.before = 0.0
            value = json.loads(json.dumps(compute()))
            kept = {"value": value, "seconds": round(perf_counter() - began + self.before, 2)}
            artifact.write_json(path, kept)
        self.used[key] = kept
        self.done += 1
        self.seconds += kept["seconds"]
        return kept["value"]

    def has(self, key: str) -> bool:
        """Whether a piece was computed before."""
        return (self.folder / PIECES / f"{key}.json").exists() or key in self._published()

    @property
    def digest(self) -> str:
        """Of the settings and the scale."""
        return digest_of(self.settings, self.scale)

    def _published(self) -> dict[str, Any]:
        """Pieces in the evidence that were made with these settings at this scale."""
        if self._kept is None:
            self._kept = {} if self.evidence is None else read_pieces(self.evidence / KEPT, self.digest)
        return self._kept

    def publish_pieces(self) -> None:
        """Keep in the evidence all pieces that were asked for, beside those of other seeds."""
        if self.evidence is not None:
            write_pieces(self.evidence / KEPT, self.digest, self._published() | self.used)

    def publish_unfinished(self) -> None:
        """The same for a study that was stopped, unless the evidence has a result, which needs the pieces it has."""
        if self.used and self.evidence is not None and not (self.evidence / RESULT).exists():
            self.publish_pieces()

    def trained(self, title: str, config: RunConfig, watch: Watch | None = None) -> Run:
        """The run of a config: trained now, resumed, or found finished; `watch` sees its events."""
        folder = self.folder_of(title, config)
        self.before += _seconds_before(folder)
        return train(config, folder, self.data, _Bar(self, title, watch), resume=True)

    def folder_of(self, title: str, config: RunConfig) -> Path:
        """Where the run of a config is kept."""
        digest = artifact.digest(artifact.json_bytes(config.plain(), compact=True))[:12]
        return self.folder.parent / RUNS / f"{title}-{digest}"


def _kept(path: Path) -> dict[str, Any]:
    try:
        found = artifact.read_json(path)
    except ModelFileError as error:
        raise ModelFileError(f"{path} is no piece of a study ({error}); delete it") from None
    if set(found) != {"value", "seconds"} or not isinstance(found["seconds"], (int, float)):
        raise ModelFileError(f"{path} is no piece of a study; delete it")
    return found


def _seconds_before(folder: Path) -> float:
    """What an interrupted training took so far; a finished one is on the account of whoever trained it."""
    if not (folder / RECORD).exists():
        return 0.0
    run = open_run(folder)
    spent = [line["seconds"] for line in run.metrics() if "seconds" in line]
    return 0.0 if run.is_over or not spent else spent[-1]


class _Bar(Watch):
    """Progress of a training as progress of the piece it belongs to."""

    def __init__(self, study: Study, title: str, watch: Watch | None = None):
        self.study, self.title, self.watch = study, title, watch

    def step(self, status: Status) -> None:
        share = (self.study.done + status.step / status.total) / self.study.planned
        self.study.report(f"{self.title}: {status.metric} {status.value:.4g}", share)

    def event(self, line: dict[str, Any]) -> None:
        if self.watch is not None:
            self.watch.event(line)
