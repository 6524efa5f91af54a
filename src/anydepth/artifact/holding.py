"""Temporary files and folders: held by the process that fills them, cleared away when that process is gone."""

import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

is_posix = os.name == "posix"
_ENDING, _LENGTH = re.compile(r"\.[0-9a-f]{8}\.tmp"), 13


def hold(descriptor: int) -> None:
    """Mark an open file or folder as in use until it is closed; the kernel drops the mark when the process dies."""
    if is_posix:
        import fcntl

        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def clear_abandoned(*targets: Path) -> None:
    """Remove what killed processes left half made beside these targets; what a living process holds stays."""
    if not is_posix:
        return
    names = {f".{target.name}" for target in targets}
    with suppress(OSError), os.scandir(targets[0].parent) as entries:
        for entry in entries:
            if _ENDING.fullmatch(entry.name[-_LENGTH:]) and entry.name[:-_LENGTH] in names:
                _clear(Path(entry.path))


def _clear(path: Path) -> None:
    import fcntl

    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        finally:
            os.close(descriptor)
