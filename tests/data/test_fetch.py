"""Downloads against a server on this machine: resumed, checked, unpacked safely, and every fault in one line."""

import gzip
import hashlib
import io
import socket
import tarfile
import threading
import zipfile
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anydepth.data import archive
from anydepth.data import fetch as module
from anydepth.data.archive import unpack
from anydepth.data.fetch import fetch, verify
from anydepth.data.source import SOURCES, Remote, Source
from anydepth.errors import AnydepthError, ConfigError, DataError, StorageError

BODY = bytes(range(256)) * 4000
OPEN = build_opener(ProxyHandler({})).open


def md5(data):
    return hashlib.md5(data).hexdigest()


class Server:
    """Serves `files` by name, and keeps a list of (path, range) asked for."""

    def __init__(self):
        self.files, self.asked = {}, []
        self.ranges, self.cut, self.status, self.length = True, None, None, True

    def answer(self, handler):
        name, span = handler.path.lstrip("/"), handler.headers.get("Range")
        self.asked.append((name, span))
        if self.status or name not in self.files:
            return handler.send_error(self.status or 404)
        data, start = self.files[name], 0
        if span and self.ranges:
            start = int(span.removeprefix("bytes=").removesuffix("-"))
            if start >= len(data):
                return handler.send_error(416)
            handler.send_response(206)
            handler.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        else:
            handler.send_response(200)
        if self.length:
            handler.send_header("Content-Length", str(len(data) - start))
        handler.end_headers()
        handler.wfile.write(data[start : self.cut])
        return None


@pytest.fixture
def server():
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            state.answer(self)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        state.url = f"http://127.0.0.1:{http.server_port}/"
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield state
        http.shutdown()
        thread.join()


@pytest.fixture
def dataset(server, monkeypatch):
    """Registers, for one test, a dataset with the given remotes; its parts are read from `folder/{part}`."""
    SOURCES.names()

    def add(*remotes, checksums=None):
        class Sample(Source):
            """For tests."""

            def files(self, part):
                return (self.root / "folder" / part,)

            def read(self, part):
                raise NotImplementedError

        Sample.remotes = tuple(Remote(server.url + url, target, check) for url, target, check in remotes)
        Sample.checksums = checksums or {}
        monkeypatch.setitem(SOURCES._parts, "sample", Sample)

    return add


def get(root, reports=None):
    return fetch(
        "sample", root, lambda what, share: (reports if reports is not None else []).append((what, share)), OPEN
    )


# Single files


def test_download_is_checked_reported_and_skipped_the_next_time(server, dataset, tmp_path):
    server.files["a"] = BODY
    dataset(("a", "sub/a.bin", md5(BODY)))
    reports = []
    assert get(tmp_path, reports) == [str(tmp_path / "sub" / "a.bin")]
    assert (tmp_path / "sub" / "a.bin").read_bytes() == BODY
    assert [path.name for path in (tmp_path / "sub").iterdir()] == ["a.bin"]
    shares = [share for _, share in reports]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert get(tmp_path) == []
    assert len(server.asked) == 1


@pytest.mark.parametrize("ranges", [True, False])
def test_resume(server, dataset, tmp_path, ranges):
    server.files["a"], server.ranges = BODY, ranges
    dataset(("a", "a.bin", md5(BODY)))
    (tmp_path / "a.bin.part").write_bytes(BODY[:1000])
    get(tmp_path)
    assert server.asked == [("a", "bytes=1000-")]
    assert (tmp_path / "a.bin").read_bytes() == BODY
    assert not (tmp_path / "a.bin.part").exists()


def test_whole_part_is_used_without_asking(server, dataset, tmp_path):
    dataset(("a", "a.bin", md5(BODY)))
    (tmp_path / "a.bin.part").write_bytes(BODY)
    get(tmp_path)
    assert server.asked == []
    assert (tmp_path / "a.bin").read_bytes() == BODY


