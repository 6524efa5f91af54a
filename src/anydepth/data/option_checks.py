"""Checks of the options of datasets: what it is, what was given, what is expected."""

from collections.abc import Iterable

from anydepth.errors import ConfigError, choices

MOST_EXAMPLES = 10_000_000


def whole(dataset: str, name: str, value: object, least: int = 1, most: int = MOST_EXAMPLES) -> int:
    """A whole number in [least, most]."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise _refused(dataset, name, value, f"a whole number from {least} to {most}")
    return value


def number(dataset: str, name: str, value: object, least: float, most: float) -> float:
    """A real number in [least, most]."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise _refused(dataset, name, value, f"a number from {least:g} to {most:g}")
    return float(value)


def one_of(dataset: str, name: str, value: object, known: Iterable[str]) -> str:
    """One of a few names."""
    known = tuple(known)
    if not isinstance(value, str) or value not in known:
        raise _refused(dataset, name, value, choices(value, known).removeprefix("expected "))
    return value


def folder_name(dataset: str, value: object) -> str:
    """A folder, in the data directory unless it is absolute."""
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise _refused(dataset, "folder", value, "the name of a folder in the data directory")
    return value


def _refused(dataset: str, name: str, value: object, expected: str) -> ConfigError:
    return ConfigError(f"dataset {dataset!r}: option {name} is {value!r}, expected {expected}")
