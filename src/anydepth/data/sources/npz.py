"""Your own arrays: images, vectors or windows of series, with classes or numbers to be found from them."""

from functools import cached_property
from itertools import product
from pathlib import Path
from typing import ClassVar, TypeGuard

import numpy as np
from numpy.typing import NDArray

from anydepth.data.arrays import array_names, read_array
from anydepth.data.files import shown
from anydepth.data.images import Images
from anydepth.data.option_checks import one_of
from anydepth.data.own_source import SHARE, Own
from anydepth.data.records import MOST_FEATURES, Fields, Records
from anydepth.data.shares import is_held_out, keys_of_rows
from anydepth.data.source import SOURCES, Part, no_such_part
from anydepth.data.table import Table
from anydepth.data.windows import Windows
from anydepth.errors import DataError

PAIRS = (
    ("x", "y"), ("X", "y"), ("inputs", "targets"), ("images", "labels"), ("data", "target"), ("data", "labels"),
)  # fmt: skip
"""Names of inputs and targets, where none are given."""
PARTS: dict[Part, tuple[str, ...]] = {
    "train": ("train",), "validation": ("validation", "val", "valid"), "test": ("test",),
}  # fmt: skip
"""Words that make a name of a part: x_train, or train_x."""
MOST_CLASSES = 10_000


@SOURCES.register("npz")
class Npz(Own):
    """Your own arrays in a .npz file: uint8 images, vectors or windows of series; classes or numbers as targets.

    Arrays are named x and y, inputs and targets, or images and labels; x_train, y_train, x_test and y_test (also
    x_val and y_val) where the parts are given. Images are (count, height, width), with 1 or 3 channels last or first.
    Windows are (count, times, channels), in other types than uint8. Whole numbers and texts as targets are classes.

    Args:
        file: where it is.
        inputs, targets: names of the arrays, without the words for parts.
        task: classify or regress; by default as the targets are.
        test: share of every class, or of the examples, that is the test part, where there is none.
    """

    name: ClassVar = "npz"
    place: ClassVar = "file"
    recipe: ClassVar = "image, series or tabular"

    def __init__(
        self,
        root: Path,
        file: str = "arrays.npz",
        inputs: str | None = None,
        targets: str | None = None,
        task: str = "auto",
        test: float = SHARE,
    ):
        super().__init__(root, file, test)
        self.pairs = PAIRS if inputs is None and targets is None else ((inputs or "x", targets or "y"),)
        self.task = one_of(self.name, "task", task, ("auto", "classify", "regress"))
        self.own_validation = self.path.is_file() and "validation" in self._names

    def files(self, part: Part) -> tuple[Path, ...]:
        return (self.path,)

    def read(self, part: Part) -> Table:
        self.demand(part)
        if part in self._names and (part != "train" or "test" in self._names):
            return self._table(*self._names[part])
        if part == "validation":
            raise no_such_part(self.name, part)
        whole = self._table(*self._names["train"])
        classes = whole.classes if isinstance(whole, Images) else whole.targets if whole.labels else None
        is_test = is_held_out(keys_of_rows(len(whole)), classes, self.share)  # pyright: ignore[reportArgumentType]
        if not is_test.any():
            raise DataError(f"{self.path}: every class has one example, so that none is left to test on; add some")
        return whole.take(np.flatnonzero(is_test == (part == "test")))

    @property
    def default_recipe(self) -> str:
        """By what the training inputs are."""
        inputs = read_array(self.path, self._names["train"][0])
        return "image" if _is_image(inputs) else "series" if inputs.ndim == 3 else "tabular"

    @cached_property
    def _names(self) -> dict[Part, tuple[str, str]]:
        """The arrays of every part that the file has; without words for parts, all is training."""
        there = array_names(self.path)
        for x, y in self.pairs:
            found: dict[Part, tuple[str, str]] = {}
            for part, words in PARTS.items():
                for word, form in product(words, ("{name}_{part}", "{part}_{name}")):
                    pair = (form.format(name=x, part=word), form.format(name=y, part=word))
                    if set(pair) <= set(there):
                        found.setdefault(part, pair)
            if "train" in found:
                return found
            if {x, y} <= set(there):
                return {"train": (x, y)}
        wanted = " or ".join(f"{x} and {y}" for x, y in self.pairs)
        raise DataError(
            f"{self.path} holds {', '.join(map(shown, there[:20])) or 'no arrays'}; expected {wanted} (or x_train and "
            "the like); name them with --set data.options.inputs=NAME and data.options.targets=NAME"
        )

    @cached_property
    def _labels(self) -> tuple[str, ...]:
        """Classes of the training part, in order; none for numbers to be found."""
        name = self._names["train"][1]
        targets = read_array(self.path, name)
        if self.task == "regress" or (self.task == "auto" and targets.dtype.kind == "f"):
            return ()
        found = np.unique(_column(self.path, name, targets))
        if not 2 <= len(found) <= MOST_CLASSES:
            raise DataError(
                f"{self.path}, array {shown(name)}: {len(found):,} different classes, expected 2 to {MOST_CLASSES:,}; "
                "regression targets have a floating-point type, or say --set data.options.task=regress"
            )
        return tuple(map(str, found.tolist()))

    def _table(self, x: str, y: str) -> Images | Records | Windows:
        inputs, targets = read_array(self.path, x), read_array(self.path, y)
        if len(inputs.shape) < 2 or not targets.shape or len(inputs) != len(targets) or not len(inputs):
            raise DataError(
                f"{self.path}: {shown(x)} has shape {inputs.shape} and {shown(y)} {targets.shape}; expected as many "
                "examples in both, at least one"
            )
        if _is_image(inputs):
            if not self._labels:
                raise DataError(
                    f"{self.path}, array {shown(y)}: images are classified, but these targets are numbers; give whole "
                    "numbers or texts"
                )
            return Images(_channels_first(self.path, x, inputs), self._classes(targets, y), self._labels)
        found = self._classes(targets, y) if self._labels else self._numbers(targets, y).astype(np.float32)
        numbers = self._numbers(inputs, x)
        if inputs.ndim == 3:
            return Windows(numbers.reshape(inputs.shape), found, self._labels)
        return Records(Fields(numbers, {}), found, self._labels)

    def _numbers(self, array: NDArray[np.generic], name: str) -> NDArray[np.float64]:
        """Flattened, (count, features), all finite."""
        if array.dtype.kind not in "biuf" or array.ndim > 3:
            raise DataError(
                f"{self.path}, array {shown(name)}: {array.dtype} of shape {array.shape}; expected numbers (count, "
                "features) or (count, times, channels), or images in uint8 from 0 to 255"
            )
        flat = array.reshape(len(array), -1).astype(np.float64)
        if not 1 <= flat.shape[1] <= MOST_FEATURES:
            raise DataError(f"{self.path}, array {shown(name)}: {flat.shape[1]:,} features, at most {MOST_FEATURES:,}")
        if not np.isfinite(flat).all():
            place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
            raise DataError(f"{self.path}, array {shown(name)}: {array[place]} at {place}; values must be finite")
        return flat

    def _classes(self, targets: NDArray[np.generic], name: str) -> NDArray[np.int64]:
        places = {label: place for place, label in enumerate(self._labels)}
        found = [str(value) for value in _column(self.path, name, targets).tolist()]
        for row, value in enumerate(found):
            if value not in places:
                raise DataError(
                    f"{self.path}, array {shown(name)}: {value} at {row} is not a class of the training part"
                )
        return np.array([places[value] for value in found], np.int64)