def test_part_beyond_the_end_starts_again(server, dataset, tmp_path):
    server.files["a"] = BODY
    dataset(("a", "a.bin", None))
    (tmp_path / "a.bin.part").write_bytes(BODY + b"more")
    get(tmp_path)
    assert [span for _, span in server.asked] == [f"bytes={len(BODY) + 4}-", None]
    assert (tmp_path / "a.bin").read_bytes() == BODY


def test_cut_connection_keeps_the_part_and_goes_on(server, dataset, tmp_path):
    server.files["a"], server.cut = BODY, 5000
    dataset(("a", "a.bin", md5(BODY)))
    with pytest.raises(StorageError, match=f"ended after 5000 of {len(BODY)} bytes; fetch again"):
        get(tmp_path)
    assert (tmp_path / "a.bin.part").read_bytes() == BODY[:5000]
    assert not (tmp_path / "a.bin").exists()
    server.cut = None
    get(tmp_path)
    assert server.asked[-1] == ("a", "bytes=5000-")
    assert (tmp_path / "a.bin").read_bytes() == BODY


def test_server_that_tells_no_length(server, dataset, tmp_path):
    server.files["a"], server.length = BODY, False
    dataset(("a", "a.bin", md5(BODY)))
    get(tmp_path)
    assert (tmp_path / "a.bin").read_bytes() == BODY


