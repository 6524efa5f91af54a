"""Folders that are there whole or not at all: filled beside their place, then renamed."""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from anydepth.artifact.writing import beside, clear_abandoned, hold, is_posix, make_folder, reached, sync_folder
from anydepth.errors import ConfigError, StorageError

_STAGING = re.compile(r"\..+\.[0-9a-f]{8}\.tmp")


def is_staging(folder: Path) -> bool:
    """Whether a folder is one that is being filled, or was when its process was killed."""
    return bool(_STAGING.fullmatch(folder.name))


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """A new folder to be filled; it takes the place of `target`, which is missing or empty, when all went well.

    After a kill at any point `target` is whole or as it was. What the killed process left lies beside it under a
    hidden name and is removed by the next one that makes the same folder.
    """
    place = Path(os.path.realpath(target))
    check_fillable(place)
    make_folder(place.parent)
    clear_abandoned(place)
    staging = beside(place)
    try:
        staging.mkdir()
    except OSError as error:
        raise _failed(target, error) from error
    descriptor = os.open(staging, os.O_RDONLY) if is_posix else None
    try:
        if descriptor is not None:
            hold(descriptor)
        yield staging
        reached("folder filled")
        _put(staging, place)
    except OSError as error:
        shutil.rmtree(staging, ignore_errors=True)
        if isinstance(error, StorageError):
            raise StorageError(str(error).replace(str(staging), str(target))) from error
        raise _failed(target, error) from error
    except Exception:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    finally:
        if descriptor is not None:
            os.close(descriptor)


def check_fillable(target: Path) -> None:
    """Refuse a place where a new folder cannot be put by renaming."""
    if not os.path.lexists(target):
        return
    if not target.is_dir():
        raise ConfigError(f"{target} is a file, expected the name of a new folder; choose another place")
    if any(target.iterdir()):
        raise ConfigError(f"{target} is not empty, expected the name of a new folder; choose another place")
    if os.path.realpath(target) == os.path.realpath(os.curdir):
        raise ConfigError(f"{target} is the current folder, expected the name of a new one; choose another place")


def _put(staging: Path, target: Path) -> None:
    if not is_posix:
        with suppress(OSError):
            target.rmdir()
    os.rename(staging, target)
    reached("folder renamed")
    sync_folder(target.parent)


def _failed(target: Path, error: OSError) -> StorageError:
    return StorageError(f"cannot make folder {target}: {error.strerror or error}; choose another place")
