"""Files on disk: bytes written whole or not at all, hashes, JSON, and tensors without pickle."""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anydepth.errors import ConfigError, ModelFileError, StorageError

if TYPE_CHECKING:
    from torch import Tensor


def digest(content: bytes) -> str:
    return sha256(content).hexdigest()


def make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot make folder {path}: {error.strerror or error}; choose another place") from error


def write_bytes(path: Path, content: bytes) -> None:
    """Write beside the file, then rename over it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    make_folder(path.parent)
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise StorageError(f"cannot write {path}: {error.strerror or error}; choose another place") from error


def json_bytes(value: Any) -> bytes:
    """JSON text of plain values; anything else is refused before a file is touched."""
    try:
        return (json.dumps(value, indent=2, allow_nan=False) + "\n").encode()
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"cannot be written as JSON: {error}; use plain finite numbers, text, lists and dicts"
        ) from None


def write_json(path: Path, value: Any) -> None:
    write_bytes(path, json_bytes(value))


def read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ModelFileError(f"no file {path}; expected the folder that anydepth.save wrote") from None
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}") from error


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object."""
    try:
        value = json.loads(read_bytes(path).decode())
    except (ValueError, RecursionError) as error:
        raise ModelFileError(
            f"{path} is not JSON: {error}; the file is damaged or foreign, save the model again"
        ) from None
    if not isinstance(value, dict):
        raise ModelFileError(f"{path} holds a {type(value).__name__}, expected an object; save the model again")
    return value


def pack_tensors(tensors: "Mapping[str, Tensor]") -> bytes:
    from safetensors.torch import save
    from torch import Tensor

    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor) or tensor.is_meta:
            kind = "a tensor without data" if isinstance(tensor, Tensor) else type(tensor).__name__
            raise ConfigError(f"cannot save {name!r}: it is {kind}, expected a tensor with data")
    return save({name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()})


def unpack_tensors(content: bytes, name: str) -> "dict[str, Tensor]":
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        return load(content)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise ModelFileError(f"{name} is no safetensors file: {error}; save the model again") from None