def test_wrong_checksum_removes_the_part(server, dataset, tmp_path):
    server.files["a"] = BODY
    dataset(("a", "a.bin", md5(b"other")))
    with pytest.raises(DataError, match=f"md5 {md5(BODY)}, expected {md5(b'other')}"):
        get(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_damaged_file_is_fetched_again(server, dataset, tmp_path):
    server.files["a"] = BODY
    dataset(("a", "a.bin", md5(BODY)))
    (tmp_path / "a.bin").write_bytes(b"damaged")
    assert get(tmp_path) == [str(tmp_path / "a.bin")]
    assert (tmp_path / "a.bin").read_bytes() == BODY


def test_too_much_is_stopped(server, dataset, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "LIMIT", 1000)
    server.files["a"] = BODY
    dataset(("a", "a.bin", None))
    with pytest.raises(StorageError, match="more than 1000 bytes"):
        get(tmp_path)


# No network, bad answers, bad disks


@pytest.mark.parametrize(
    "error",
    [
        URLError(socket.gaierror(-2, "Name or service not known")),
        URLError(ConnectionRefusedError(111, "Connection refused")),
        TimeoutError("timed out"),
        ConnectionResetError(104, "reset"),
    ],
)
def test_no_network_is_one_line_with_the_way_out(dataset, tmp_path, error):
    dataset(("a", "a.bin", None))

    def offline(*_, **__):
        raise error

    with pytest.raises(StorageError, match="no network or host unreachable") as caught:
        fetch("sample", tmp_path, lambda *_: None, offline)
    message = str(caught.value)
    assert "\n" not in message
    assert SOURCES["sample"].remotes[0].url in message
    assert f"by hand at {tmp_path / 'a.bin'}" in message
    assert caught.value.exit_code == 6


def test_refused_connection(dataset, tmp_path, server):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        server.url = f"http://127.0.0.1:{free.getsockname()[1]}/"
        dataset(("a", "a.bin", None))
        with pytest.raises(StorageError, match="no network or host unreachable"):
            get(tmp_path)


@pytest.mark.parametrize("status", [403, 404, 500, 503])
@pytest.mark.parametrize("started", [True, False])
def test_bad_status(server, dataset, tmp_path, status, started):
    server.status = status
    dataset(("a", "a.bin", None))
    if started:
        (tmp_path / "a.bin.part").write_bytes(b"x")
    with pytest.raises(StorageError, match=f"answered {status}.*by hand at"):
        get(tmp_path)


def test_disk_errors(server, dataset, tmp_path):
    server.files["a"] = BODY
    dataset(("a", "folder/a.bin", None))
    (tmp_path / "folder").write_bytes(b"a file in the way")
    with pytest.raises(StorageError, match="cannot write"):
        get(tmp_path)


def test_nothing_to_fetch_is_said(tmp_path):
    for name in ("digits", "spheres", "idx"):
        assert fetch(name, tmp_path, lambda *_: None) == []
        assert verify(name, tmp_path) == []
    with pytest.raises(ConfigError, match="unknown dataset 'mnits'"):
        fetch("mnits", tmp_path, lambda *_: None)


# Verification


def test_verify(dataset, tmp_path):
    dataset(("a", "a", md5(b"a")), ("b", "b", md5(b"b")), ("c", "c", None), ("d", "d", md5(b"d")),
            ("e", "e", md5(b"e")), ("f", "f.gz", md5(b"f")), checksums={"g": md5(b"g")})  # fmt: skip
    for name in ("a", "c", "f", "g"):
        (tmp_path / name).write_bytes(name.encode())
    (tmp_path / "b").write_bytes(b"other")
    (tmp_path / "e.gz").write_bytes(gzip.compress(b"e"))
    rows = {
        row["file"].removeprefix(f"{tmp_path}/"): (row["present"], row["md5"]) for row in verify("sample", tmp_path)
    }
    assert rows == {
        "a": (True, "matches"),
        "b": (True, "differs"),
        "c": (True, "unknown"),
        "d": (False, "unknown"),
        "e.gz": (True, "matches"),  # kept compressed: what is in it counts
        "f": (True, "unknown"),  # kept plain: the checksum is of the compressed file
        "g": (True, "matches"),
    }
    (tmp_path / "e.gz").write_bytes(b"damaged")
    assert verify("sample", tmp_path)[4]["md5"] == "differs"


@pytest.mark.parametrize("name", SOURCES.names())
def test_remotes_are_safe_and_fit_their_files(name, tmp_path):
    """What is fetched, or unpacked beside it, is where the source looks."""
    source = SOURCES[name]
    for remote in source.remotes:
        assert remote.url.startswith(("http://", "https://"))
        assert not remote.target.startswith("/")
        assert ".." not in remote.target
        assert remote.md5 is None or len(remote.md5) == 32
        if not archive.is_archive(tmp_path / remote.target):
            path = tmp_path / remote.target
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(b"")
    if source.remotes and not archive.is_archive(tmp_path / source.remotes[0].target):
        for part in ("train", "test"):
            source(tmp_path).demand(part)


# Archives


def tar(*entries):
    """Of (name, data) pairs or ready-made headers."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as file:
        for entry in entries:
            if isinstance(entry, tarfile.TarInfo):
                file.addfile(entry)
            else:
                info = tarfile.TarInfo(entry[0])
                info.size = len(entry[1])
                file.addfile(info, io.BytesIO(entry[1]))
    return buffer.getvalue()


def zipped(*entries):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in entries:
            file.writestr(name, data)
    return buffer.getvalue()


FILES = (("folder/train", b"train"), ("folder/deep/er/x", b"x"), ("folder/test", b"test"))


@pytest.mark.parametrize(("name", "pack"), [("a.tar.gz", tar), ("a.zip", zipped)])
def test_archive_is_fetched_unpacked_and_skipped(server, dataset, tmp_path, name, pack):
    server.files[name] = pack(*FILES)
    dataset((name, name, md5(server.files[name])))
    assert get(tmp_path) == [str(tmp_path / name)]
    for file, data in FILES:
        assert (tmp_path / file).read_bytes() == data
    assert sorted(path.name for path in tmp_path.iterdir()) == [name, "folder"]
    assert get(tmp_path) == []
    (tmp_path / "folder" / "test").unlink()  # the archive is there: unpacked again, not fetched again
    (tmp_path / "folder" / "mine").write_bytes(b"mine")
    assert get(tmp_path) == []
    assert (tmp_path / "folder" / "test").read_bytes() == b"test"
    assert (tmp_path / "folder" / "mine").read_bytes() == b"mine"
    (tmp_path / name).unlink()  # what is unpacked is enough
    assert get(tmp_path) == []
    assert len(server.asked) == 1


def link(name, target, kind=tarfile.SYMTYPE):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def zip_link():
    info = zipfile.ZipInfo("folder/link")
    info.external_attr = 0o120777 << 16
    return zipped((info, b"/etc/passwd"))


def lying_zip():
    data = zipped(("folder/a", bytes(10000)))
    return data.replace((10000).to_bytes(4, "little"), (10).to_bytes(4, "little"))


UNSAFE = {
    "absolute.tar.gz": (tar(("/tmp/x", b"x")), "outside of its folder"),
    "parent.tar.gz": (tar(("a", b"a"), ("folder/../../x", b"x")), "outside of its folder"),
    "symlink.tar.gz": (tar(link("folder", "/tmp"), ("folder/x", b"x")), "a link or device"),
    "hardlink.tar.gz": (tar(link("x", "/etc/passwd", tarfile.LNKTYPE)), "a link or device"),
    "device.tar.gz": (tar(link("x", "", tarfile.CHRTYPE)), "a link or device"),
    "fifo.tar.gz": (tar(link("x", "", tarfile.FIFOTYPE)), "a link or device"),
    "large.tar.gz": (tar(("x", bytes(2_000_000))), "more than 1000000 bytes"),
    "twice.tar.gz": (tar(("x", b"1"), ("x", b"2")), "two entries of one name"),
    "file as folder.tar.gz": (tar(("x", b"1"), ("x/y", b"2")), "two entries of one name"),
    "cut.tar.gz": (tar(("x", b"1" * 5000), ("y", BODY[:3000]))[:-40], "damaged archive"),
    "text.tar.gz": (b"not an archive", "damaged archive"),
    "absolute.zip": (zipped(("/tmp/x", b"x")), "outside of its folder"),
    "parent.zip": (zipped(("../x", b"x")), "outside of its folder"),
    "backslash.zip": (zipped(("..\\x", b"x")), "outside of its folder"),
    "drive.zip": (zipped(("c:x", b"x")), "outside of its folder"),
    "symlink.zip": (zip_link(), "a link or device"),
    "large.zip": (zipped(("x", bytes(2_000_000))), "more than 1000000 bytes"),
    "lying.zip": (lying_zip(), "lying.zip"),
    "cut.zip": (zipped(("x", BODY))[:-30], "damaged archive"),
    "text.zip": (b"not an archive", "damaged archive"),
}


@pytest.mark.parametrize("name", UNSAFE)
def test_unsafe_archives_leave_nothing_behind(tmp_path, name):
    data, message = UNSAFE[name]
    inside = tmp_path / "data"
    inside.mkdir()
    (inside / name).write_bytes(data)
    with pytest.raises(DataError, match=message):
        unpack(inside / name, inside, limit=1_000_000)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    assert [path.name for path in inside.iterdir()] == [name]


@contextmanager
def only_data_errors():
    try:
        yield
    except AnydepthError as error:
        if not isinstance(error, DataError):
            raise


@given(place=st.integers(0, 2000), data=st.binary(min_size=1, max_size=20), kind=st.sampled_from(["a.zip", "a.tar.gz"]))
def test_fuzzed_archives_give_data_errors_only(tmp_path_factory, place, data, kind):
    whole = bytearray((zipped if kind == "a.zip" else tar)(*FILES))
    place %= len(whole)
    whole[place : place + len(data)] = data
    root = tmp_path_factory.mktemp("fuzz")
    (root / kind).write_bytes(bytes(whole))
    with only_data_errors():
        unpack(root / kind, root)
    assert not list(root.glob(".unpack-*"))
