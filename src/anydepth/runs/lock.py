"""One process in a run folder at a time: a lock of the kernel's, which no crash leaves behind."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from anydepth.errors import FolderInUseError, StorageError

LOCK = ".lock"
_PATIENCE = 0.3
"""Seconds to wait for a process that only looked."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder; a second process is refused."""
    lock = FileLock(folder / LOCK, timeout=_PATIENCE, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout:
        raise FolderInUseError(
            f"{folder} is in use by another process; wait for it, or name another folder with --out"
        ) from None
    except OSError as error:
        raise StorageError(f"cannot lock {folder}: {error.strerror or error}; choose another place") from error
    try:
        yield
    finally:
        lock.release()


def refuse_if_locked(folder: Path) -> None:
    """Tell early, before anything slow, that a folder is in use."""
    if (folder / LOCK).exists():
        with locked(folder):
            pass
