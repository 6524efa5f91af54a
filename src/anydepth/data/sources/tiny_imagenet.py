"""Tiny-ImageNet: 200 classes of ImageNet in photographs of 64 x 64 pixels; its labelled val folder is the test part."""

import os
import re
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from anydepth.data.files import LIMIT, at_line, lines, shown
from anydepth.data.images import Images
from anydepth.data.source import SOURCES, Part, Remote, Source, no_such_part
from anydepth.errors import AnydepthError, DataError
from anydepth.extras import demand

if TYPE_CHECKING:
    from PIL.Image import Image

_FORMATS = ("JPEG", "PNG")
"""All that Pillow may try: some of its other readers start foreign programs."""
_CHUNK = 256
"""Images per task of a thread: a task per image would cost as much as the decoding of a small one."""


def read_wnids(path: Path) -> tuple[str, ...]:
    """The identifiers of the classes, sorted; they name folders, so they are letters and digits only."""
    found: set[str] = set()
    for number, text in lines(path):
        wnid = text.strip()
        if not wnid:
            continue
        if not re.fullmatch(r"\w+", wnid) or wnid in found:
            raise at_line(path, number, f"{shown(wnid)} is not a class identifier, or is there twice")
        found.add(wnid)
    if not found:
        raise DataError(f"{path}: no classes in it; download the file again")
    return tuple(sorted(found))


def read_annotations(path: Path, wnids: tuple[str, ...]) -> dict[str, int]:
    """The class of each image of the val folder, from lines of: file, wnid, box, with tabs between."""
    place = {wnid: i for i, wnid in enumerate(wnids)}
    found: dict[str, int] = {}
    for number, text in lines(path):
        if not text.strip():
            continue
        name, *rest = text.split("\t")
        if not rest or not name or "/" in name or "\\" in name:
            raise at_line(path, number, f"expected a file name, a tab and a class, got {shown(text)}")
        if rest[0] not in place:
            raise at_line(path, number, f"class {shown(rest[0])} is not in wnids.txt")
        if name in found:
            raise at_line(path, number, f"a second annotation of {shown(name)}")
        found[name] = place[rest[0]]
    return found


def read_words(path: Path, wnids: tuple[str, ...]) -> tuple[str, ...]:
    """The name of each class; its identifier where there is none."""
    wanted = dict.fromkeys(wnids, "")
    if path.is_file():
        for number, text in lines(path):
            wnid, tab, name = text.partition("\t")
            if text.strip() and not tab:
                raise at_line(path, number, f"expected a class, a tab and its name, got {shown(text)}")
            if wnid in wanted:
                wanted[wnid] = name.strip()
    return tuple(name or wnid for wnid, name in wanted.items())


def decode(paths: list[Path]) -> NDArray[np.uint8]:
    """Images of one size as (count, 3, height, width), decoded by threads into one array."""
    from PIL.Image import DecompressionBombWarning

    with warnings.catch_warnings():
        warnings.simplefilter("error", DecompressionBombWarning)
        with _image(paths[0]) as first:
            width, height = first.size
        if width * height * 3 * len(paths) > LIMIT:
            raise DataError(f"{paths[0]}: {len(paths)} images of {width} x {height} pixels take over {LIMIT} bytes")
        pixels = np.empty((len(paths), 3, height, width), np.uint8)

        def fill(start: int) -> None:
            for place in range(start, min(start + _CHUNK, len(paths))):
                _decode(paths[place], pixels[place])

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(fill, range(0, len(paths), _CHUNK)))
    return pixels


def _decode(path: Path, pixels: NDArray[np.uint8]) -> None:
    """One image into its place, (3, height, width)."""
    _, height, width = pixels.shape
    with _image(path) as image:
        # known from the file's header, so that an image of another size is never decoded
        if image.size != (width, height):
            found = f"{image.size[0]} x {image.size[1]}"
            raise DataError(f"{path}: an image of {found} pixels among images of {width} x {height}")
        pixels[:] = np.asarray(image.convert("RGB")).transpose(2, 0, 1)


@contextmanager
def _image(path: Path) -> Iterator["Image"]:
    """An image, opened but not decoded; whatever fails with it is told of the file."""
    demand("reading images", "PIL")
    import PIL.Image

    try:
        with PIL.Image.open(path, formats=_FORMATS) as image:
            yield image
    except AnydepthError:
        raise
    except Exception as error:  # Pillow's readers raise errors of many kinds on damaged files
        raise DataError(
            f"{path}: cannot be decoded ({type(error).__name__}: {error}); download the file again"
        ) from error


@SOURCES.register("tiny-imagenet")
class TinyImageNet(Source):
    """Tiny-ImageNet: 100,000 + 10,000 colour photographs of 64 x 64 pixels, 200 classes."""

    remotes: ClassVar = (
        Remote(
            "http://cs231n.stanford.edu/tiny-imagenet-200.zip",
            "tiny-imagenet-200.zip",
            "90528d7ca1a48142e341f4ef8d21d0de",
        ),
    )

    def __init__(self, root: Path):
        super().__init__(root)
        self.folder = root / "tiny-imagenet-200"

    def files(self, part: Part) -> tuple[Path, ...]:
        """Those that are cheap to name: the lists, not the images."""
        if part not in ("train", "test"):
            raise no_such_part("tiny-imagenet", part)
        lists = (self.folder / "wnids.txt",)
        return lists if part == "train" else (*lists, self.folder / "val" / "val_annotations.txt")

    def read(self, part: Part) -> Images:
        self.demand(part)
        wnids = read_wnids(self.folder / "wnids.txt")
        labels = read_words(self.folder / "words.txt", wnids)
        chosen = self._train(wnids) if part == "train" else self._test(wnids)
        return Images(decode([path for path, _ in chosen]), np.array([label for _, label in chosen], np.int64), labels)

    def _train(self, wnids: tuple[str, ...]) -> list[tuple[Path, int]]:
        found = []
        for label, wnid in enumerate(wnids):
            folder = self.folder / "train" / wnid / "images"
            images = sorted(folder.glob("*.JPEG"))
            if not images:
                raise DataError(f"no images {folder}/*.JPEG of a class that is in wnids.txt; unpack the archive again")
            found += [(path, label) for path in images]
        return found

    def _test(self, wnids: tuple[str, ...]) -> list[tuple[Path, int]]:
        folder, path = self.folder / "val" / "images", self.folder / "val" / "val_annotations.txt"
        classes = read_annotations(path, wnids)
        images = {image.name: image for image in sorted(folder.glob("*.JPEG"))}
        if not classes:
            raise DataError(f"{path}: no annotations in it; download the file again")
        for name in sorted(images.keys() - classes.keys()):
            raise DataError(f"{images[name]}: an image without an annotation in {path}")
        for name in sorted(classes.keys() - images.keys()):
            raise DataError(f"no file {folder / name}, which {path} lists; unpack the archive again")
        return [(image, classes[name]) for name, image in images.items()]
