"""Run folders: what was run, what came of it, and where it came from."""

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from torch import nn

from anydepth import artifact
from anydepth.artifact.writing import staged
from anydepth.data.dataset import Dataset
from anydepth.data.facts import Facts
from anydepth.errors import ConfigError, ModelFileError, StorageError
from anydepth.json_values import JsonObject
from anydepth.runs.checkpoint_files import FOLDER as CHECKPOINTS
from anydepth.runs.config import RunConfig, read_config
from anydepth.runs.foreign_parts import DATA_KINDS, MODEL_KINDS, Need, check_needs, depth_needs
from anydepth.runs.lock import LOCK, locked
from anydepth.runs.metrics import add_line, keep_first, read_metrics, size_of
from anydepth.surgery.store import MODEL, TENSORS, load, save

FORMAT, VERSION = "anydepth-run", 1
RECORD, METRICS, REPORT = "run.json", "metrics.jsonl", "report.html"


class Record(BaseModel):
    """The contents of run.json."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: str = FORMAT
    version: int = VERSION
    config: dict[str, object]
    facts: Facts
    versions: dict[str, str]
    threads: int
    machine: str
    created: str
    parent: str | None = None
    """SHA-256 of the model.json that this model was made from."""
    transform: dict[str, object] | None = None
    """What was done to the parent."""
    lineage: tuple[str, ...] = ()
    """One line for every ancestor, the oldest first."""
    training_data: str = ""
    """Hash of the examples that were trained on."""
    needs: tuple[Need, ...] = ()
    """Parts that do not come with anydepth."""
    data_directory: str = ""
    """Where the data was; looked at again unless another directory is named or this one is gone."""


@dataclass(frozen=True)
class Run:
    """A folder with a run in it."""

    folder: Path
    record: Record

    @property
    def config(self) -> RunConfig:
        """The config that the run was made with."""
        return read_config(self.record.config, f"config of {self.folder}")

    @property
    def facts(self) -> Facts:
        """What the model must know of its training data: shapes, labels, mean and std."""
        return self.record.facts

    @property
    def is_finished(self) -> bool:
        return (self.folder / MODEL).exists()

    @property
    def is_derived(self) -> bool:
        """Whether the model was made from another run's, not trained here."""
        return self.record.parent is not None or self.record.transform is not None

    def model(self) -> nn.Module:
        """The trained model, in eval mode."""
        if not self.is_finished:
            way_out = "make it again from its parent" if self.is_derived else "finish it with anydepth train --resume"
            raise ModelFileError(f"{self.folder} holds no trained model yet; {way_out}")
        check_needs(self.record.needs, self.folder, MODEL_KINDS)
        model = load(self.folder).eval()
        known = getattr(model, "config", {})
        for name, value in self.facts.model_options().items():
            if name in known and known[name] not in (value, None):
                raise ModelFileError(
                    f"{self.folder / RECORD} says that {name} is {value}, the model has {known[name]}; it is damaged"
                )
        return model

    def model_hash(self) -> str:
        return artifact.digest(artifact.read_bytes(self.folder / MODEL))

    def dataset(self, root: Path | None) -> Dataset:
        """The data of the run, from a data directory; by default the one that it was trained from."""
        check_needs(self.record.needs, self.folder, DATA_KINDS)
        try:
            return dataset_of(self.config, self.data_directory if root is None else root)
        except ConfigError as error:
            raise ModelFileError(f"{self.folder / RECORD} describes invalid data: {error}") from None

    @property
    def data_directory(self) -> Path | None:
        """Where the data was, if that is still there."""
        kept = Path(self.record.data_directory) if self.record.data_directory else None
        return kept if kept is not None and kept.is_dir() else None

    def metrics(self) -> list[JsonObject]:
        """All lines of metrics; a run that was never trained has none."""
        return read_metrics(self.folder / METRICS)

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to be done: the model is there, and tested if it was to be."""
        if not self.is_finished:
            return False
        lines = self.metrics()
        return bool(lines) and (lines[-1]["kind"] == "test" or not self.config.evaluation.test)

    def record_hash(self) -> str:
        return artifact.digest(artifact.read_bytes(self.folder / RECORD))

    def metrics_bytes(self) -> int:
        return size_of(self.folder / METRICS)

    def cut_metrics(self, size: int) -> None:
        """Drop lines of metrics that were written after a checkpoint."""
        keep_first(self.folder / METRICS, size)

    def log(self, line: Mapping[str, object]) -> None:
        """Add a line of metrics."""
        add_line(self.folder / METRICS, line)


def dataset_of(config: RunConfig, root: Path | None) -> Dataset:
    data = config.data
    return Dataset(data.name, data.options, root, data.validation, data.split_seed, data.limit)


def new_run(
    folder: Path,
    config: RunConfig,
    facts: Facts,
    parent: Run | None = None,
    transform: dict[str, object] | None = None,
    training_data: str = "",
    data: Path | None = None,
    needs: tuple[Need, ...] = (),
) -> Run:
    """Make a run folder; one that holds a run, or what is left of one, is refused."""
    check_vacant(folder)
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
        training_data=training_data if parent is None else parent.record.training_data,
        needs=tuple(dict.fromkeys((*needs, *(() if parent is None else parent.record.needs)))),
        data_directory=_remembered(parent, data),
    )
    values = record.model_dump(mode="json")
    try:
        json.dumps(values, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        odd = error.object[max(0, error.start - 20) : error.end + 20]
        raise ConfigError(f"a path or a name is no UTF-8 text: ...{odd}...; rename it") from None
    artifact.make_folder(folder)
    artifact.write_json(folder / RECORD, values)
    return Run(folder, record)


def _remembered(parent: Run | None, data: Path | None) -> str:
    """The data directory of a run; one that was made from another has that one's."""
    if data is not None:
        return str(data.absolute())
    return "" if parent is None else parent.record.data_directory


