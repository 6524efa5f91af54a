"""Checkpoints: tensors, then a sealed manifest that vouches for them; the last two are kept."""

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor

from anydepth import artifact
from anydepth.artifact.writing import staged
from anydepth.errors import ModelFileError

FORMAT, VERSION = "anydepth-checkpoint", 1
FOLDER = "checkpoints"
_KEPT = 2
_NAME = re.compile(r"step-(\d{9,13})-level-(\d{3,5})")


class Sums(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    loss: float
    right: float
    count: int = Field(ge=0)


class Place(BaseModel):
    """Where the training was."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    step: int = Field(ge=0, le=2**40)
    level: int = Field(ge=0, le=10_000)
    sums: Sums
    seconds: float = Field(ge=0)
    evaluations: int = Field(default=0, ge=0)
    check_evaluations: int = Field(default=0, ge=0)
    checks: int = Field(default=0, ge=0)
    failed_checks: int = Field(default=0, ge=0)
    changes: int = Field(default=0, ge=0)
    stalled_at: list[Annotated[int, Field(ge=1, le=2**40)]] = Field(default=[], max_length=10_000)
    best_loss: float | None = None
    waited: int = Field(default=0, ge=0)
    memory: dict[str, Any] = {}


class Manifest(BaseModel):
    """What a checkpoint says of itself."""

    model_config = ConfigDict(extra="forbid", strict=True)
    format: str = FORMAT
    version: int = VERSION
    run: str
    """SHA-256 of the run.json it belongs to."""
    sha256: str
    """Of the tensors."""
    tensors: dict[str, Any]
    progress: Place
    metrics_bytes: int = Field(ge=0, le=2**40)
    blocks: dict[str, Any]
    average_blocks: dict[str, Any] | None = None
    seal: str = ""


class Snapshot(NamedTuple):
    """A training at one moment: what goes into a manifest, and the tensors."""

    values: dict[str, Any]
    tensors: dict[str, Tensor]


def write_checkpoint(run: Path, step: int, level: int, snapshot: Snapshot) -> None:
    """Add a checkpoint, and only then remove those older than the one before."""
    folder, name = run / FOLDER, f"step-{step:09d}-level-{level:03d}"
    _refuse_link(folder)
    content = artifact.pack_tensors(snapshot.tensors)
    manifest = Manifest(
        sha256=artifact.digest(content), tensors=artifact.describe_tensors(snapshot.tensors), **snapshot.values
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
        manifest = Manifest.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        raise ModelFileError(f"{path} is damaged: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    if manifest.run != run_hash:
        raise ModelFileError(f"{path} belongs to another run than the run.json beside it")
    tensors = artifact.read_tensors(path.with_suffix(".safetensors"), manifest.tensors, manifest.sha256)
    return Snapshot(manifest.model_dump(), tensors)


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
