"""Trained nets that packages bring along: runs that commands know by a name.

A package registers them in a module of its part "net" (`anydepth.plugins`):

    NETS.add("my-net", ShippedNet("What it is and how accurate.", Path(__file__).parent / "my-net", "9f2c..."))
"""

import os
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree

from anydepth import artifact, plugins
from anydepth.errors import ConfigError, ModelFileError, StorageError
from anydepth.registry import Registry
from anydepth.runs.folder import METRICS, RECORD
from anydepth.surgery.store import MODEL, TENSORS

FILES = (RECORD, METRICS, TENSORS, MODEL)


@dataclass(frozen=True)
class ShippedNet:
    """A finished run inside a package."""

    about: str
    folder: Path
    seal: str
    """SHA-256 of its model.json, which has the hash of the tensors."""

    @property
    def __doc__(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.about


NETS: Registry[ShippedNet] = Registry("net")


def located(path: Path) -> Path:
    """A folder as it is; for the name of a shipped net, a copy of its run in the user's cache, made at first use.

    Commands may write into a run's folder (a sweep, a report), which a package's files should not see.
    """
    name = str(path)
    if os.path.lexists(path) or len(path.parts) != 1:
        return path
    if name not in NETS:
        elsewhere = plugins.where_else("net", name)
        if elsewhere:
            raise ConfigError(elsewhere)
        return path
    net = NETS[name]
    place = cache() / f"{name}-{net.seal[:12]}"
    if not _is_intact(place, net):
        _copy(name, net, place)
    return place


def _copy(name: str, net: ShippedNet, place: Path) -> None:
    if place.is_dir() and not place.is_symlink():
        rmtree(place)
    try:
        with artifact.whole_folder(place) as staging:
            for file in FILES:
                artifact.write_bytes(staging / file, artifact.read_bytes(net.folder / file))
            if not _is_intact(staging, net):
                raise ModelFileError(f"net {name!r} is damaged: {net.folder / MODEL} has another hash; reinstall it")
    except (StorageError, ConfigError):
        if not _is_intact(place, net):  # else another process was faster
            raise


def cache() -> Path:
    """Where copies of shipped nets are kept."""
    home = os.environ.get("ANYDEPTH_CACHE") or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(home).expanduser() / "anydepth" / "nets"


def _is_intact(folder: Path, net: ShippedNet) -> bool:
    """Whether all files are there, and the description is the one that was shipped; it vouches for the tensors."""
    if not all((folder / file).is_file() for file in FILES):
        return False
    return artifact.digest(artifact.read_bytes(folder / MODEL)) == net.seal
