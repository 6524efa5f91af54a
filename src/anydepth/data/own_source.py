"""Data of the user's own: where it is, and the options that its sources share."""

from pathlib import Path
from typing import ClassVar

from anydepth.data.option_checks import number
from anydepth.data.source import Part, Source
from anydepth.errors import ConfigError, DataError

SHARE = 0.2
"""Of the examples that are the test part, where the data comes with none."""


class Own(Source):
    """Base of sources that read a folder or a file of the user's."""

    name: ClassVar[str]
    place: ClassVar[str]
    """The option that says where the data is."""
    recipe: ClassVar[str]
    """What such data is trained with by default."""

    def __init__(self, root: Path, where: object, test: object):
        super().__init__(root)
        self.path = located(self.name, self.place, where, root)
        self.share = number(self.name, "test", test, least=0.001, most=0.9)

    def demand(self, part: Part) -> None:
        is_there = self.path.is_dir() if self.place == "folder" else self.path.is_file()
        if not is_there:
            raise DataError(
                f"no {self.place} {self.path}; name yours with: anydepth train PATH, or with --set "
                f"data.options.{self.place}=PATH; if it was moved, name the directory it is in with --data"
            )


def located(dataset: str, option: str, value: object, root: Path) -> Path:
    """An absolute path as it is, unless only the data directory has what it names; another one as seen from here, or
    else from the data directory."""
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ConfigError(f"dataset {dataset!r}: option {option} is {value!r}, expected the path of a {option}")
    given = Path(value).expanduser()
    for path in (given.absolute(), root / given.name if given.is_absolute() else root / given):
        if path.exists():
            return path
    return given if given.is_absolute() else root / given


def names(dataset: str, option: str, value: object) -> tuple[str, ...]:
    """A list of names; None: none."""
    if value is None:
        return ()
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        raise ConfigError(f'dataset {dataset!r}: option {option} is {value!r}, expected a list such as ["a", "b"]')
    return tuple(value)
