"""Picture files of any size: few formats, sizes checked before pixels are decoded, and every fault has a file."""

import os
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydepth.data.files import LIMIT
from anydepth.data.image_formats import PILLOW_FORMATS
from anydepth.errors import AnydepthError, DataError
from anydepth.extras import demand

if TYPE_CHECKING:
    from PIL.Image import Image

MOST_PIXELS = 64_000_000
"""Of one picture, known from its header; more is taken for a bomb."""
_MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")
_CHUNK = 16


class Decoded(NamedTuple):
    """Pictures that could be read, (count, channels, height, width), and what is wrong with the others."""

    pixels: NDArray[np.uint8]
    is_fine: NDArray[np.bool_]
    faults: tuple[str, ...]


def decode_all(paths: Sequence[Path], shape: tuple[int, int, int]) -> Decoded:
    """Pictures resized and cropped to (channels, height, width), by threads; faults are collected, not raised."""
    if len(paths) * int(np.prod(shape)) > LIMIT:
        wanted = " x ".join(map(str, shape))
        raise DataError(f"{len(paths):,} images of {wanted} take over {LIMIT:,} bytes; choose a smaller size")
    pixels = np.zeros((len(paths), *shape), np.uint8)
    faults: dict[int, str] = {}

    def fill(start: int) -> None:
        for place in range(start, min(start + _CHUNK, len(paths))):
            try:
                pixels[place] = picture(paths[place], shape, resize=True)
            except DataError as error:
                faults[place] = str(error)

    with _bombs_are_errors(), ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(fill, range(0, len(paths), _CHUNK)))
    is_fine = np.array([place not in faults for place in range(len(paths))], bool)
    return Decoded(pixels[is_fine] if faults else pixels, is_fine, tuple(faults[place] for place in sorted(faults)))


def read_picture(
    path: Path, shape: tuple[int, int, int], resize: bool, most_pixels: int = MOST_PIXELS, content: bytes | None = None
) -> NDArray[np.uint8]:
    """One picture as (channels, height, width); without `resize` it must have that size.

    Args:
        content: the bytes of the file, where it is no file; then the path is what errors call it.
    """
    with _bombs_are_errors():
        return picture(path, shape, resize, most_pixels, content)


def picture(
    path: Path, shape: tuple[int, int, int], resize: bool, most_pixels: int = MOST_PIXELS, content: bytes | None = None
) -> NDArray[np.uint8]:
    """As `read_picture`, for many threads: the caller has made warnings of bombs errors."""
    channels, height, width = shape
    mode = "L" if channels == 1 else "RGB"
    with _opened(path, content) as image:
        _check(path, image, None if resize else (width, height), most_pixels)
        found = _fitted(image, mode, width, height) if resize else image.convert(mode)
        return np.asarray(found, np.uint8).reshape(height, width, channels).transpose(2, 0, 1)


def _fitted(image: "Image", mode: str, width: int, height: int) -> "Image":
    """Turned upright, then the largest centred part of the right proportions, resized."""
    from PIL import ImageOps
    from PIL.Image import Resampling

    side = 2 * max(width, height)
    image.draft(mode, (side, side))  # of a JPEG, decodes no finer than is needed
    upright = ImageOps.exif_transpose(image)
    return ImageOps.fit(upright.convert(mode), (width, height), Resampling.BICUBIC)


def _check(path: Path, image: "Image", size: tuple[int, int] | None, most_pixels: int) -> None:
    """What the header says, before any pixel is decoded."""
    found = f"{image.width} x {image.height}"
    if size is not None and image.size != size:
        raise DataError(f"{path} is {found}, expected {size[0]} x {size[1]} pixels; give --resize to have it fitted")
    if image.width * image.height > most_pixels:
        raise DataError(f"{path} is {found}, more than {most_pixels:,} pixels; make it smaller")
    if image.mode not in _MODES:
        raise DataError(f"{path} has pixels of mode {image.mode}, expected 8 bits a channel; convert it first")


@contextmanager
def _opened(path: Path, content: bytes | None) -> Iterator["Image"]:
    """A picture, opened but not decoded; whatever fails with it is told of the file."""
    demand("reading images", "PIL")
    import PIL.Image

    if content is None and path.exists() and not path.is_file():
        raise DataError(f"{path} is no regular file, so that it is no image")

    try:
        with PIL.Image.open(path if content is None else BytesIO(content), formats=PILLOW_FORMATS) as image:
            yield image
    except AnydepthError:
        raise
    except PIL.UnidentifiedImageError:
        known = ", ".join(PILLOW_FORMATS)
        raise DataError(f"{path} cannot be read as an image: its first bytes match none of {known}") from None
    except FileNotFoundError:
        raise DataError(f"no file {path}") from None
    except Exception as error:  # Pillow's readers raise errors of many kinds on damaged files
        cause = str(error) or type(error).__name__
        raise DataError(f"{path} cannot be read as an image: {cause:.200}") from None


@contextmanager
def _bombs_are_errors() -> Iterator[None]:
    from PIL.Image import DecompressionBombWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of odd metadata, which nobody here can change
        warnings.simplefilter("error", DecompressionBombWarning)
        yield
