"""Run folders: what was run, what came of it, and where it came from."""

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from torch import nn

from anydepth import artifact
from anydepth.data.dataset import Dataset
from anydepth.data.facts import Facts
from anydepth.errors import ConfigError, ModelFileError, StorageError
from anydepth.surgery.store import MODEL, TENSORS, load, save
from anydepth.train.checkpoint import FOLDER as CHECKPOINTS
from anydepth.train.config import RunConfig, read_config

FORMAT, VERSION = "anydepth-run", 1
RECORD, METRICS, REPORT = "run.json", "metrics.jsonl", "report.html"


class Record(BaseModel):
    """The contents of run.json."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: str = FORMAT
    version: int = VERSION
    config: dict[str, Any]
    facts: Facts
    versions: dict[str, str]
    threads: int
    machine: str
    created: str
    parent: str | None = None
    """SHA-256 of the model.json that this model was made from."""
    transform: dict[str, Any] | None = None
    """What was done to the parent."""
    lineage: tuple[str, ...] = ()
    """One line for every ancestor, the oldest first."""


@dataclass(frozen=True)
class Run:
    """A folder with a run in it."""

    folder: Path
    record: Record

    @property
    def config(self) -> RunConfig:
        return read_config(self.record.config, f"config of {self.folder}")

    @property
    def facts(self) -> Facts:
        return self.record.facts

    @property
    def is_finished(self) -> bool:
        return (self.folder / MODEL).exists()

    def model(self) -> nn.Module:
        """The trained model, in eval mode."""
        if not self.is_finished:
            raise ModelFileError(f"{self.folder} holds no trained model yet; finish it with anydepth train --resume")
        return load(self.folder).eval()

    def model_hash(self) -> str:
        return artifact.digest(artifact.read_bytes(self.folder / MODEL))

    def dataset(self, root: Path | None) -> Dataset:
        """The data of the run, from a data directory."""
        return dataset_of(self.config, root)

    def metrics(self) -> list[dict[str, Any]]:
        """All lines of metrics; a run that was never trained has none."""
        path = self.folder / METRICS
        if not path.exists():
            return []
        lines = []
        for number, line in enumerate(artifact.read_bytes(path).decode(errors="replace").splitlines(), 1):
            try:
                lines.append(json.loads(line))
            except ValueError:
                raise ModelFileError(f"{path} line {number} is not JSON; the file is damaged") from None
        return lines

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to be done: the model is there, and tested if it was to be."""
        lines = self.metrics()
        is_tested = bool(lines) and lines[-1].get("kind") == "test"
        return self.is_finished and (is_tested or not self.config.evaluation.test)

    def metrics_bytes(self) -> int:
        path = self.folder / METRICS
        return path.stat().st_size if path.exists() else 0

    def cut_metrics(self, size: int) -> None:
        """Drop lines of metrics that were written after a checkpoint."""
        try:
            if self.metrics_bytes() > size:
                os.truncate(self.folder / METRICS, size)
        except OSError as error:
            raise StorageError(f"cannot cut {self.folder / METRICS}: {error.strerror or error}") from error

    def log(self, line: Mapping[str, Any]) -> None:
        """Add a line of metrics."""
        try:
            with open(self.folder / METRICS, "a", encoding="utf-8") as file:
                file.write(json.dumps(line, allow_nan=False) + "\n")
        except OSError as error:
            raise StorageError(f"cannot write {self.folder / METRICS}: {error.strerror or error}") from error


def dataset_of(config: RunConfig, root: Path | None) -> Dataset:
    data = config.data
    return Dataset(data.name, data.options, root, data.validation, data.split_seed, data.limit)


def new_run(
    folder: Path, config: RunConfig, facts: Facts, parent: Run | None = None, transform: dict[str, Any] | None = None
) -> Run:
    """Make a run folder; one that holds a run already is refused."""
    if (folder / RECORD).exists():
        raise ConfigError(f"{folder} holds a run already; name another folder with --out, or give --resume")
    record = Record(
        config=config.plain(),
        facts=facts,
        versions={"anydepth": version("anydepth"), "torch": torch.__version__, "python": platform.python_version()},
        threads=torch.get_num_threads(),
        machine=f"{platform.machine()}, {os.cpu_count()} cores",
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        parent=None if parent is None else parent.model_hash(),
        transform=transform,
        lineage=() if parent is None else (*parent.record.lineage, _described(parent)),
    )
    artifact.make_folder(folder)
    artifact.write_json(folder / RECORD, record.model_dump(mode="json"))
    return Run(folder, record)


def _described(run: Run) -> str:
    made = "trained" if run.record.transform is None else f"made by {json.dumps(run.record.transform)}"
    return f"{run.model_hash()[:12]}: {made}, {run.record.created}"


def open_run(folder: Path) -> Run:
    """The run in a folder."""
    path = folder / RECORD
    if not path.exists():
        raise ModelFileError(f"no run in {folder}: {path} is missing; name the folder that anydepth train made")
    values = artifact.read_json(path)
    if values.get("format") != FORMAT:
        raise ModelFileError(f"{path} is not an anydepth run: its format is {values.get('format')!r}")
    if values.get("version") != VERSION:
        raise ModelFileError(f"{path} has version {values.get('version')!r}, expected {VERSION}; use a newer anydepth")
    try:
        record = Record.model_validate_json(json.dumps(values))
        run = Run(folder, record)
        run.config  # noqa: B018  refuse a bad config now
    except (ValidationError, ConfigError) as error:
        first = error.errors()[0] if isinstance(error, ValidationError) else None
        cause = f"{'.'.join(map(str, first['loc']))}: {first['msg']}" if first else str(error)
        raise ModelFileError(f"{path} is damaged: {cause}") from None
    return run


def discard_run(folder: Path) -> None:
    """Remove a run's own files; anything else in the folder stays."""
    for name in (RECORD, METRICS, REPORT, MODEL, TENSORS):
        (folder / name).unlink(missing_ok=True)
    for checkpoint in (folder / CHECKPOINTS).glob("step-*"):
        checkpoint.unlink(missing_ok=True)


def save_derived(parent: Run, folder: Path, model: nn.Module, transform: dict[str, Any]) -> Run:
    """A new run whose model was made from another run's."""
    run = new_run(folder, parent.config, parent.facts, parent, transform)
    save(model, folder)
    return run
