"""Checkpoints: tensors, then a sealed manifest that vouches for them; the last two are kept."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor

from anydepth import artifact
from anydepth.artifact.writing import staged
from anydepth.errors import ModelFileError
from anydepth.json_values import JsonObject
from anydepth.runs.progress import Progress

FORMAT, VERSION = "anydepth-checkpoint", 1
FOLDER = "checkpoints"
_KEPT = 2
_NAME = re.compile(r"step-(\d{9,13})-level-(\d{3,5})")


class Contents(BaseModel):
    """What a checkpoint says of the training it is of."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    run: str
    """SHA-256 of the run.json it belongs to."""
    progress: Progress
    metrics_bytes: int = Field(ge=0, le=2**40)
    """How much of the metrics belongs to it."""
    blocks: JsonObject
    average_blocks: JsonObject | None = None


class Manifest(Contents):
    """The same with what vouches for the tensors."""

    format: str = FORMAT
    version: int = VERSION
    sha256: str
    """Of the tensors."""
    tensors: JsonObject
    seal: str = ""


class Snapshot(NamedTuple):
    """A training at one moment."""

    contents: Contents
    tensors: dict[str, Tensor]


def write_checkpoint(run: Path, step: int, level: int, snapshot: Snapshot) -> None:
    """Add a checkpoint, and only then remove those older than the one before."""
    folder, name = run / FOLDER, f"step-{step:09d}-level-{level:03d}"
    _refuse_link(folder)
    content = artifact.pack_tensors(snapshot.tensors)
    manifest = Manifest(
        sha256=artifact.digest(content),
        tensors=artifact.describe_tensors(snapshot.tensors),
        **{name: getattr(snapshot.contents, name) for name in Contents.model_fields},
    )
    artifact.write_bytes(folder / f"{name}.safetensors", content)
    artifact.write_json(folder / f"{name}.json", artifact.sealed(manifest.model_dump(mode="json", exclude={"seal"})))
    older = [path for path in manifests(run) if path.stem <= name]
    for path in older[_KEPT:]:
        _remove(path)


def manifests(run: Path) -> list[Path]:
    """The manifests there, the newest first."""
    _refuse_link(run / FOLDER)
    return sorted((path for path in (run / FOLDER).glob("*.json") if _NAME.fullmatch(path.stem)), reverse=True)


def read_checkpoint(path: Path, run_hash: str) -> Snapshot:
    """A checkpoint by its manifest, checked from end to end."""
    values = artifact.read_json(path)
    if values.get("format") != FORMAT:
        raise ModelFileError(f"{path} is not an anydepth checkpoint: its format is {values.get('format')!r:.40}")
    if values.get("version") != VERSION:
        raise ModelFileError(
            f"{path} has version {values.get('version')!r:.40}, expected {VERSION}; use a newer anydepth"
        )
    artifact.check_seal(values, path)
    try:
        manifest = Manifest.model_validate_json(json.dumps(values))
    except ValidationError as error:
        first = error.errors()[0]
        raise ModelFileError(f"{path} is damaged: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    if manifest.run != run_hash:
        raise ModelFileError(f"{path} belongs to another run than the run.json beside it")
    tensors = artifact.read_tensors(path.with_suffix(".safetensors"), manifest.tensors, manifest.sha256)
    return Snapshot(manifest, tensors)


def remove_newer(run: Path, chosen: Path) -> None:
    """Remove what could not be used, so that it takes no room among those kept."""
    for path in manifests(run):
        if path.stem > chosen.stem:
            _remove(path)


def tidy(run: Path) -> None:
    """Clear away what a killed process left: temporary files, and tensors that nothing vouches for."""
    folder = run / FOLDER
    _refuse_link(folder)
    for place in (run, folder):
        artifact.remove_temporaries(place)
    if not (run / "model.safetensors").exists():
        with suppress(OSError):
            staged(run / "model.json").unlink()
    for path in _tensor_files(folder):
        if not path.with_suffix(".json").exists():
            with suppress(OSError):
                path.unlink()


def _tensor_files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.glob("*.safetensors") if _NAME.fullmatch(path.stem))


def _remove(manifest: Path) -> None:
    """The manifest goes first: without it nothing vouches for the tensors."""
    with suppress(OSError):
        manifest.unlink()
        artifact.reached("checkpoint removed")
        manifest.with_suffix(".safetensors").unlink(missing_ok=True)


def _refuse_link(folder: Path) -> None:
    if folder.is_symlink():
        raise ModelFileError(f"{folder} is a link, expected a folder; nothing is written through it")


def take(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors under a prefix, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
