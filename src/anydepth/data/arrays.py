"""Arrays in .npz files that are not trusted: no pickles, sizes checked before anything is unpacked."""

import lzma
import struct
import sys
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tokenize import TokenError

import numpy as np
from numpy.typing import NDArray

from anydepth.data.files import LIMIT, shown
from anydepth.errors import AnydepthError, DataError, StorageError

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_SUFFIX = ".npy"


def array_names(path: Path) -> list[str]:
    """What is in a .npz file."""
    with _explained(path), zipfile.ZipFile(path) as archive:
        return [name.removesuffix(_SUFFIX) for name in archive.namelist() if name.endswith(_SUFFIX)]


def read_array(path: Path, name: str) -> NDArray[np.generic]:
    """One array of numbers, truth values or texts."""
    where = f"{path}, array {shown(name)}"
    with _explained(path, where), zipfile.ZipFile(path) as archive:
        info = archive.getinfo(name + _SUFFIX)
        with archive.open(info) as stream:
            version = np.lib.format.read_magic(stream)
            if version not in _HEADERS:
                raise DataError(f"{where}: format {version} of NumPy, expected 1.0 or 2.0; write it with numpy.savez")
            shape, _, dtype = _HEADERS[version](stream)
            size = int(np.prod([int(n) for n in shape], dtype=object)) * dtype.itemsize
            if dtype.hasobject or dtype.kind not in "biufU":
                raise DataError(f"{where}: values of kind {dtype}, expected numbers or texts")
            if size > LIMIT or size != info.file_size - stream.tell():
                raise DataError(f"{where}: shape {shape} does not fit its {info.file_size:,} bytes; write it again")
        with archive.open(info) as stream:
            found = np.lib.format.read_array(stream, allow_pickle=False)
    _check_texts(where, found)
    return found


def _check_texts(where: str, array: NDArray[np.generic]) -> None:
    """Refuse texts with numbers in them that are no characters, or halves of one."""
    if array.dtype.kind != "U" or not array.dtype.itemsize:
        return
    codes = array.reshape(-1).view(np.dtype(np.uint32).newbyteorder(array.dtype.byteorder))
    if ((codes > sys.maxunicode) | ((codes >= 0xD800) & (codes <= 0xDFFF))).any():
        raise DataError(f"{where}: texts hold numbers that are no characters of Unicode; write them again")


@contextmanager
def _explained(path: Path, where: str | None = None) -> Iterator[None]:
    damage = (
        zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, ValueError, LookupError, TypeError,
        SyntaxError, TokenError, NotImplementedError, RuntimeError, MemoryError, OverflowError,
    )  # fmt: skip
    try:
        yield
    except AnydepthError:
        raise
    except FileNotFoundError:
        raise DataError(f"no file {path}") from None
    except (*damage, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # bz2 has none for damaged data
            raise StorageError(f"cannot read {path}: {error.strerror or error}") from error
        cause = str(error) or type(error).__name__
        raise DataError(f"{where or path}: cannot be read ({cause:.120}); write it with numpy.savez") from None
