"""metrics.jsonl: one line of JSON for every epoch, refinement, check and test, added as training goes on."""

import os
from collections.abc import Mapping
from pathlib import Path

from anydepth import artifact
from anydepth.artifact.reading import parse_json
from anydepth.errors import ModelFileError, StorageError
from anydepth.json_values import JsonObject

_LARGEST = 2**28
_NEEDED = {
    "step": ("step",),
    "epoch": ("epoch", "step", "nfe", "weights", "solver", "parameters", "seconds"),
    "refine": ("step", "weights", "solver", "parameters"),
    "control": ("step", "evaluations", "solver", "event", "passed", "measured"),
    "test": ("step",),
}
"""What every kind of line must have."""
_PLAIN_KINDS = ("step", "epoch", "test")
_TEXTS = ("weights", "solver")
_NUMBERS = ("step", "epoch", "parameters", "seconds")
_SCORES = ("train", "validation", "test")
_LARGEST_NUMBER = 1e300
_PLAIN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def read_metrics(path: Path) -> list[JsonObject]:
    """All whole lines; an unfinished last one, which a killed process leaves, does not count."""
    if not os.path.lexists(path):
        return []
    whole = artifact.read_bytes(path, _LARGEST).rpartition(b"\n")[0]
    return [_read_line(line, f"{path} line {number}") for number, line in enumerate(whole.split(b"\n"), 1) if whole]


def _read_line(content: bytes, place: str) -> JsonObject:
    line = parse_json(content, place)
    kind = line.get("kind")
    if not isinstance(kind, str) or kind not in _NEEDED:
        raise ModelFileError(f"{place} has kind {kind!r:.40}, expected one of {', '.join(_NEEDED)}; it is damaged")
    for name in _NEEDED[kind]:
        if name not in line:
            raise ModelFileError(f"{place} lacks {name!r}; it is damaged")
    if kind in _PLAIN_KINDS:
        for name, value in line.items():
            _check_value(name, value, place)
    return line


def _check_value(name: str, value: object, place: str) -> None:
    """Refuse what could not be shown."""
    if name in _TEXTS:
        is_fine = isinstance(value, str)
    elif name in _NUMBERS or name.split("_")[0] in _SCORES:
        is_missing = value is None and name not in _NUMBERS
        is_fine = is_missing or (isinstance(value, int | float) and abs(value) < _LARGEST_NUMBER)
    else:
        return
    if not is_fine:
        raise ModelFileError(f"{place} has {name} {value!r:.40}, expected a {'text' if name in _TEXTS else 'number'}")


def size_of(path: Path) -> int:
    return os.lstat(path).st_size if os.path.lexists(path) else 0


def add_line(path: Path, line: Mapping[str, object]) -> None:
    """Add a line; if that fails, nothing of it stays."""
    content = artifact.json_bytes(line, compact=True, keep_order=True)
    before = size_of(path)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _PLAIN, 0o644)
        try:
            while content:
                content = content[os.write(descriptor, content) :]
        except OSError:
            os.ftruncate(descriptor, before)
            raise
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StorageError(
            f"cannot write {path}: {error.strerror or error}; make room or choose another place"
        ) from error


def keep_first(path: Path, size: int) -> None:
    """Drop lines that were written after a checkpoint, and make those before it last."""
    if not os.path.lexists(path):
        return
    try:
        descriptor = os.open(path, os.O_RDWR | _PLAIN)
        try:
            if os.fstat(descriptor).st_size > size:
                os.ftruncate(descriptor, size)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StorageError(f"cannot cut {path}: {error.strerror or error}") from error
