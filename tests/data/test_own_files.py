"""Hostile versions of files that users bring: one DataError that names the file, or data; never anything else."""

import io
import os
import struct
import zipfile
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from anydepth.data.image_formats import IMAGE_SUFFIXES
from anydepth.data.pictures import MOST_PIXELS, decode_all, read_picture
from anydepth.data.shares import is_held_out, keys_of_names
from anydepth.data.source import SOURCES
from anydepth.errors import ConfigError, DataError
from own_data import FORMATS, scene, write_photos

SHAPE = (3, 8, 8)
KINDS = (*dict.fromkeys("JPEG" if suffix in ("jpg", "jpeg") else suffix.upper() for suffix, _ in FORMATS), "PPM")


def encoded(kind, mode="RGB", **options):
    buffer = io.BytesIO()
    Image.fromarray(scene("rings", np.random.default_rng(0), 24, 40)).convert(mode).save(buffer, kind, **options)
    return buffer.getvalue()


def outcome(path, read):
    """The message of a DataError, or None; any other error is one of ours."""
    told = None
    try:
        read()
    except DataError as error:
        told = str(error)
    assert told is None or (str(path) in told and len(told.splitlines()) == 1)
    return told


# Pictures


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_damaged_pictures_are_data_errors(kind, data, tmp_path_factory):
    whole = bytearray(encoded(kind))
    for place in data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=6)):
        whole[place] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / f"damaged.{kind.lower()}"
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole)))])
    outcome(path, lambda: read_picture(path, SHAPE, resize=True))


@pytest.mark.parametrize("kind", KINDS)
def test_every_format_is_read_whatever_the_ending_says(kind, tmp_path):
    path = tmp_path / "picture.png"
    path.write_bytes(encoded(kind))
    found = read_picture(path, SHAPE, resize=True)
    other = tmp_path / "exact.png"
    Image.fromarray(scene("rings", np.random.default_rng(0), 24, 40)).save(other)
    assert np.abs(found.astype(int) - read_picture(other, SHAPE, resize=True)).mean() < 25


def test_other_formats_are_not_tried(tmp_path):
    path = tmp_path / "picture.png"
    for kind in ("TIFF", "EPS", "PCX", "ICO"):
        path.write_bytes(encoded(kind))
        assert "none of" in (outcome(path, lambda: read_picture(path, SHAPE, resize=True)) or "")


@pytest.mark.parametrize("side", [8001, 60_000, 2**31 - 1])
def test_bombs_are_refused_by_their_header(side, tmp_path):
    """A PNG of a few bytes that promises more pixels than anyone wants."""

    def chunk(name, content):
        body = name + content
        return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    path = tmp_path / "bomb.png"
    parts = (chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(b"")), chunk(b"IEND", b""))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))
    assert side**2 > MOST_PIXELS
    assert outcome(path, lambda: read_picture(path, SHAPE, resize=True))


def test_photos_are_turned_upright(tmp_path):
    pixels = np.zeros((20, 40, 3), np.uint8)
    pixels[:, :20] = 255
    exif = Image.Exif()
    exif[0x0112] = 6
    path = tmp_path / "turned.jpg"
    Image.fromarray(pixels).save(path, exif=exif)
    found = read_picture(path, (1, 8, 8), resize=True)[0]
    assert found[:3].mean() > 200
    assert found[-3:].mean() < 50


