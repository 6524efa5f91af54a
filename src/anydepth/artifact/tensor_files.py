"""Tensors as safetensors; a file is compared with its description before anything is allocated for it."""

from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from anydepth.artifact.reading import digest, parse_json, read_bytes
from anydepth.errors import ConfigError, ModelFileError

if TYPE_CHECKING:
    from torch import Tensor

MOST_TENSORS, LONGEST_NAME, LARGEST_HEADER = 50_000, 512, 8 * 2**20
_DTYPES = {
    "float64": ("F64", 8),
    "float32": ("F32", 4),
    "float16": ("F16", 2),
    "bfloat16": ("BF16", 2),
    "int64": ("I64", 8),
    "int32": ("I32", 4),
    "int16": ("I16", 2),
    "int8": ("I8", 1),
    "uint8": ("U8", 1),
    "bool": ("BOOL", 1),
}
"""Names in descriptions, names in files, and bytes."""


def pack_tensors(tensors: "Mapping[str, Tensor]") -> bytes:
    from safetensors.torch import save
    from torch import Tensor

    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor) or tensor.is_meta:
            kind = "a tensor without data" if isinstance(tensor, Tensor) else type(tensor).__name__
            raise ConfigError(f"cannot save {name!r}: it is {kind}, expected a tensor with data")
        if str(tensor.dtype).removeprefix("torch.") not in _DTYPES:
            raise ConfigError(
                f"cannot save {name!r}: its dtype is {tensor.dtype}, expected one of {', '.join(_DTYPES)}"
            )
    return save({name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()})


def describe_tensors(tensors: "Mapping[str, Tensor]") -> dict[str, list[object]]:
    """Every tensor's dtype and shape, as JSON values."""
    return {name: [str(t.dtype).removeprefix("torch."), *t.shape] for name, t in tensors.items()}


def read_tensors(
    path: Path, described: Mapping[str, object], sha256: str, allow_nonfinite: bool = False
) -> "dict[str, Tensor]":
    """The tensors of a file that is just what its description says: names, dtypes, shapes, size, hash, and finite."""
    size = _check_description(path, described)
    content = read_bytes(path, size + 8 + LARGEST_HEADER, at_least=size + 8)
    if digest(content) != sha256:
        raise ModelFileError(f"{path} does not match its SHA-256; the file is damaged, save the model again")
    _check_header(path, content, described, size)
    tensors = _loaded(path, content)
    if not allow_nonfinite:
        _check_finite(path, tensors)
    return tensors


def _check_description(path: Path, described: Mapping[str, object]) -> int:
    """How many bytes the described tensors have."""
    if len(described) > MOST_TENSORS:
        raise ModelFileError(f"{path} should hold {len(described):,} tensors, more than {MOST_TENSORS:,}")
    total = 0
    for name, entry in described.items():
        if len(name) > LONGEST_NAME or not name.isprintable() or ".." in name or name.startswith("/") or "\\" in name:
            raise ModelFileError(f"{path} should hold a tensor with the improper name {name!r:.60}")
        if not isinstance(entry, list) or not entry or str(entry[0]) not in _DTYPES:
            raise ModelFileError(f"{path}: tensor {name!r} is described as {entry!r:.60}, expected dtype and shape")
        if len(entry) > 17 or not all(
            isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 2**48 for n in entry[1:]
        ):
            raise ModelFileError(f"{path}: tensor {name!r} has the invalid shape {entry[1:]!r:.60}")
        total += prod(entry[1:]) * _DTYPES[entry[0]][1]
    return total


def _check_header(path: Path, content: bytes, described: Mapping[str, object], size: int) -> None:
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 or length > LARGEST_HEADER or 8 + length > len(content):
        raise ModelFileError(f"{path} is not a safetensors file: its header should have {length:,} bytes")
    header = parse_json(content[8 : 8 + length], f"the header of {path}")
    found = {
        name: [next((k for k, (v, _) in _DTYPES.items() if v == entry.get("dtype")), None), *entry.get("shape", ())]
        if isinstance(entry, dict) and isinstance(entry.get("shape", ()), list)
        else None
        for name, entry in header.items()
        if name != "__metadata__"
    }
    wrong = [name for name in {*found, *described} if found.get(name) != described.get(name)]
    if wrong:
        raise ModelFileError(
            f"{path} does not hold what its description says: {min(wrong)!r:.60} is {found.get(min(wrong))}, "
            f"expected {described.get(min(wrong))}; save the model again"
        )
    if len(content) != 8 + length + size:
        raise ModelFileError(f"{path} has {len(content):,} bytes, expected {8 + length + size:,}; save the model again")


def _loaded(path: Path, content: bytes) -> "dict[str, Tensor]":
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        return load(content)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise ModelFileError(f"{path} is not a safetensors file: {error}; save the model again") from None


def _check_finite(path: Path, tensors: "Mapping[str, Tensor]") -> None:
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise ModelFileError(
                f"{path}: tensor {name!r} has numbers that are not finite; load it with allow_nonfinite=True to look"
            )
