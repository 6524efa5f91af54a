"""Typed errors. Each is one line: what, got, expected, and the way out."""

from collections.abc import Iterable
from difflib import get_close_matches


def printable(text: str) -> str:
    """The text with characters that would steer a terminal, or that no encoding has, written out as in repr."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


class AnydepthError(Exception):
    """Base of every error a user can cause; `exit_code` is the command line's."""

    exit_code = 70

    def __init__(self, message: str):
        super().__init__(printable(" ".join(message.split())))


class ConfigError(AnydepthError, ValueError):
    """An argument, name or setting that cannot be used."""

    exit_code = 2


class ShapeError(ConfigError):
    """A tensor whose shape or structure does not fit."""


class PluginError(ConfigError):
    """A package that adds parts to anydepth and cannot be loaded."""


class UnitError(ConfigError):
    """A unit that breaks the contract of a continuous block."""


class DataError(AnydepthError):
    """Data that is missing or malformed."""

    exit_code = 3


class ModelFileError(AnydepthError):
    """A model file that is damaged, of another format, or does not fit the model."""

    exit_code = 4


class NumericalError(AnydepthError, ArithmeticError):
    """A computation gave NaN or infinity."""

    exit_code = 5


class StorageError(AnydepthError, OSError):
    """Reading or writing failed."""

    exit_code = 6


class FolderInUseError(AnydepthError):
    """A run folder that another process is working in."""

    exit_code = 7


class BudgetError(AnydepthError):
    """A budget that no form of a model meets."""

    exit_code = 1


class StoppedError(AnydepthError):
    """A training was stopped by a signal, after saving."""

    def __init__(self, message: str, signal: int):
        super().__init__(message)
        self.exit_code = 128 + signal


class RankLostError(AnydepthError):
    """A process of a distributed training was lost."""

    exit_code = 6


class AnydepthWarning(UserWarning):
    """A warning: something works, but probably not as intended."""


def choices(name: object, known: Iterable[str]) -> str:
    """The valid names, and the nearest one if `name` looks like a slip of the pen."""
    given = list(known)
    known = sorted(filter(None, given))  # the name of a model's root is empty
    near = get_close_matches(str(name), known, n=1)
    listing = f"expected one of {', '.join(known)}" if known else "none has a name" if given else "none is known"
    return listing + (f"; did you mean {near[0]!r}?" if near else "")
