"""Writing: whole or not at all, and there to stay."""

import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

from anydepth.errors import ConfigError, StorageError

TEMPORARY = ".tmp"
"""How the names of files end that are not whole yet."""

_OURS = re.compile(r"\..+\.(json|safetensors|html|png|svg|pdf|md|onnx|pt2)\.[0-9a-f]{8}\.tmp")

watchers: list[Callable[[str], None]] = []
"""Told of every named point that writing passes; tests stop the process there."""


def reached(point: str) -> None:
    for watcher in watchers:
        watcher(point)


def make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot make folder {path}: {error.strerror or error}; choose another place") from error


def write_bytes(path: Path, content: bytes) -> None:
    """Write beside the file, then rename over it; after a crash at any point the old file or the new one is there."""
    refuse_devices(path)
    make_folder(path.parent)
    clear_abandoned(path)
    temporary = beside(path)
    try:
        with _filled(temporary, content, path.suffix):
            _rename(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        _give_up(path, error, temporary)


def refuse_devices(*paths: Path) -> None:
    """Refuse what a rename would destroy for everybody: /dev/null, /dev/stdout, pipes, sockets."""
    for path in paths:
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            mode = os.stat(path).st_mode
            is_stream = path.is_symlink() and os.readlink(path).startswith("/proc/")
            if is_stream or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise StorageError(f"cannot write {path}: it is a device, a pipe or a stream; choose another place")


def write_pair(first: Path, content: bytes, second: Path, voucher: bytes) -> None:
    """Two files of one folder, the second vouching for the first.

    After a crash at any point a whole pair is there: both old, both new, or the new first file with
    its voucher still under the name `staged(second)`.
    """
    refuse_devices(first, second)
    make_folder(first.parent)
    clear_abandoned(first, second)
    temporaries = beside(first), beside(second)
    try:
        with (
            _filled(temporaries[0], content, first.suffix),
            _filled(temporaries[1], voucher, second.suffix),
        ):
            os.replace(temporaries[1], staged(second))
            reached("voucher staged")
            try:
                _rename(temporaries[0], first)
            except OSError:
                staged(second).unlink(missing_ok=True)
                raise
        _rename(staged(second), second)
        sync_folder(first.parent)
    except OSError as error:
        _give_up(first, error, *temporaries)


def staged(path: Path) -> Path:
    """Where a voucher waits for the file it vouches for."""
    return path.with_name(f".{path.name}.next")


def beside(path: Path) -> Path:
    """A name that nobody can foresee, so that no link can lie in wait there."""
    return path.with_name(f".{path.name}.{token_hex(4)}{TEMPORARY}")


@contextmanager
def _filled(path: Path, content: bytes, kind: str) -> Iterator[None]:
    """A new file, held while the context lasts so that no other process takes it for abandoned."""
    half = len(content) // 2
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o644)
    with os.fdopen(descriptor, "wb") as file:
        hold(descriptor)
        file.write(content[:half])
        reached(f"{kind} half written")
        file.write(content[half:])
        file.flush()
        os.fsync(file.fileno())
        if not is_posix:
            file.close()  # elsewhere an open file cannot be renamed
        reached(f"{kind} written")
        yield


def _rename(source: Path, target: Path) -> None:
    os.replace(source, target)
    reached(f"{target.suffix} renamed")


def _give_up(path: Path, error: OSError, *temporaries: Path) -> None:
    for temporary in temporaries:
        with suppress(OSError):
            temporary.unlink()
    raise StorageError(f"cannot write {path}: {error.strerror or error}; choose another place") from error


def sync_folder(path: Path) -> None:
    """Make renames in a folder last, where the system can."""
    if os.name != "posix":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_temporaries(folder: Path) -> None:
    """Clear away what a killed process left half written; call it while no other process writes there."""
    for path in folder.glob(f".*{TEMPORARY}"):
        if _OURS.fullmatch(path.name):
            with suppress(OSError):
                path.unlink()


def json_bytes(value: object, compact: bool = False, keep_order: bool = False) -> bytes:
    """JSON text of plain values, for people or in one line; anything else is refused before a file is touched."""
    indent, is_sorted = (None, not keep_order) if compact else (2, False)
    try:
        return (json.dumps(value, allow_nan=False, indent=indent, sort_keys=is_sorted) + "\n").encode()
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"cannot be written as JSON: {error}; use plain finite numbers, text, lists and dicts"
        ) from None


def write_json(path: Path, value: object) -> None:
    write_bytes(path, json_bytes(value))


# Temporary files and folders: held by the process that fills them, cleared away when that process is gone

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
