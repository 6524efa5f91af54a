"""Where data comes from: a registered source reads its parts from files in a data directory, or makes them."""

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

from anydepth.data.table import Table
from anydepth.errors import DataError
from anydepth.registry import Registry

Part = Literal["train", "validation", "test"]

DIRECTORY = "ANYDEPTH_DATA"


class Remote(NamedTuple):
    """A file to fetch: its address, where it goes in the data directory, and its checksum if one is published.

    An archive (.tar.gz, .zip) is unpacked beside where it goes.
    """

    url: str
    target: str
    md5: str | None = None


class Source(ABC):
    """A dataset. Its constructor takes the data directory and, by keyword, its options."""

    remotes: ClassVar[tuple[Remote, ...]] = ()
    """What `anydepth data fetch` downloads."""
    checksums: ClassVar[Mapping[str, str]] = {}
    """md5 of files that come out of an archive, by their place in the data directory."""
    own_validation: bool = False
    """Whether it comes with a validation part of its own."""

    def __init__(self, root: Path):
        self.root = root

    def files(self, part: Part) -> tuple[Path, ...]:
        """The files that a part is read from; none for a made or bundled one."""
        return ()

    @abstractmethod
    def read(self, part: Part) -> Table:
        """One part, checked from end to end; a DataError names the file and the place in it."""

    def demand(self, part: Part) -> None:
        """Check that a part's files are there, without opening them."""
        for path in self.files(part):
            if not path.is_file():
                raise DataError(
                    f"no file {path}; put it there, fetch it with: anydepth data fetch, or name another data directory "
                    f"with --data or {DIRECTORY}"
                )


def no_such_part(name: str, part: str) -> DataError:
    """For sources without a part of that name; above all, the test part never stands in for validation."""
    return DataError(f"{name} has no {part} part of its own; hold out a part of its training data instead")


SOURCES: Registry[type[Source]] = Registry("dataset", package="anydepth.data.sources")
"""Datasets by name."""


def data_directory(given: Path | None = None) -> Path:
    """The directory given, else $ANYDEPTH_DATA, else one in the user's cache."""
    if given is not None:
        return given
    if os.environ.get(DIRECTORY):
        return Path(os.environ[DIRECTORY])
    if sys.platform == "darwin":
        cache = Path.home() / "Library" / "Caches"
    else:
        cache = Path(os.environ.get("LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "anydepth" / "data"