def check_vacant(folder: Path) -> None:
    """Refuse a folder that holds a run already; what a killed compress of an older version left counts as nothing."""
    if is_half_made(folder):
        return
    for name in (RECORD, METRICS, MODEL, CHECKPOINTS):
        if os.path.lexists(folder / name) and not _is_empty(folder / name):
            raise ConfigError(f"{folder} holds a run already ({name}); name another folder with --out")


def check_new(folder: Path) -> None:
    """Refuse, before anything is computed, a place where `save_derived` cannot put a run."""
    check_vacant(folder)
    if not is_half_made(folder) and not _is_locked_only(folder):
        artifact.check_fillable(Path(os.path.realpath(folder)))


def _is_locked_only(folder: Path) -> bool:
    """Whether a folder holds nothing but the lock of a process that looked."""
    return folder.is_dir() and {path.name for path in folder.iterdir()} == {LOCK}


def is_half_made(folder: Path) -> bool:
    """Whether a folder holds the record of a model that was to be made from another run's, and no model."""
    if not (folder / RECORD).is_file() or any(os.path.lexists(folder / n) for n in (MODEL, METRICS, CHECKPOINTS)):
        return False
    try:
        return open_run(folder).is_derived
    except (ModelFileError, StorageError):
        return False


def _is_empty(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and not any(path.iterdir())


def _described(run: Run) -> str:
    made = "trained" if run.record.transform is None else f"made by {json.dumps(run.record.transform)}"
    return f"{run.model_hash()[:12]}: {made}, {run.record.created}"


def open_run(folder: Path) -> Run:
    """The run in a folder."""
    path = folder / RECORD
    if not path.exists():
        if (folder / MODEL).is_file():
            raise ModelFileError(
                f"no run in {folder}: {path} is missing. This is a saved model; "
                "load it with ad.load, and judge it with ad.check"
            )
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
    for name in (RECORD, METRICS, REPORT, MODEL, TENSORS, staged(Path(MODEL)).name):
        (folder / name).unlink(missing_ok=True)
    for kept in (*folder.glob("sweep*.json"), *folder.glob("sweep*.png")):
        kept.unlink(missing_ok=True)
    for checkpoint in (folder / CHECKPOINTS).glob("step-*"):
        checkpoint.unlink(missing_ok=True)


def save_derived(parent: Run, folder: Path, model: nn.Module, transform: dict[str, object]) -> Run:
    """A new run whose model was made from another run's: the whole folder, or nothing of it."""
    check_vacant(folder)
    if is_half_made(folder):
        discard_run(folder)
    if _is_locked_only(folder):
        with locked(folder):
            (folder / LOCK).unlink()
    with artifact.whole_folder(folder) as staging:
        needs = depth_needs(model, {})
        made = new_run(staging, parent.config, parent.facts, parent, transform, needs=needs)
        save(model, staging)
    return Run(folder, made.record)