def _column(path: Path, name: str, targets: NDArray[np.generic]) -> NDArray[np.generic]:
    """One class for every example."""
    if targets.ndim == 2 and targets.shape[1] == 1:
        targets = targets[:, 0]
    if targets.ndim != 1 or targets.dtype.kind not in "biufU":
        raise DataError(f"{path}, array {shown(name)}: shape {targets.shape}; expected one class for every example")
    if targets.dtype.kind == "f" and not (
        np.isfinite(targets).all() and (targets == np.floor(targets)).all() and np.abs(targets).max(initial=0) <= 2**53
    ):
        raise DataError(f"{path}, array {shown(name)}: values that are not whole numbers cannot be classes")
    return targets.astype(np.int64) if targets.dtype.kind in "bf" else targets


def _is_image(array: NDArray[np.generic]) -> TypeGuard[NDArray[np.uint8]]:
    return array.dtype == np.uint8 and array.ndim in (3, 4)


def _channels_first(path: Path, name: str, array: NDArray[np.uint8]) -> NDArray[np.uint8]:
    if array.ndim == 3:
        return array[:, None]
    if array.shape[-1] in (1, 3):
        return np.ascontiguousarray(array.transpose(0, 3, 1, 2))
    if array.shape[1] in (1, 3):
        return array
    raise DataError(f"{path}, array {shown(name)}: shape {array.shape}; expected 1 or 3 channels, last or first")
