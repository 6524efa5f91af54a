"""CIFAR-10 and CIFAR-100 in their binary versions: records of label bytes and 3 planes of 32 x 32 pixels."""

from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from anydepth.data.files import at_byte, content, lines
from anydepth.data.images import Images
from anydepth.data.option_checks import one_of
from anydepth.data.source import SOURCES, Part, Remote, Source, no_such_part
from anydepth.errors import DataError

_SHAPE = (3, 32, 32)
_PIXELS = 3 * 32 * 32
_URL = "https://www.cs.toronto.edu/~kriz/"


def read_records(path: Path, classes: tuple[int, ...]) -> NDArray[np.uint8]:
    """The records of one file, (count, label bytes + 3072); `classes` bounds each label byte."""
    size = len(classes) + _PIXELS
    found = content(path)
    if not found:
        raise at_byte(path, 0, f"the file is empty, expected records of {size} bytes")
    if len(found) % size:
        fault = f"a record cut short: {len(found)} bytes are not a multiple of {size}; download the file again"
        raise at_byte(path, len(found) // size * size, fault)
    records = np.frombuffer(found, np.uint8).reshape(-1, size)
    wrong = np.argwhere(records[:, : len(classes)] >= np.array(classes))
    if len(wrong):
        record, column = map(int, wrong[0])
        fault = f"label {records[record, column]}, expected one from 0 to {classes[column] - 1}"
        raise at_byte(path, record * size + column, fault)
    return records


def class_names(path: Path, count: int) -> tuple[str, ...]:
    """The names in a file with one per line; the numbers if there is no such file."""
    if not path.is_file():
        return tuple(map(str, range(count)))
    names = tuple(text.strip() for _, text in lines(path) if text.strip())
    if len(names) != count:
        raise DataError(
            f"{path}: {len(names)} names of classes, expected {count}; download the file again or remove it"
        )
    return names


class Cifar(Source):
    """Base: records in a few files of one folder, one label byte of each chosen."""

    folder: ClassVar[str]
    batches: ClassVar[dict[Part, tuple[str, ...]]]
    classes: ClassVar[tuple[int, ...]]
    """How many classes each label byte tells apart."""
    names: ClassVar[tuple[str, ...]]
    """The file with the names of the classes, for each label byte."""
    column = 0

    def files(self, part: Part) -> tuple[Path, ...]:
        if part not in self.batches:
            raise no_such_part(self.folder, part)
        return tuple(self.root / self.folder / name for name in self.batches[part])

    def read(self, part: Part) -> Images:
        self.demand(part)
        records = np.concatenate([read_records(path, self.classes) for path in self.files(part)])
        pixels = np.ascontiguousarray(records[:, len(self.classes) :]).reshape(-1, *_SHAPE)
        labels = class_names(self.root / self.folder / self.names[self.column], self.classes[self.column])
        return Images(pixels, records[:, self.column].astype(np.int64), labels)


@SOURCES.register("cifar10")
class Cifar10(Cifar):
    """CIFAR-10: 50,000 + 10,000 colour photographs of 32 x 32 pixels, 10 classes."""

    folder = "cifar-10-batches-bin"
    batches: ClassVar = {"train": tuple(f"data_batch_{i}.bin" for i in range(1, 6)), "test": ("test_batch.bin",)}
    classes = (10,)
    names = ("batches.meta.txt",)
    remotes: ClassVar = (
        Remote(f"{_URL}cifar-10-binary.tar.gz", "cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530"),
    )
    checksums: ClassVar = {
        "cifar-10-batches-bin/data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
        "cifar-10-batches-bin/data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
        "cifar-10-batches-bin/data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
        "cifar-10-batches-bin/data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
        "cifar-10-batches-bin/data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
        "cifar-10-batches-bin/test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
    }


@SOURCES.register("cifar100")
class Cifar100(Cifar):
    """CIFAR-100: 50,000 + 10,000 colour photographs of 32 x 32 pixels; 100 fine or 20 coarse classes."""

    folder = "cifar-100-binary"
    batches: ClassVar = {"train": ("train.bin",), "test": ("test.bin",)}
    classes = (20, 100)
    names = ("coarse_label_names.txt", "fine_label_names.txt")
    remotes: ClassVar = (
        Remote(f"{_URL}cifar-100-binary.tar.gz", "cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8"),
    )

    def __init__(self, root: Path, labels: str = "fine"):
        super().__init__(root)
        self.column = ("coarse", "fine").index(one_of("cifar100", "labels", labels, ("fine", "coarse")))
