"""Files that people want predictions for, as inputs of a trained model."""

from collections.abc import Sequence
from pathlib import Path
from tokenize import TokenError

import numpy as np
import torch
from torch import Tensor

from anydepth.data.facts import Facts
from anydepth.data.formats import IMAGE_SUFFIXES, PILLOW_FORMATS
from anydepth.data.images import normalised
from anydepth.errors import DataError

_MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")
_UNREADABLE = (ValueError, OSError, EOFError, MemoryError, SyntaxError, TypeError, LookupError, ArithmeticError)
"""What numpy raises for array files that are damaged or hostile."""
_LARGEST = 2**31
"""Bytes of an array file that are read at most."""


def found_in(paths: Sequence[Path], facts: Facts) -> list[Path]:
    """The files named, and those that a named folder holds, in alphabetical order; each once."""
    text = (".txt", ".conllu", ".conllu.gz")
    suffixes = text if facts.kind == "sentences" else (".npy", *(IMAGE_SUFFIXES if facts.kind == "images" else ()))
    found: list[Path] = []
    for path in paths:
        if not path.is_dir():
            found.append(path)
            continue
        inside = sorted(p for p in path.iterdir() if p.is_file() and p.name.lower().endswith(suffixes))
        if not inside:
            raise DataError(f"folder {path} holds no file that can be read; expected {', '.join(suffixes)}")
        found += inside
    return list(dict.fromkeys(found))


def read_inputs(path: Path, facts: Facts) -> Tensor:
    """The examples in a file (count, ...): an array (.npy), or one image."""
    if not path.is_file():
        raise DataError(f"no file {path}; name an array (.npy){' or an image' if facts.kind == 'images' else ''}")
    if path.suffix.lower() in IMAGE_SUFFIXES and facts.kind == "images":
        return normalised(torch.from_numpy(_image(path, facts)), facts)
    if path.suffix.lower() != ".npy":
        expected = f".npy or one of {', '.join(IMAGE_SUFFIXES)}" if facts.kind == "images" else ".npy"
        raise DataError(f"{path} has suffix {path.suffix!r}; expected {expected}")
    array = _checked(path, _array(path), facts)
    return normalised(array, facts) if facts.kind == "images" else array


def _array(path: Path) -> np.ndarray:
    """A .npy file, mapped; objects, which would need pickle, and lengths that the file does not have are refused."""
    if path.stat().st_size > _LARGEST:
        raise DataError(f"{path} has {path.stat().st_size:,} bytes, more than {_LARGEST:,}; split it")
    try:
        with np.errstate(over="raise"):
            return np.lib.format.open_memmap(path, mode="r")
    except (*_UNREADABLE, TokenError) as error:
        raise DataError(f"{path} is no array that can be read: {error}; write it with numpy.save") from None


def _checked(path: Path, array: np.ndarray, facts: Facts) -> Tensor:
    shape = tuple(facts.shape)
    if len(shape) == 3 and shape[0] == 1 and array.shape[-2:] == shape[1:] and array.ndim < 4:
        array = array.reshape(-1, *shape)
    elif array.ndim == len(shape):
        array = array[None]
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


def _image(path: Path, facts: Facts) -> np.ndarray:
    from PIL import Image, UnidentifiedImageError

    channels, height, width = facts.shape
    if channels not in (1, 3):
        raise DataError(f"the model takes {channels} channels, so {path} cannot be an image; give an array (.npy)")
    try:
        with Image.open(path, formats=PILLOW_FORMATS) as image:
            if image.size != (width, height):
                raise DataError(f"{path} is {image.width} x {image.height}, expected {width} x {height} pixels")
            if image.mode not in _MODES:
                raise DataError(f"{path} has pixels of mode {image.mode}, expected 8 bits a channel; convert it first")
            pixels = np.asarray(image.convert("L" if channels == 1 else "RGB"), dtype=np.uint8)
    except (OSError, UnidentifiedImageError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise DataError(f"{path} is no image that can be read: {error}") from None
    return pixels.reshape(height, width, channels).transpose(2, 0, 1)[None].copy()
