"""Grey images in idx files, plain or gzip: MNIST, the sets that took over its form, and any other of that form.

A file is two zero bytes, a type code (8: uint8), the rank, one big-endian 32-bit size per dimension, and the values.
"""

from math import prod
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from anydepth.data.files import LIMIT, Reader, at_byte, plain_or_compressed
from anydepth.data.images import Images
from anydepth.data.option_checks import folder_name
from anydepth.data.source import SOURCES, Part, Remote, Source, no_such_part
from anydepth.errors import DataError

_UINT8 = 8
_STEMS: dict[Part, str] = {"train": "train", "test": "t10k"}
_NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
_DIGITS = tuple(map(str, range(10)))


def read_idx(path: Path, rank: int) -> NDArray[np.uint8]:
    """The array in an idx file of uint8 values, of a known rank."""
    with Reader(path) as reader:
        shape = _header(reader, rank)
        start, size = reader.place, prod(shape)
        values = reader.take(size + 1)
    if len(values) < size:
        fault = f"the file ends, but its header declares {size} values from byte {start}; download the file again"
        raise at_byte(path, start + len(values), fault)
    if len(values) > size:
        raise at_byte(path, start + size, f"more data than the {size} values that the header declares")
    return np.frombuffer(values, np.uint8).reshape(shape)


def _header(reader: Reader, rank: int) -> tuple[int, ...]:
    """The shape that the file declares; whether it holds as much is for the reading to find out."""
    magic = reader.take(4)
    expected = bytes((0, 0, _UINT8, rank))
    for place, byte in enumerate(expected):
        if magic[place : place + 1] != expected[place : place + 1]:
            found = magic[place] if place < len(magic) else "the end of the file"
            what = ("the first byte", "the second byte", "the type code", "the rank")[place]
            raise at_byte(reader.path, place, f"{what} of this kind of idx file is {byte}, got {found}")
    sizes = reader.take(4 * rank)
    if len(sizes) < 4 * rank:
        raise at_byte(reader.path, reader.place, f"the file ends in its header of {4 + 4 * rank} bytes")
    shape = tuple(int(size) for size in np.frombuffer(sizes, ">u4"))
    if 0 in shape:
        raise at_byte(reader.path, 4 + 4 * shape.index(0), f"nothing in it: the header declares the shape {shape}")
    if prod(shape) > LIMIT:
        raise at_byte(reader.path, 4, f"the header declares the shape {shape}, more than {LIMIT} bytes")
    return shape


def _within(classes: NDArray[np.uint8], bound: int, path: Path) -> None:
    wrong = np.flatnonzero(classes >= bound)
    if len(wrong):
        fault = f"label {classes[wrong[0]]}, expected one from 0 to {bound - 1}"
        raise at_byte(path, 8 + int(wrong[0]), fault)


class IdxImages(Source):
    """Base: images and labels of two parts in one folder, under the canonical names."""

    folder: str
    labels: tuple[str, ...]

    def read(self, part: Part) -> Images:
        self.demand(part)
        images, labels = self.files(part)[:2]
        pixels, classes = read_idx(images, 3), read_idx(labels, 1)
        if len(pixels) != len(classes):
            raise DataError(
                f"{images}, byte 4: {len(pixels)} images, but {labels}, byte 4: {len(classes)} labels; get both again"
            )
        names = self._names()
        _within(classes, len(names), labels)
        return Images(pixels[:, None], classes.astype(np.int64), names)

    def files(self, part: Part) -> tuple[Path, ...]:
        if part not in _STEMS:
            raise no_such_part(self.folder, part)
        names = [name for name in _NAMES if name.startswith(_STEMS[part])]
        return tuple(plain_or_compressed(self.root / self.folder / name) for name in names)

    def _names(self) -> tuple[str, ...]:
        return self.labels


def _remotes(
    url: str, folder: str, *checksums: str, contents: tuple[str | None, ...] = (None,) * 4
) -> tuple[Remote, ...]:
    files = zip(_NAMES, checksums, contents, strict=True)
    return tuple(Remote(f"{url}{name}.gz", f"{folder}/{name}.gz", md5, content) for name, md5, content in files)


@SOURCES.register("mnist")
class Mnist(IdxImages):
    """MNIST: 60,000 + 10,000 handwritten digits of 28 x 28 grey pixels, 10 classes."""

    folder = "mnist"
    labels = _DIGITS
    remotes: ClassVar = _remotes(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "mnist",
        "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "d53e105ee54ea40749a09fcbcd1e9432",
        "9fb629c4189551a2d022fa330f9573f3",
        "ec29112dd5afa0611ce80d1b7f02629c",
        contents=(
            "6bbc9ace898e44ae57da46a324031adb",
            "a25bea736e30d166cdddb491f175f624",
            "2646ac647ad5339dbf082846283269ea",
            "27ae3e4e09519cfbb04c329615203637",
        ),
    )


@SOURCES.register("fashion-mnist")
class FashionMnist(IdxImages):
    """Fashion-MNIST: 60,000 + 10,000 articles of clothing in 28 x 28 grey pixels, 10 classes."""

    folder = "fashion-mnist"
    labels = (
        "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
    )  # fmt: skip
    remotes: ClassVar = _remotes(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "fashion-mnist",
        "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "25c81989df183df01b3e8a0aad5dffbe",
        "bef4ecab320f06d8554ea6380940ec79",
        "bb300cfdad3c16e7a12a480ee83cd310",
    )


@SOURCES.register("kmnist")
class Kmnist(IdxImages):
    """Kuzushiji-MNIST: 60,000 + 10,000 cursive Japanese characters of 28 x 28 grey pixels, 10 classes."""

    folder = "kmnist"
    labels = ("o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo")
    remotes: ClassVar = _remotes(
        "http://codh.rois.ac.jp/kmnist/dataset/kmnist/",
        "kmnist",
        "bdb82020997e1d708af4cf47b453dcf7",
        "e144d726b3acfaa3e44228e80efcd344",
        "5c965bf0a639b31b8f53240b1b52f4d7",
        "7320c461ea6c1c855c0b718fb2a4b134",
    )


@SOURCES.register("idx")
class Idx(IdxImages):
    """Your own grey images in idx files with the names of MNIST's, in a folder; classes as in the training labels."""

    def __init__(self, root: Path, folder: str = "idx"):
        super().__init__(root)
        self.folder = folder_name("idx", folder)

    def files(self, part: Part) -> tuple[Path, ...]:
        """The training labels too: they say which classes there are."""
        return tuple(dict.fromkeys((*super().files(part), super().files("train")[1])))

    def _names(self) -> tuple[str, ...]:
        return tuple(map(str, range(int(read_idx(self.files("train")[1], 1).max()) + 1)))