def test_an_image_of_the_right_size_is_not_changed_by_fitting(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    np.testing.assert_array_equal(read_picture(tmp_path / "a.png", SHAPE, resize=True), pixels.transpose(2, 0, 1))


def test_deep_colours_are_refused(tmp_path):
    path = tmp_path / "deep.png"
    Image.fromarray(np.full((8, 8), 40_000, np.uint16)).save(path)
    assert "8 bits" in (outcome(path, lambda: read_picture(path, SHAPE, resize=True)) or "")


def test_many_pictures_are_told_apart_from_damaged_ones(tmp_path):
    write_photos(tmp_path, 4, (9, 30))
    paths = sorted(path for path in tmp_path.rglob("*") if path.suffix in IMAGE_SUFFIXES)
    paths[3].write_bytes(b"")
    found = decode_all(paths, SHAPE)
    assert found.is_fine.tolist() == [place != 3 for place in range(len(paths))]
    assert str(paths[3]) in found.faults[0]
    np.testing.assert_array_equal(found.pixels[3], read_picture(paths[4], SHAPE, resize=True))


# Folders


def test_parts_by_folders(tmp_path):
    for seed, part in enumerate(("train", "val", "test")):
        write_photos(tmp_path / "photos" / part, 2, (9, 30), seed)
    source = SOURCES["imagefolder"](tmp_path, folder="photos", size=8)
    assert source.own_validation
    parts = {part: source.read(part) for part in ("train", "validation", "test")}
    assert {part: len(table) for part, table in parts.items()} == {"train": 10, "validation": 10, "test": 10}
    assert len({table.digest() for table in parts.values()}) == 3
    (tmp_path / "photos" / "test" / "strangers").mkdir()
    with pytest.raises(DataError, match="strangers"):
        source.read("test")


def test_a_class_may_be_called_train(tmp_path):
    write_photos(tmp_path / "photos", 3, (9, 30))
    (tmp_path / "photos" / "discs").rename(tmp_path / "photos" / "train")
    table = SOURCES["imagefolder"](tmp_path, folder="photos", size=8).read("train")
    assert "train" in table.labels
    write_photos(tmp_path / "photos" / "train", 1, (9, 30))
    with pytest.raises(DataError, match="not both"):
        SOURCES["imagefolder"](tmp_path, folder="photos", size=8)


def test_moved_data_is_found_in_the_directory_that_is_named(tmp_path):
    write_photos(tmp_path / "photos", 3, (9, 30))
    options = {"folder": str(tmp_path / "photos"), "size": 8}
    (tmp_path / "new").mkdir()
    (tmp_path / "photos").rename(tmp_path / "new" / "photos")
    assert len(SOURCES["imagefolder"](tmp_path / "new", **options).read("test")) == 5
    with pytest.raises(DataError, match="--data"):
        SOURCES["imagefolder"](tmp_path / "elsewhere", **options).read("test")


@given(st.lists(st.text(max_size=5), unique=True, min_size=2, max_size=40), st.floats(0.001, 0.9))
def test_a_share_is_of_every_class_and_stays_when_names_are_added(names, share):
    classes = np.arange(len(names)) % 2
    held = is_held_out(keys_of_names(names), classes, share)
    for label in (0, 1):
        count = int((classes == label).sum())
        assert held[classes == label].sum() == min(max(1, round(share * count)), count - 1)
    np.testing.assert_array_equal(held, is_held_out(keys_of_names(names), classes, share))


# Tables and arrays

CSV = st.text(st.sampled_from('ab1290.,;\t|"\n\r-e \0é?'), max_size=200)


@given(text=CSV, tail=st.binary(max_size=4))
def test_any_text_is_a_table_or_a_data_error(text, tail, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_bytes(text.encode() + tail)

    def read():
        source = SOURCES["csv"](path.parent, file="any.csv")
        for part in ("train", "test"):
            table = source.read(part)
            table.batch(np.arange(len(table)), source.read("train").facts())

    outcome(path, read)


@given(data=st.data())
def test_damaged_archives_are_data_errors(data, tmp_path_factory):
    buffer = io.BytesIO()
    np.savez_compressed(buffer, x=np.arange(40.0).reshape(10, 4), y=np.arange(10) % 2)
    whole = bytearray(buffer.getvalue())
    for place in data.draw(st.lists(st.integers(0, len(whole) - 1), min_size=1, max_size=4)):
        whole[place] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "damaged.npz"
    path.write_bytes(whole[: data.draw(st.integers(len(whole) // 2, len(whole)))])
    outcome(path, lambda: [SOURCES["npz"](path.parent, file="damaged.npz").read(part) for part in ("train", "test")])


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2, zipfile.ZIP_DEFLATED])
def test_archives_damaged_under_their_compression_are_data_errors(method, tmp_path):
    with zipfile.ZipFile(tmp_path / "arrays.npz", "w", method) as archive:
        for name, array in (("x", np.zeros((40, 3))), ("y", np.arange(40) % 2)):
            to = io.BytesIO()
            np.save(to, array)
            archive.writestr(f"{name}.npy", to.getvalue())
    whole = (tmp_path / "arrays.npz").read_bytes()
    refused = 0
    for place in range(30, 120, 5):
        damaged = tmp_path / f"{place}.npz"
        damaged.write_bytes(whole[:place] + b"\xff" * 8 + whole[place + 8 :])
        refused += outcome(damaged, lambda p=damaged: SOURCES["npz"](tmp_path, file=p.name).read("train")) is not None
    assert refused > 5


@pytest.mark.parametrize("code", [0xFFFFFFFF, 0x110000, 0xD800, 0xDFFF])
@pytest.mark.parametrize("order", "<>")
def test_texts_that_are_no_unicode_are_refused(code, order, tmp_path):
    targets = np.array(["a", "b"] * 20, f"{order}U1")
    targets.view(f"{order}u4")[3] = code
    np.savez(tmp_path / "arrays.npz", x=np.zeros((40, 3)), y=targets)
    told = outcome(tmp_path / "arrays.npz", lambda: SOURCES["npz"](tmp_path).read("train"))
    assert "no characters" in (told or "")


def test_numbers_too_large_for_classes_are_refused(tmp_path):
    np.savez(tmp_path / "arrays.npz", x=np.zeros((40, 3)), y=np.array([1e300, 0] * 20))
    told = outcome(tmp_path / "arrays.npz", lambda: SOURCES["npz"](tmp_path, task="classify").read("train"))
    assert "cannot be classes" in (told or "")


def test_a_class_whose_name_is_no_text_is_refused(tmp_path):
    """As an archive of another system leaves it."""
    for name in (b"caf\xe9", b"tea"):
        folder = tmp_path / "imagefolder" / os.fsdecode(name)
        folder.mkdir(parents=True)
        for number in range(3):
            (folder / f"{number}.png").write_bytes(encoded("PNG"))
    with pytest.raises(DataError, match="no UTF-8 text; rename") as caught:
        SOURCES["imagefolder"](tmp_path).read("train")
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
def test_pipes_and_devices_among_pictures_are_refused_unopened(make, tmp_path):
    """Opening a pipe waits for ever."""
    make(tmp_path / "a.png")
    assert "no regular file" in decode_all([tmp_path / "a.png"], SHAPE).faults[0]
    with pytest.raises(DataError, match="no regular file"):
        read_picture(tmp_path / "a.png", SHAPE, resize=True)


def test_a_header_of_many_names_is_read_in_a_moment(tmp_path):
    """As many comparisons as pairs of names would take minutes."""
    names = ",".join(f"c{place}" for place in range(99_998))
    (tmp_path / "table.csv").write_text(f"{names},c0\n{names},1\n")
    assert "two columns" in (outcome(tmp_path / "table.csv", lambda: SOURCES["csv"](tmp_path).read("train")) or "")


def test_pickles_in_an_archive_are_not_loaded(tmp_path):
    path = tmp_path / "arrays.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("x", "y"):
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, np.array([print], object), allow_pickle=True)
            archive.writestr(f"{name}.npy", buffer.getvalue())
    assert "numbers or texts" in (outcome(path, lambda: SOURCES["npz"](tmp_path).read("train")) or "")


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("imagefolder", {"folder": ""}, "folder"),
        ("imagefolder", {"folder": "a\0b"}, "folder"),
        ("imagefolder", {"size": 3}, "size"),
        ("imagefolder", {"channels": 2}, "channels"),
        ("imagefolder", {"damaged": "mend"}, "damaged"),
        ("csv", {"test": 0}, "test"),
        ("npz", {"task": "guess"}, "task"),
    ],
)
def test_options_are_checked(name, options, says, tmp_path):
    with pytest.raises(ConfigError, match=says):
        SOURCES[name](tmp_path, **options)
