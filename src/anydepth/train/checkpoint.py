"""Checkpoints: tensors, then a sealed manifest that vouches for them; the last two are kept."""

import re
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from warnings import warn

from torch import Tensor

from anydepth import artifact
from anydepth.errors import AnydepthWarning, ModelFileError, StorageError

FORMAT, VERSION = "anydepth-checkpoint", 1
FOLDER = "checkpoints"
_KEPT = 2
_NAME = re.compile(r"step-(\d{9})-level-(\d{3})\.json")


class Snapshot(NamedTuple):
    """A training at one moment."""

    values: dict[str, Any]
    """JSON values."""
    tensors: dict[str, Tensor]


def write_checkpoint(run: Path, step: int, level: int, snapshot: Snapshot) -> None:
    """Add a checkpoint, and only then remove the oldest."""
    folder, name = run / FOLDER, f"step-{step:09d}-level-{level:03d}"
    content = artifact.pack_tensors(snapshot.tensors)
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "sha256": artifact.digest(content),
        "tensors": artifact.describe_tensors(snapshot.tensors),
        **snapshot.values,
    }
    artifact.write_bytes(folder / f"{name}.safetensors", content)
    artifact.write_json(folder / f"{name}.json", artifact.sealed(manifest))
    for old in _manifests(folder)[_KEPT:]:
        _remove(old)
        artifact.reached("checkpoint removed")


def read_newest(run: Path) -> Snapshot | None:
    """The newest checkpoint that is whole, with a warning for every newer one that is not; None if there is none."""
    found = _manifests(run / FOLDER)
    for path in found:
        try:
            return _read(path)
        except (ModelFileError, StorageError) as error:
            warn(
                f"checkpoint {path.stem} cannot be used: {error}; trying the one before", AnydepthWarning, stacklevel=2
            )
    if found:
        raise ModelFileError(f"none of the checkpoints in {run / FOLDER} can be used; train into another folder")
    return None


def tidy(run: Path) -> None:
    """Clear away what a killed process left: temporary files, and tensors that nothing vouches for."""
    folder = run / FOLDER
    for place in (run, folder):
        artifact.remove_temporaries(place)
    for tensors in folder.glob("*.safetensors"):
        if not tensors.with_suffix(".json").exists():
            with suppress(OSError):
                tensors.unlink()


def _manifests(folder: Path) -> list[Path]:
    """The manifests there, the newest first."""
    return sorted((path for path in folder.glob("*.json") if _NAME.fullmatch(path.name)), reverse=True)


def _remove(manifest: Path) -> None:
    """The manifest goes first: without it nothing vouches for the tensors."""
    with suppress(OSError):
        manifest.unlink()
        manifest.with_suffix(".safetensors").unlink(missing_ok=True)


def _read(path: Path) -> Snapshot:
    values = artifact.read_json(path)
    if values.get("format") != FORMAT:
        raise ModelFileError(f"{path} is not an anydepth checkpoint: its format is {values.get('format')!r}")
    if values.get("version") != VERSION:
        raise ModelFileError(f"{path} has version {values.get('version')!r}, expected {VERSION}; use a newer anydepth")
    artifact.check_seal(values, path)
    if not isinstance(values.get("tensors"), dict):
        raise ModelFileError(f"{path} lacks 'tensors'; it is damaged")
    return Snapshot(
        values, artifact.read_tensors(path.with_suffix(".safetensors"), values["tensors"], values["sha256"])
    )


def take(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors under a prefix, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
