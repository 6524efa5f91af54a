"""Files that people want predictions for, as inputs of a trained model."""

from collections.abc import Sequence
from math import prod
from pathlib import Path
from tokenize import TokenError

import numpy as np
import torch
from torch import Tensor

from anydepth.data.facts import Facts
from anydepth.data.image_formats import IMAGE_SUFFIXES
from anydepth.data.images import normalised
from anydepth.data.pictures import read_picture
from anydepth.data.records import prepared
from anydepth.data.tables import SUFFIXES as TABLE_SUFFIXES
from anydepth.data.tables import check_complete, fields_of, read_table
from anydepth.errors import DataError

_UNREADABLE = (ValueError, OSError, EOFError, MemoryError, SyntaxError, TypeError, LookupError, ArithmeticError)
"""What numpy raises for array files that are damaged or hostile."""
_LARGEST = 2**31
"""Bytes of an array file that are read at most."""


def suffixes_for(facts: Facts) -> tuple[str, ...]:
    """Endings of the files that a model can answer."""
    if facts.kind == "sentences":
        return (".txt", ".conllu", ".conllu.gz")
    return (".npy", *(IMAGE_SUFFIXES if facts.kind == "images" else ()), *(TABLE_SUFFIXES if facts.columns else ()))


def found_in(paths: Sequence[Path], facts: Facts) -> list[Path]:
    """The files named, and those that a named folder holds, in alphabetical order; each once."""
    suffixes = suffixes_for(facts)
    found: list[Path] = []
    for path in paths:
        if not path.is_dir():
            found.append(path)
            continue
        inside = sorted(p for p in path.rglob("*") if p.is_file() and p.name.lower().endswith(suffixes))
        inside = [p for p in inside if not any(part.startswith(".") for part in p.relative_to(path).parts)]
        if not inside:
            raise DataError(f"folder {path} holds no file that can be read; expected {', '.join(suffixes)}")
        found += inside
    return list(dict.fromkeys(found))


def read_inputs(path: Path, facts: Facts, resize: bool = False) -> Tensor:
    """The examples in a file (count, ...): an array (.npy), one image, or the rows of a table."""
    suffixes = suffixes_for(facts)
    if not path.is_file():
        raise DataError(f"no file {path}; name one of {', '.join(suffixes)}")
    name = path.name.lower()
    if not name.endswith(suffixes):
        raise DataError(f"{path} has suffix {path.suffix!r}; expected {', '.join(suffixes)}")
    if name.endswith(IMAGE_SUFFIXES):
        return normalised(torch.from_numpy(_image(path, facts, resize)), facts)
    if name.endswith(TABLE_SUFFIXES):
        return torch.from_numpy(_rows(path, facts))
    return array_inputs(str(path), _array(path), facts)


def array_inputs(name: str, array: np.ndarray, facts: Facts) -> Tensor:
    """Raw values, as the dataset has them, as inputs; `name` is what errors call them."""
    found = _checked(name, array, facts)
    if facts.kind == "images":
        return normalised(found, facts)
    return torch.from_numpy(_standardised(found.numpy(), facts)) if facts.mean else found


def _rows(path: Path, facts: Facts) -> np.ndarray:
    """A table with the columns that the model was trained on; others are left alone."""
    table = read_table(path)
    texts = [column.name for column in facts.columns if column.categories]
    for column in facts.columns:
        check_complete(table, column.name, bool(column.categories))
    return prepared(fields_of(table, [c.name for c in facts.columns if not c.categories], texts), facts)


def _standardised(array: np.ndarray, facts: Facts) -> np.ndarray:
    """Features as the table had them before they were standardised."""
    return (array.astype(np.float64) - np.array(facts.mean)) / np.array(facts.std)


def _array(path: Path) -> np.ndarray:
    """A .npy file, mapped; objects, which would need pickle, and lengths that the file does not have are refused."""
    if path.stat().st_size > _LARGEST:
        raise DataError(f"{path} has {path.stat().st_size:,} bytes, more than {_LARGEST:,}; split it")
    try:
        with np.errstate(over="raise"):
            return np.lib.format.open_memmap(path, mode="r")
    except (*_UNREADABLE, TokenError) as error:
        raise DataError(f"{path} cannot be read as an array: {error}; write it with numpy.save") from None


def _checked(path: str, array: np.ndarray, facts: Facts) -> Tensor:
    shape = tuple(facts.shape)
    if len(shape) == 3 and shape[0] == 1 and array.shape[-2:] == shape[1:] and array.ndim < 4:
        array = array.reshape(-1, *shape)
    elif facts.kind == "series" and shape[1] == 1 and array.ndim == 2 and array.shape[1] == shape[0] != 1:
        array = array[..., None]
    elif array.ndim == len(shape):
        array = array[None]
    elif facts.mean and facts.kind == "vectors" and array.ndim > 2 and prod(array.shape[1:]) == shape[0]:
        array = array.reshape(len(array), -1)  # windows of series, taken for vectors
    allowed = ("uint8", "float32", "float64") if facts.kind == "images" else ("float32", "float64")
    if array.dtype.name not in allowed:
        raise DataError(f"{path} has dtype {array.dtype}, expected {' or '.join(allowed)}")
    if array.ndim != len(shape) + 1 or tuple(array.shape[1:]) != shape:
        raise DataError(f"{path} has shape {array.shape}, expected (count, {', '.join(map(str, shape))})")
    if not len(array):
        raise DataError(f"{path} is empty: its shape is {array.shape}; give at least one example")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise DataError(f"{path} has {array[place]} at {place}; inputs must be finite")
    return torch.from_numpy(np.array(array))


def _image(path: Path, facts: Facts, resize: bool) -> np.ndarray:
    """A picture of the model's size, or fitted to it where the training images were, or where that is asked for."""
    channels, height, width = facts.shape
    if channels not in (1, 3):
        raise DataError(f"the model takes {channels} channels, so {path} cannot be an image; give an array (.npy)")
    return read_picture(path, (channels, height, width), facts.fits or resize)[None].copy()
