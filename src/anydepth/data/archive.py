"""Unpacking of archives that are not trusted: plain files and folders only, inside the folder, of a sane size."""

import errno
import gzip
import stat
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from anydepth.data.files import LIMIT, shown
from anydepth.errors import DataError

_MOST_MEMBERS = 1_000_000
_CHUNK = 2**20
_DAMAGE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    zlib.error,
    struct.error,
    EOFError,
    LookupError,
    NotImplementedError,
    RuntimeError,
    ValueError,
)
"""What the readers of the standard library raise on damaged, encrypted or exotic archives."""
_SENSELESS = (errno.EINVAL, errno.ENAMETOOLONG)
"""What the system says to places and names that only a damaged archive can ask for."""
_CONFLICT = (FileExistsError, NotADirectoryError, IsADirectoryError)


class Member(NamedTuple):
    """An entry of an archive."""

    name: str
    is_folder: bool
    is_file: bool
    size: int
    open: Callable[[], IO[bytes] | None]


def is_archive(path: Path) -> bool:
    return path.name.endswith((".tar.gz", ".zip"))


def unpack(archive: Path, into: Path, limit: int = LIMIT) -> None:
    """Unpack beside other files: whole folders move into place at the end, files of existing folders are replaced."""
    with tempfile.TemporaryDirectory(dir=into, prefix=".unpack-") as name:
        folder = Path(name)
        try:
            _extract(archive, folder, limit)
        except _CONFLICT as error:
            raise DataError(f"{archive}: two entries of one name; not unpacked") from error
        except _DAMAGE as error:
            raise DataError(f"{archive}: damaged archive ({error}); download it again") from error
        except OSError as error:
            if error.errno not in _SENSELESS:
                raise
            raise DataError(f"{archive}: damaged archive ({error.strerror}); download it again") from error
        for path in sorted(folder.iterdir()):
            _move(path, into / path.name)


def _extract(archive: Path, folder: Path, limit: int) -> None:
    left = limit
    for count, member in enumerate(_members(archive)):
        path = folder / _safe(archive, member)
        left -= member.size
        if left < 0 or count >= _MOST_MEMBERS:
            raise DataError(f"{archive}: more than {limit} bytes or {_MOST_MEMBERS} entries in it; not unpacked")
        if member.is_folder:
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            _copy(archive, member, path)


def _safe(archive: Path, member: Member) -> PurePosixPath:
    """The place of an entry, if it is a plain file or folder inside the folder."""
    path = PurePosixPath(member.name)
    is_inside = not path.is_absolute() and ".." not in path.parts and not set(member.name) & set("\\:\0")
    if not is_inside or not (path.parts or member.is_folder):
        raise DataError(f"{archive}: unsafe entry {shown(member.name)}, outside of its folder; not unpacked")
    if not (member.is_file or member.is_folder):
        raise DataError(f"{archive}: unsafe entry {shown(member.name)}, a link or device; not unpacked")
    return path


def _copy(archive: Path, member: Member, path: Path) -> None:
    """Exactly as many bytes as the entry declares."""
    source = member.open()
    assert source is not None
    left = member.size
    with source, open(path, "xb") as file:
        while chunk := source.read(_CHUNK):
            left -= len(chunk)
            if left < 0:
                break
            file.write(chunk)
    if left:
        raise DataError(f"{archive}: entry {shown(member.name)} is not of the size it declares; not unpacked")


def _members(archive: Path) -> Iterator[Member]:
    """In the order of the archive, so that a compressed one is read once."""
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as found:
            for info in found.infolist():
                kind = stat.S_IFMT(info.external_attr >> 16)
                is_file = not info.is_dir() and kind in (0, stat.S_IFREG)
                yield Member(info.filename, info.is_dir(), is_file, info.file_size, lambda info=info: found.open(info))
    else:
        with tarfile.open(archive, "r:gz") as found:
            for info in found:
                size = info.size if info.isfile() else 0
                yield Member(info.name, info.isdir(), info.isfile(), size, lambda info=info: found.extractfile(info))


def _move(path: Path, target: Path) -> None:
    """Into place at once; into a folder that is there already, entry by entry."""
    if path.is_dir() and target.is_dir():
        for entry in sorted(path.iterdir()):
            _move(entry, target / entry.name)
    else:
        path.replace(target)
