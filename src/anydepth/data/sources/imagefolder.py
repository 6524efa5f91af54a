"""Your own images: a folder with one folder for every class."""

import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar, NamedTuple
from warnings import warn

import numpy as np

from anydepth.data.files import is_text, shown
from anydepth.data.image_formats import IMAGE_SUFFIXES
from anydepth.data.images import Images
from anydepth.data.option_checks import one_of, whole
from anydepth.data.own_source import SHARE, Own
from anydepth.data.pictures import decode_all
from anydepth.data.shares import is_held_out, keys_of_names
from anydepth.data.source import SOURCES, Part, no_such_part
from anydepth.errors import AnydepthWarning, DataError

PARTS: dict[str, Part] = {
    "train": "train", "training": "train", "val": "validation", "valid": "validation", "validation": "validation",
    "test": "test", "testing": "test",
}  # fmt: skip
"""Folders that are parts of the data, if the one for training holds folders of classes."""
_TOLD = 5
_TRIAL = 4
"""Pixels of images that are decoded only to see whether they can be."""


class Listed(NamedTuple):
    """A picture, its name inside the folder of its part, and its class."""

    path: Path
    name: str
    label: int


@SOURCES.register("imagefolder")
class ImageFolder(Own):
    """Your own images: a folder with a folder per class, or with train, val and test folders of such; any sizes.

    Args:
        folder: where they are.
        size: every image is resized and cropped at its centre to so many pixels in width and height.
        channels: 3 for colours, 1 for grey.
        test: share of every class that is the test part, where there is no folder for it.
        damaged: what to do about files that cannot be read: refuse the data, or skip them with a warning.
    """

    name: ClassVar = "imagefolder"
    place: ClassVar = "folder"
    recipe: ClassVar = "image"

    def __init__(
        self,
        root: Path,
        folder: str = "imagefolder",
        size: int = 32,
        channels: int = 3,
        test: float = SHARE,
        damaged: str = "refuse",
    ):
        super().__init__(root, folder, test)
        side = whole(self.name, "size", size, least=4, most=1024)
        self.shape = (int(one_of(self.name, "channels", str(channels), ("1", "3"))), side, side)
        self.damaged = one_of(self.name, "damaged", damaged, ("refuse", "skip"))
        self.own_validation = "validation" in self._folders

    def read(self, part: Part) -> Images:
        if part == "validation" and not self.own_validation:
            raise no_such_part(self.name, part)
        self.demand(part)
        chosen = self._listed(part)
        found = decode_all([each.path for each in chosen], self.shape)
        others = self._faults_of_others(part)
        if found.faults or others:
            self._complain((*found.faults, *others), len(chosen))
        labels = np.array([each.label for each in chosen], np.int64)[found.is_fine]
        if not len(labels):
            raise DataError(f"{self.path}: none of the {len(chosen)} images of the {part} part can be read")
        return Images(found.pixels, labels, self._labels, fits=True)

    def _complain(self, faults: tuple[str, ...], count: int) -> None:
        told = "; ".join(faults[:_TOLD]) + (f"; and {len(faults) - _TOLD} more" if len(faults) > _TOLD else "")
        if self.damaged == "skip":
            warn(f"{len(faults)} of {count} images left out: {told}", AnydepthWarning, stacklevel=4)
            return
        way_out = "repair or remove them, or leave them out with --set data.options.damaged=skip"
        raise DataError(f"unreadable images: {len(faults)}; {way_out}: {told}")

    def _faults_of_others(self, part: Part) -> tuple[str, ...]:
        """Of training, also what is wrong with the files of other parts: better known before than after it."""
        if part != "train" or self.damaged == "skip":
            return ()
        others: tuple[Part, ...] = ("validation", "test") if self.own_validation else ("test",)
        paths = [each.path for other in others for each in self._listed(other)]
        return decode_all(paths, (self.shape[0], _TRIAL, _TRIAL)).faults

    @cached_property
    def _folders(self) -> dict[Part, Path]:
        """The folders of parts; none where the folder holds classes itself."""
        inside = {path.name.lower(): path for path in _folders_in(self.path)} if self.path.is_dir() else {}
        train = next((inside[name] for name in ("train", "training") if name in inside), None)
        if train is None or not _folders_in(train):
            return {}
        strangers = sorted(set(inside) - set(PARTS))
        if strangers:
            raise DataError(
                f"{inside[strangers[0]]} is beside {train}, which holds folders itself; have folders of parts "
                "(train, val, test) or folders of classes, not both"
            )
        return {PARTS[name]: path for name, path in inside.items()}

    @cached_property
    def _labels(self) -> tuple[str, ...]:
        found = tuple(path.name for path in _folders_in(self._folders.get("train", self.path)))
        if len(found) < 2:
            has = f"one class folder ({found[0]})" if found else "no folder in it"
            raise DataError(f"{self.path} has {has}; expected a folder for every class, at least two, images in each")
        for name in found:
            if not is_text(name):
                raise DataError(f"{self.path / name}: the name of this class is no UTF-8 text; rename the folder")
        return found

    def _listed(self, part: Part) -> list[Listed]:
        """The pictures of a part, by class and name."""
        if part in self._folders and (part != "train" or "test" in self._folders):
            return self._pictures(self._folders[part])
        found = self._pictures(self._folders.get("train", self.path))
        keys, labels = keys_of_names(each.name for each in found), np.array([each.label for each in found], np.int64)
        is_test = is_held_out(keys, labels, self.share)
        if not is_test.any():
            raise DataError(f"{self.path}: every class has one image, so that none is left to test on; add images")
        return [each for each, held in zip(found, is_test, strict=True) if held == (part == "test")]

    def _pictures(self, folder: Path) -> list[Listed]:
        places = {label: place for place, label in enumerate(self._labels)}
        found: list[Listed] = []
        for inside in _folders_in(folder):
            if inside.name not in places:
                raise DataError(f"{inside}: class {shown(inside.name)} has no folder in the training part")
            paths = _pictures_in(inside)
            if not paths:
                raise DataError(
                    f"{inside}: no image in it; expected {', '.join(IMAGE_SUFFIXES)}; add some or remove the folder"
                )
            found += [Listed(path, path.relative_to(folder).as_posix(), places[inside.name]) for path in paths]
        return found


def is_image_folder(path: Path) -> bool:
    """Whether a folder holds folders, as one of images does."""
    return path.is_dir() and bool(_folders_in(path))


def _folders_in(folder: Path) -> list[Path]:
    """In alphabetical order, without hidden ones and what archivers leave behind."""
    try:
        inside = sorted(folder.iterdir())
    except OSError as error:
        raise DataError(f"cannot look into {folder}: {error.strerror}") from None
    return [path for path in inside if path.is_dir() and not path.name.startswith((".", "__MACOSX"))]


def _pictures_in(folder: Path) -> Sequence[Path]:
    """At any depth, hidden ones left out; links to folders are not followed."""

    def refuse(error: OSError) -> None:
        raise DataError(f"cannot look into {error.filename}: {error.strerror}") from None

    found: list[Path] = []
    for where, folders, files in os.walk(folder, onerror=refuse):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        names = (name for name in sorted(files) if name.lower().endswith(IMAGE_SUFFIXES) and not name.startswith("."))
        found += [Path(where, name) for name in names]
    return sorted(found)
