"""Reading files that may be compressed, damaged or hostile: never more than asked for, and every fault has a place."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Self

from anydepth.errors import DataError, StorageError

LIMIT = 4 * 2**30
"""Bytes; no dataset read here comes near it, so more is taken for damage or malice."""
LONGEST_LINE = 2**20

_CHUNK = 2**20


class Reader:
    """A file read from its start, decompressed if its name ends in .gz.

    A DataError names the file and the place in the decompressed data.
    """

    def __init__(self, path: Path):
        self.path = path
        self.place = 0
        with _explained(self):
            self._stream = gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb")  # noqa: SIM115

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stream.close()

    def take(self, size: int) -> bytearray:
        """The next `size` bytes, or what is left; grows with what is really there."""
        found = bytearray()
        while len(found) < size:
            with _explained(self):
                chunk = self._stream.read(min(_CHUNK, size - len(found)))
            if not chunk:
                break
            found += chunk
            self._advance(len(chunk))
        return found

    def line(self, longest: int) -> bytes:
        """The next line with its end, cut after `longest` + 1 bytes; empty at the end of the file."""
        with _explained(self):
            found = self._stream.readline(longest + 1)
        self._advance(len(found))
        return found

    def _advance(self, size: int) -> None:
        self.place += size
        if self.place > LIMIT:
            raise at_byte(self.path, LIMIT, f"more than {LIMIT} bytes, which no dataset known here has")


@contextmanager
def _explained(reader: Reader) -> Iterator[None]:
    """Faults of the medium and of the compression, as errors that say where."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise at_byte(
            reader.path, reader.place, f"bad gzip data after this place ({error}); download the file again"
        ) from error
    except FileNotFoundError as error:
        raise DataError(f"no file {reader.path}") from error
    except OSError as error:
        raise StorageError(f"cannot read {reader.path}: {error.strerror or error}") from error


def content(path: Path) -> bytearray:
    """All bytes of a file of a sane size."""
    with Reader(path) as reader:
        return reader.take(LIMIT + 1)


def lines(path: Path, longest: int = LONGEST_LINE) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 text with their numbers, without their ends and without a byte-order mark."""
    with Reader(path) as reader:
        for number in count(1):
            raw = reader.line(longest)
            if not raw:
                return
            if len(raw) > longest:
                raise at_line(
                    path, number, f"longer than {longest} bytes; this is not a text file of the expected kind"
                )
            try:
                text = raw.decode("utf-8")
            except UnicodeDecodeError as error:
                raise at_line(path, number, f"not UTF-8: {error.reason} at byte {error.start} of the line") from error
            text = text.removeprefix("\ufeff") if number == 1 else text
            yield number, text.removesuffix("\n").removesuffix("\r")


def plain_or_compressed(path: Path) -> Path:
    """`path` if it is there, else the same name with .gz."""
    return path if path.is_file() else path.with_name(path.name + ".gz")


def at_byte(path: Path, place: int, fault: str) -> DataError:
    """An error at a byte of the (decompressed) file, counted from 0."""
    return DataError(f"{path}, byte {place}: {fault}")


def at_line(path: Path, number: int, fault: str) -> DataError:
    """An error at a line of the file, counted from 1."""
    return DataError(f"{path}, line {number}: {fault}")


def is_text(name: str) -> bool:
    """Whether a name can be written as UTF-8; one of a file need not be."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def shown(text: str, longest: int = 40) -> str:
    """Foreign text for a message: quoted, without control characters, cut."""
    return repr(text if len(text) <= longest else text[:longest] + "...")
