"""Downloads of datasets: resumed, checked, and moved into place only when whole."""

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from anydepth.data.archive import is_archive, unpack
from anydepth.data.files import LIMIT, Reader, plain_or_compressed
from anydepth.data.source import SOURCES, Part, Remote, Source
from anydepth.errors import DataError, StorageError
from anydepth.reporting import Report

_TIMEOUT = 30
_CHUNK = 2**18
_PART = ".part"
_NOT_SATISFIABLE, _PARTIAL = 416, 206


Opener = Callable[..., HTTPResponse]


def fetch(name: str, root: Path, report: Report, opener: Opener = urlopen) -> list[str]:
    """Download the files of a dataset that are not there yet, and unpack archives.

    Returns the files that were downloaded: none if all are there, and none for datasets that are bundled, made on
    demand, or read from files of your own.
    """
    source = SOURCES[name]
    return [str(root / remote.target) for remote in source.remotes if _bring(source, remote, root, report, opener)]


def verify(name: str, root: Path) -> list[dict[str, str | bool]]:
    """For each file of a dataset whether it is there, and whether its md5 matches, differs or is unknown."""
    source = SOURCES[name]
    known = {remote.target: remote for remote in source.remotes}
    known |= {target: Remote("", target, md5) for target, md5 in source.checksums.items()}
    rows: list[dict[str, str | bool]] = []
    for target, remote in known.items():
        path, state = _state(root / target, remote)
        rows.append({"file": str(path), "present": path.is_file(), "md5": state})
    return rows


def _bring(source: type[Source], remote: Remote, root: Path, report: Report, opener: Opener) -> bool:
    """Have one file in place; whether it had to be downloaded."""
    target = root / remote.target
    path, state = _state(target, remote)
    is_there = path.is_file() and state != "differs"
    if not is_archive(target):
        if not is_there:
            download(remote, target, report, opener)
        return not is_there
    # what is unpacked need not be fetched again, even if its archive is gone
    if _is_complete(source, root) and (is_there or not path.is_file()):
        return False
    if not is_there:
        download(remote, target, report, opener)
    report(f"unpacking {target.name}", 0.0)
    with on_disk(target.parent):
        unpack(target, target.parent)
    report(f"unpacking {target.name}", 1.0)
    return not is_there


def _is_complete(source: type[Source], root: Path) -> bool:
    parts: tuple[Part, ...] = ("train", "validation", "test") if source.own_validation else ("train", "test")
    try:
        for part in parts:
            source(root).demand(part)
    except DataError:
        return False
    return True


def _state(target: Path, remote: Remote) -> tuple[Path, str]:
    """The file that stands for the target, and how its md5 compares.

    A text published plain may be kept as .gz, and a file published as .gz may be kept plain or compressed anew: then
    the contents are compared, if their md5 is known.
    """
    path = target
    if not target.is_file():
        other = target.with_suffix("") if target.suffix == ".gz" else plain_or_compressed(target)
        path = other if other.is_file() and not is_archive(target) else target
    if not path.is_file():
        return path, "unknown"
    if path == target and remote.md5 is not None:
        is_same = _md5(path) == remote.md5
        if is_same or remote.content is None:
            return path, "matches" if is_same else "differs"
    content = remote.content if target.suffix == ".gz" else remote.md5
    if content is None:
        return path, "unknown"
    return path, "matches" if _md5_within(path) == content else "differs"


def _md5(path: Path) -> str:
    with on_disk(path), open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _md5_within(path: Path) -> str:
    """Of what a file holds, decompressed if it ends in .gz; of nothing if it is damaged."""
    digest = hashlib.md5(usedforsecurity=False)
    try:
        with Reader(path) as reader:
            while chunk := reader.take(_CHUNK):
                digest.update(chunk)
    except DataError:
        return ""
    return digest.hexdigest()


def download(remote: Remote, target: Path, report: Report, opener: Opener = urlopen) -> None:
    """One file into place, by way of a file ending in .part, from which a later attempt resumes."""
    part = target.with_name(target.name + _PART)
    with on_disk(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
    # a part may be whole already, if the last attempt was ended just before its last step
    if not (part.is_file() and remote.md5 is not None and _md5(part) == remote.md5):
        _receive(remote.url, part, target, report, opener)
        if remote.md5 is not None and (found := _md5(part)) != remote.md5:
            with on_disk(part):
                part.unlink()
            raise DataError(f"{remote.url} came with md5 {found}, expected {remote.md5}; removed it, try again")
    with on_disk(target):
        os.replace(part, target)
    report(target.name, 1.0)


def _receive(url: str, part: Path, target: Path, report: Report, opener: Opener) -> None:
    """Add to the part what is missing, or all of it if the server cannot send a range."""
    start = part.stat().st_size if part.is_file() else 0
    with _online(url, target):
        response = _ask(url, start, opener)
    with response:
        if response.status != _PARTIAL:
            start = 0
        length = response.headers.get("Content-Length")
        total = start + int(length) if length and length.isdecimal() else None
        with on_disk(part), open(part, "r+b" if start else "wb") as file:
            size = start
            file.seek(start)
            for chunk in _chunks(response, url, target):
                file.write(chunk)
                size += len(chunk)
                if size > LIMIT:
                    raise StorageError(f"{url} sends more than {LIMIT} bytes, which no dataset here has; stopped")
                report(target.name, min(size / total, 1.0) if total else 0.0)
            file.flush()
            os.fsync(file.fileno())
    if total is not None and size < total:
        raise StorageError(
            f"the connection to {url} ended after {size} of {total} bytes; fetch again to go on from there"
        )


def _ask(url: str, start: int, opener: Opener) -> HTTPResponse:
    """Open the address, from byte `start` if the server can do that and agrees on what it means."""
    headers = {"User-Agent": "anydepth"}
    if not start:
        return opener(Request(url, headers=headers), timeout=_TIMEOUT)
    try:
        response = opener(Request(url, headers=headers | {"Range": f"bytes={start}-"}), timeout=_TIMEOUT)
    except HTTPError as error:
        error.close()
        if error.code != _NOT_SATISFIABLE:
            raise
        return _ask(url, 0, opener)
    if response.status == _PARTIAL and not (response.headers.get("Content-Range") or "").startswith(f"bytes {start}-"):
        response.close()
        return _ask(url, 0, opener)
    return response


def _chunks(response: HTTPResponse, url: str, target: Path) -> Iterator[bytes]:
    while True:
        with _online(url, target):
            chunk = response.read(_CHUNK)
        if not chunk:
            return
        yield chunk


@contextmanager
def _online(url: str, target: Path) -> Iterator[None]:
    """Faults of the network, in one line with the way out."""
    way_out = f"the file can also be put by hand at {target}"
    try:
        yield
    except HTTPError as error:
        error.close()
        raise StorageError(f"the server answered {error.code} {error.reason} to {url}; {way_out}") from error
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise StorageError(f"no network or host unreachable: {url} ({reason}); {way_out}") from error


@contextmanager
def on_disk(path: Path) -> Iterator[None]:
    """Faults of the disk, in one line."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from error
