"""Reading with suspicion: plain files only, of a size known before they are read, JSON without tricks."""

import json
import os
import stat
from collections.abc import Mapping
from hashlib import sha256
from math import isfinite
from pathlib import Path

from anydepth.artifact.writing import json_bytes
from anydepth.errors import ModelFileError, StorageError
from anydepth.json_values import JsonObject

LARGEST_JSON = 4 * 2**20
"""Bytes of a description; that of a model with 10,000 tensors has about one million."""


def digest(content: bytes) -> str:
    return sha256(content).hexdigest()


def read_bytes(path: Path, limit: int | None = None, at_least: int = 0) -> bytes:
    """The contents of a plain file of so many bytes; links, devices and pipes are refused unread."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        raise ModelFileError(f"no file {path}; expected the folder that anydepth.save wrote") from None
    except OSError as error:
        if path.is_symlink():
            raise ModelFileError(f"{path} is a link, expected a regular file; copy the file itself there") from None
        raise StorageError(f"cannot read {path}: {error.strerror or error}") from error
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise ModelFileError(f"{path} is not a regular file; expected one that anydepth.save wrote")
    with os.fdopen(descriptor, "rb") as file:
        if limit is not None and status.st_size > limit:
            raise ModelFileError(f"{path} has {status.st_size:,} bytes, more than the {limit:,} it may have")
        if status.st_size < at_least:
            raise ModelFileError(f"{path} has {status.st_size:,} bytes, fewer than the {at_least:,} it should have")
        try:
            return file.read()
        except MemoryError:
            raise ModelFileError(f"{path} has {status.st_size:,} bytes, more than there is memory for") from None
        except OSError as error:
            raise StorageError(f"cannot read {path}: {error.strerror or error}") from error


def read_json(path: Path) -> JsonObject:
    """A JSON object."""
    return parse_json(read_bytes(path, LARGEST_JSON), str(path))


def parse_json(content: bytes, name: str) -> JsonObject:
    """A JSON object in which no name occurs twice and every number is finite."""
    try:
        value = json.loads(
            content.decode(), object_pairs_hook=_without_repeats, parse_constant=_finite, parse_float=_finite
        )
    except (ValueError, RecursionError) as error:
        raise ModelFileError(
            f"{name} is not JSON: {error}; the file is damaged or was not written by anydepth, save the model again"
        ) from None
    if not isinstance(value, dict):
        raise ModelFileError(f"{name} holds a {type(value).__name__}, expected an object; save the model again")
    return value


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the name {name!r:.60} occurs twice")
        found[name] = value
    return found


def _finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError(f"{text:.40} is not a finite number")
    return value


def seal_of(values: Mapping[str, object]) -> str:
    return digest(json_bytes({name: value for name, value in values.items() if name != "seal"}, compact=True))


def sealed(values: Mapping[str, object]) -> JsonObject:
    """The values with a hash of themselves, so that no edited or damaged ones pass."""
    return {**values, "seal": seal_of(values)}


def check_seal(values: Mapping[str, object], path: Path) -> None:
    if values.get("seal") != seal_of(values):
        raise ModelFileError(f"{path} does not match its own checksum; it was damaged or edited, save the model again")
