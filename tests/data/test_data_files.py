"""Readers of datasets: exact on good files; on bad ones one DataError that names the file and the place."""

import gzip
import io
import struct
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from anydepth.data import files
from anydepth.data.files import Reader, lines
from anydepth.data.order import Draw, batches
from anydepth.data.records import Records
from anydepth.data.sentences import Sentences
from anydepth.data.source import SOURCES
from anydepth.data.sources.idx import read_idx
from anydepth.data.sources.tiny_imagenet import decode
from anydepth.data.sources.treebank import read_conllu
from anydepth.data.table import IGNORED
from anydepth.errors import ConfigError, DataError, StorageError
from own_data import write_photos, write_table

RANDOM = np.random.default_rng(0)
IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
SMALL = {"landscape": {"train": 40, "test": 20}}
"""Options that make the slow ones small."""


def idx_bytes(array):
    return bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def pixels(count, size=5):
    return RANDOM.integers(0, 256, (count, size, size), np.uint8)


def put(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def make_idx(folder, classes=10, suffix=".gz"):
    for stem, count in (("train", 2 * classes), ("t10k", classes)):
        put(folder / f"{stem}-images-idx3-ubyte{suffix}", idx_bytes(pixels(count)))
        put(folder / f"{stem}-labels-idx1-ubyte{suffix}", idx_bytes((np.arange(count) % classes).astype(np.uint8)))


def cifar_record(*labels):
    return bytes(labels) + RANDOM.bytes(3072)


def make_cifar(root):
    for i, name in enumerate([f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]):
        put(root / "cifar-10-batches-bin" / f"{name}.bin", cifar_record(i) + cifar_record(9 - i))
    for name in ("train", "test"):
        put(root / "cifar-100-binary" / f"{name}.bin", cifar_record(19, 99) + cifar_record(0, 1) + cifar_record(3, 4))


def jpeg(size=(8, 8), mode="RGB", kind="JPEG"):
    buffer = io.BytesIO()
    Image.fromarray(RANDOM.integers(0, 256, (size[1], size[0], 3), np.uint8)).convert(mode).save(buffer, kind)
    return buffer.getvalue()


def make_tiny(root):
    folder = root / "tiny-imagenet-200"
    put(folder / "wnids.txt", b"n02\nn01\n")
    put(folder / "words.txt", b"n01\tgoldfish, Carassius auratus\nn09\tother\n")
    for wnid in ("n01", "n02"):
        for i in range(3):
            put(folder / "train" / wnid / "images" / f"{wnid}_{i}.JPEG", jpeg())
    for i in range(2):
        put(folder / "val" / "images" / f"val_{i}.JPEG", jpeg())
    put(folder / "val" / "val_annotations.txt", b"val_1.JPEG\tn01\t0\t0\t7\t7\nval_0.JPEG\tn02\t0\t0\t7\t7\n")


def row(place, form, xpos="NN", upos="NOUN"):
    return f"{place}\t{form}\t_\t{upos}\t{xpos}\t_\t0\t_\t_\t_\n"


GOOD = (
    "# sent_id = 1\n" + row(1, "the", "DT", "DET") + row("2-3", "dogs'", "_", "_") + row(2, "dog") + row(3, "'s", "POS")
    + "\n# sent_id = 2\n" + row(1, "the", "DT", "DET") + row("1.1", "_", "VB", "VERB") + row(2, "_", "NN") + "\n"
)  # fmt: skip


def make_treebank(folder, prefix="xx"):
    for part in ("train", "dev", "test"):
        put(folder / f"{prefix}-ud-{part}.conllu", GOOD.encode())


@pytest.fixture
def root(tmp_path):
    """A data directory with a small version of every dataset that is read from files."""
    for name in ("mnist", "fashion-mnist", "kmnist", "idx"):
        make_idx(tmp_path / name)
    make_cifar(tmp_path)
    make_tiny(tmp_path)
    write_photos(tmp_path / "imagefolder", 3, (8, 20))
    write_table(tmp_path / "table.csv", 30)
    np.savez(tmp_path / "arrays.npz", x=pixels(20), y=np.arange(20) % 2)
    for name in ("treebank", "UD_English-GUM", "UD_German-HDT"):
        make_treebank(tmp_path / name)
    return tmp_path


def contents(table):
    if isinstance(table, Records):
        return [table.fields.numbers, table.targets]
    return [np.asarray(value, object if isinstance(table, Sentences) else None) for value in vars(table).values()][:2]


def outcome(read, path):
    """The message of the DataError, or the path if all went well; any other error is one."""
    try:
        read()
    except DataError as error:
        return str(error)
    return str(path)


# Laws over the registry


@pytest.mark.parametrize("name", SOURCES.names())
def test_first_line_says_what_it_is(name):
    first = (SOURCES[name].__doc__ or "").split("\n")[0]
    assert len(first) > 20
    assert first.endswith(".")


@pytest.mark.parametrize("name", SOURCES.names())
def test_reading_twice_gives_equal_data_and_facts(name, root):
    source = SOURCES[name](root, **SMALL.get(name, {}))
    parts = ("train", "validation", "test") if source.own_validation else ("train", "test")
    for part in parts:
        source.demand(part)
        first, second = source.read(part), source.read(part)
        assert len(first) > 0
        for one, other in zip(contents(first), contents(second), strict=True):
            np.testing.assert_array_equal(one, other)
        assert first.facts() == second.facts()


@pytest.mark.parametrize("name", SOURCES.names())
def test_test_data_never_stands_in_for_validation(name, root):
    source = SOURCES[name](root, **SMALL.get(name, {}))
    if not source.own_validation:
        with pytest.raises(DataError, match="no validation part"):
            source.read("validation")


@pytest.mark.parametrize("name", SOURCES.names())
def test_missing_files_are_named(name, tmp_path):
    source = SOURCES[name](tmp_path, **SMALL.get(name, {}))
    for path in source.files("train")[:1]:
        with pytest.raises(DataError, match="no file") as error:
            source.read("train")
        assert str(path) in str(error.value)


# idx


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_idx_values_plain_and_compressed(tmp_path, suffix):
    make_idx(tmp_path / "mnist", suffix=suffix)
    table = SOURCES["mnist"](tmp_path).read("train")
    raw = put(tmp_path / "again", b"")  # read by hand, independently of the reader
    stored = tmp_path / "mnist" / (IMAGES + suffix)
    raw.write_bytes(gzip.decompress(stored.read_bytes()) if suffix else stored.read_bytes())
    expected = np.fromfile(raw, np.uint8, offset=16).reshape(20, 1, 5, 5)
    np.testing.assert_array_equal(table.pixels, expected)
    assert table.classes.tolist() == [*range(10)] * 2
    assert table.classes.dtype == np.int64


def test_plain_file_is_preferred(tmp_path):
    make_idx(tmp_path / "mnist")
    put(tmp_path / "mnist" / LABELS, idx_bytes(np.full(20, 7, np.uint8)))
    assert set(SOURCES["mnist"](tmp_path).read("train").classes) == {7}


def test_own_idx_takes_its_classes_from_the_training_labels(tmp_path):
    make_idx(tmp_path / "mine", classes=3)
    source = SOURCES["idx"](tmp_path, folder="mine")
    assert source.read("test").labels == ("0", "1", "2")
    path = put(tmp_path / "mine" / "t10k-labels-idx1-ubyte.gz", idx_bytes(np.array([0, 1, 3], np.uint8)))
    with pytest.raises(DataError, match="byte 10: label 3, expected one from 0 to 2") as error:
        source.read("test")
    assert str(path) in str(error.value)


def header(*sizes, magic=(0, 0, 8, 3)):
    return bytes(magic) + struct.pack(f">{len(sizes)}I", *sizes)


IDX_FAULTS = {
    "empty": (b"", 0),
    "not idx": (b"PK\x03\x04" + bytes(40), 0),
    "second byte": (header(1, 1, 1, magic=(0, 1, 8, 3)) + b"x", 1),
    "type code": (header(1, 1, 1, magic=(0, 0, 13, 3)) + b"x", 2),
    "rank": (header(1, magic=(0, 0, 8, 1)) + b"x", 3),
    "magic cut": (bytes((0, 0, 8)), 3),
    "header cut": (header(1, 2), 12),
    "no images": (header(0, 5, 5), 4),
    "no rows": (header(5, 0, 5), 8),
    "no columns": (header(5, 5, 0), 12),
    "short": (header(2, 5, 5) + bytes(49), 65),
    "only a header": (header(2, 5, 5), 16),
    "trailing": (header(2, 5, 5) + bytes(51), 66),
    "absurd": (header(2**32 - 1, 2**32 - 1, 2**32 - 1) + bytes(50), 4),
    "declares much": (header(1000, 1000, 1000) + bytes(50), 66),
    "large": (header(60000, 2800, 2800) + bytes(50), 4),
}


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("fault", IDX_FAULTS)
def test_bad_idx_names_file_and_byte(tmp_path, fault, suffix):
    data, place = IDX_FAULTS[fault]
    path = put(tmp_path / f"images{suffix}", data)
    with pytest.raises(DataError) as error:
        read_idx(path, 3)
    found = str(error.value)
    assert str(path) in found
    assert f"byte {place}:" in found
    assert "\n" not in found


@pytest.mark.parametrize("damage", ["cut", "flipped", "not gzip", "no trailer", "garbage after"])
def test_bad_gzip(tmp_path, damage):
    packed = bytearray(gzip.compress(idx_bytes(pixels(50, 20))))
    if damage == "flipped":
        packed[len(packed) // 2] ^= 0xFF
    data = {
        "cut": packed[: len(packed) // 2],
        "flipped": packed,
        "not gzip": b"plain text",
        "no trailer": packed[:-8],
        "garbage after": packed + b"garbage",
    }[damage]
    path = tmp_path / "images.gz"
    path.write_bytes(bytes(data))
    with pytest.raises(DataError, match=r"images\.gz, byte \d+"):
        read_idx(path, 3)


def test_bomb_is_not_unpacked(tmp_path):
    """16 MB of zeros behind a header of one image: what is declared is read, and one byte more."""
    path = put(tmp_path / "bomb.gz", idx_bytes(pixels(1)) + bytes(2**24))
    with Reader(path) as reader:
        assert len(reader.take(16 + 25 + 1)) == 42
        assert reader.place == 42
    with pytest.raises(DataError, match="byte 41: more data"):
        read_idx(path, 3)


def test_size_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LIMIT", 1000)
    with pytest.raises(DataError, match="more than 1000 bytes"):
        files.content(put(tmp_path / "long.gz", bytes(5000)))


def test_counts_of_images_and_labels_must_agree(tmp_path):
    make_idx(tmp_path / "mnist")
    put(tmp_path / "mnist" / f"{LABELS}.gz", idx_bytes(np.zeros(19, np.uint8)))
    with pytest.raises(DataError, match=r"20 images, but .*labels-idx1-ubyte.gz, byte 4: 19 labels"):
        SOURCES["mnist"](tmp_path).read("train")


def test_labels_out_of_range(tmp_path):
    make_idx(tmp_path / "kmnist", classes=12)
    with pytest.raises(DataError, match="byte 18: label 10, expected one from 0 to 9"):
        SOURCES["kmnist"](tmp_path).read("train")


def test_unreadable_file_is_a_storage_error(tmp_path):
    with pytest.raises(StorageError, match="cannot read"):
        files.content(tmp_path)


@pytest.mark.fuzz
@given(data=st.binary(max_size=80), place=st.integers(0, 15), packed=st.booleans())
def test_fuzzed_idx_gives_data_errors_only(fuzzed, data, place, packed):
    whole = bytearray(idx_bytes(np.zeros((2, 3, 3), np.uint8)))
    whole[place : place + len(data)] = data
    path = fuzzed / ("a.gz" if packed else "a")
    packed_data = bytearray(gzip.compress(bytes(whole)))
    packed_data[place : place + 2] = data[:2]
    path.write_bytes(bytes(packed_data if packed else whole))
    assert str(path) in outcome(lambda: read_idx(path, 3), path)


# CIFAR


def test_cifar_values_and_names(root):
    table = SOURCES["cifar10"](root).read("train")
    raw = (root / "cifar-10-batches-bin" / "data_batch_2.bin").read_bytes()
    assert table.classes.tolist() == [0, 9, 1, 8, 2, 7, 3, 6, 4, 5]
    assert table.pixels[2, 1, 3, 4] == raw[1 + 1024 + 3 * 32 + 4]
    assert table.labels == tuple("0123456789")
    put(root / "cifar-10-batches-bin" / "batches.meta.txt", "\n".join("abcdefghij").encode() + b"\n\n")
    assert SOURCES["cifar10"](root).read("test").labels == tuple("abcdefghij")
    put(root / "cifar-10-batches-bin" / "batches.meta.txt", b"a\nb\n")
    with pytest.raises(DataError, match="2 names of classes, expected 10"):
        SOURCES["cifar10"](root).read("test")


def test_cifar100_has_two_kinds_of_labels(root):
    fine, coarse = (SOURCES["cifar100"](root, labels=kind).read("train") for kind in ("fine", "coarse"))
    assert fine.classes.tolist() == [99, 1, 4]
    assert coarse.classes.tolist() == [19, 0, 3]
    assert len(fine.labels) == 100
    assert len(coarse.labels) == 20
    np.testing.assert_array_equal(fine.pixels, coarse.pixels)
    with pytest.raises(ConfigError, match=r"option labels is 'fien'.*did you mean 'fine'"):
        SOURCES["cifar100"](root, labels="fien")


@pytest.mark.parametrize(
    ("name", "file", "data", "place"),
    [
        ("cifar10", "cifar-10-batches-bin/data_batch_3.bin", b"", 0),
        ("cifar10", "cifar-10-batches-bin/data_batch_3.bin", cifar_record(1) + b"x", 3073),
        ("cifar10", "cifar-10-batches-bin/data_batch_3.bin", cifar_record(1) + cifar_record(10), 3073),
        ("cifar10", "cifar-10-batches-bin/data_batch_3.bin", cifar_record(1)[:-1], 0),
        ("cifar100", "cifar-100-binary/train.bin", cifar_record(1, 2) + cifar_record(20, 1), 3074),
        ("cifar100", "cifar-100-binary/train.bin", cifar_record(1, 2) + cifar_record(19, 100), 3075),
    ],
)
def test_bad_cifar_names_file_and_byte(root, name, file, data, place):
    path = put(root / file, data)
    with pytest.raises(DataError, match=f"byte {place}:") as error:
        SOURCES[name](root).read("train")
    assert str(path) in str(error.value)


# Tiny-ImageNet


def test_tiny_imagenet_values(root):
    train, test = (SOURCES["tiny-imagenet"](root).read(part) for part in ("train", "test"))
    assert train.pixels.shape == (6, 3, 8, 8)
    assert train.classes.tolist() == [0, 0, 0, 1, 1, 1]
    assert test.classes.tolist() == [1, 0]
    assert train.labels == ("goldfish, Carassius auratus", "n02")
    path = root / "tiny-imagenet-200" / "train" / "n02" / "images" / "n02_1.JPEG"
    np.testing.assert_array_equal(train.pixels[4], np.asarray(Image.open(path)).transpose(2, 0, 1))


@pytest.mark.parametrize(("mode", "kind"), [("L", "JPEG"), ("P", "PNG"), ("CMYK", "JPEG")])
def test_grey_and_palette_images_become_colour(root, mode, kind):
    put(root / "tiny-imagenet-200" / "val" / "images" / "val_0.JPEG", jpeg(mode=mode, kind=kind))
    found = SOURCES["tiny-imagenet"](root).read("test").pixels[0]
    if mode == "L":
        assert (found[0] == found[1]).all()
        assert (found[0] == found[2]).all()


TINY_FAULTS = {
    "other size": ("val/images/val_1.JPEG", jpeg((9, 8)), "9 x 8 pixels among images of 8 x 8"),
    "cut": ("val/images/val_1.JPEG", jpeg()[:200], "val_1.JPEG: cannot be decoded"),
    "cut first": ("val/images/val_0.JPEG", jpeg()[:200], "val_0.JPEG: cannot be decoded"),
    "no image": ("val/images/val_0.JPEG", b"", "val_0.JPEG: cannot be decoded"),
    "other format": ("val/images/val_0.JPEG", b"%!PS-Adobe-3.0 EPSF-3.0\n", "cannot be decoded"),
    "no annotation": ("val/images/val_2.JPEG", jpeg(), "val_2.JPEG: an image without an annotation"),
    "no file": ("val/val_annotations.txt", b"val_0.JPEG\tn01\nval_1.JPEG\tn01\nval_9.JPEG\tn01\n", "no file .*val_9"),
    "unknown class": ("val/val_annotations.txt", b"val_0.JPEG\tn01\nval_1.JPEG\tn03\n", "line 2: class 'n03'"),
    "one column": ("val/val_annotations.txt", b"\nval_0.JPEG\n", "line 2: expected a file name"),
    "twice": ("val/val_annotations.txt", b"val_0.JPEG\tn01\nval_0.JPEG\tn01\n", "line 2: a second annotation"),
    "outside": ("val/val_annotations.txt", b"../val_0.JPEG\tn01\n", "line 1: expected a file name"),
    "no annotations": ("val/val_annotations.txt", b"\n", "no annotations"),
    "no classes": ("wnids.txt", b"\n\n", "no classes"),
    "class twice": ("wnids.txt", b"n01\nn01\n", "line 2: 'n01' is not a class identifier"),
    "class outside": ("wnids.txt", b"n01\n../n02\n", "line 2: '../n02' is not"),
    "not UTF-8": ("wnids.txt", b"n01\n\xff\n", "line 2: not UTF-8"),
    "bad words": ("words.txt", b"n01 goldfish\n", "words.txt, line 1"),
}


@pytest.mark.parametrize("fault", TINY_FAULTS)
def test_bad_tiny_imagenet_names_file_and_line(root, fault):
    file, data, message = TINY_FAULTS[fault]
    put(root / "tiny-imagenet-200" / file, data)
    with pytest.raises(DataError, match=message):
        SOURCES["tiny-imagenet"](root).read("test")


def test_class_without_images(root):
    for path in (root / "tiny-imagenet-200" / "train" / "n02" / "images").iterdir():
        path.unlink()
    with pytest.raises(DataError, match=r"no images .*n02"):
        SOURCES["tiny-imagenet"](root).read("train")


def test_image_bomb_is_refused(tmp_path, monkeypatch):
    path = put(tmp_path / "a.JPEG", jpeg((64, 64)))
    for limit in (1000, 3000):  # above twice the limit Pillow raises, above the limit it warns
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            with pytest.raises(DataError, match=r"a\.JPEG: cannot be decoded.*DecompressionBomb"):
                decode([path])


@pytest.mark.fuzz
@given(place=st.integers(0, 600), data=st.binary(min_size=1, max_size=8))
def test_fuzzed_images_give_data_errors_only(fuzzed, place, data):
    whole = bytearray(jpeg())
    whole[place : place + len(data)] = data
    path = put(fuzzed / "a.JPEG", bytes(whole))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert str(path) in outcome(lambda: decode([path]), path)


# Treebanks


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_conllu_values(tmp_path, suffix, ending):
    path = put(tmp_path / f"a.conllu{suffix}", GOOD.replace("\n", ending).rstrip().encode())
    assert list(read_conllu(path, "xpos")) == [
        (("the", "dog", "'s"), ("DT", "NN", "POS")),
        (("the", "_"), ("DT", "NN")),
    ]
    assert next(read_conllu(path, "upos"))[1] == ("DET", "NOUN", "NOUN")


def test_odd_words_are_kept(tmp_path):
    forms = ("a b", "\x00", "\x1b[2J", "\u2028", "ß", "\x85", "#", "\ufeff")
    text = "".join(row(i + 1, form) for i, form in enumerate(forms))
    assert next(read_conllu(put(tmp_path / "a.conllu", text.encode()), "xpos"))[0] == forms


CONLLU_FAULTS = {
    "columns": (row(1, "a") + "2\tb\tNN\n", 2),
    "spaces": (row(1, "a").replace("\t", " "), 1),
    "skipped id": (row(1, "a") + row(3, "b"), 2),
    "repeated id": (row(1, "a") + row(1, "b"), 2),
    "first id": ("# comment\n" + row(0, "a"), 2),
    "odd id": (row("1a", "a"), 1),
    "huge id": (row("9" * 9999, "a"), 1),
    "other digits": (row("\u0661", "a"), 1),
    "no blank line between": (row(1, "a") + row(2, "b") + "# next\n" + row(1, "c"), 4),
    "empty form": (row(1, "a") + row(2, ""), 2),
    "no tag": (row(1, "a") + row(2, "b", "_"), 2),
    "empty tag": (row(1, "a", ""), 1),
    "blank with spaces": (row(1, "a") + "  \n", 2),
    "long line": (row(1, "a") + "# " + "x" * 2**20 + "\n", 2),
}


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("fault", CONLLU_FAULTS)
def test_bad_conllu_names_file_and_line(tmp_path, fault, suffix):
    text, line = CONLLU_FAULTS[fault]
    path = put(tmp_path / f"a.conllu{suffix}", text.encode())
    with pytest.raises(DataError, match=f"line {line}:") as error:
        list(read_conllu(path, "xpos"))
    assert str(path) in str(error.value)
    assert len(str(error.value)) < 500


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", row("1.1", "x")])
def test_file_without_sentences(tmp_path, text):
    with pytest.raises(DataError, match="no sentences"):
        list(read_conllu(put(tmp_path / "a.conllu", text.encode()), "xpos"))


def test_bad_utf8_names_the_line(tmp_path):
    path = put(tmp_path / "a.conllu", (row(1, "a") + row(2, "b")).encode() + b"3\t\xff\xfe\n")
    with pytest.raises(DataError, match="line 3: not UTF-8"):
        list(read_conllu(path, "xpos"))


def test_messages_carry_no_control_characters(tmp_path):
    path = put(tmp_path / "a.conllu", row(1, "\x1b[31mred", "_").encode())
    with pytest.raises(DataError) as error:
        list(read_conllu(path, "xpos"))
    assert str(error.value).isprintable()


@pytest.mark.fuzz
@given(data=st.one_of(st.binary(max_size=60), st.text(max_size=30).map(str.encode)), place=st.integers(0, 100))
def test_fuzzed_conllu_gives_data_errors_only(fuzzed, data, place):
    whole = bytearray(GOOD.encode())
    whole[place : place + len(data)] = data
    path = put(fuzzed / "a.conllu", bytes(whole))
    assert str(path) in outcome(lambda: list(read_conllu(path, "xpos")), path)


def test_parts_may_be_split_and_compressed(tmp_path):
    folder = tmp_path / "UD_German-HDT"
    for i, name in enumerate(("train-b-1.conllu", "train-a-1.conllu.gz", "train-a-2.conllu", "train-a-2.conllu.gz")):
        put(folder / f"de_hdt-ud-{name}", row(1, f"word{i}").encode())
    put(folder / "de_hdt-ud-train-c.conllu.part", b"half a file")
    source = SOURCES["ud-german-hdt"](tmp_path)
    assert [words[0] for words in source.read("train").words] == ["word1", "word2", "word0"]
    with pytest.raises(DataError, match=r"no file .*UD_German-HDT/\*-ud-dev\*\.conllu"):
        source.read("validation")


@pytest.mark.parametrize("options", [{"column": "pos"}, {"column": 3}, {"folder": ""}, {"folder": "a\0b"}])
def test_treebank_options(tmp_path, options):
    with pytest.raises(ConfigError, match=f"option {next(iter(options))} is"):
        SOURCES["treebank"](tmp_path, **options)


# Sentences


def sentences():
    return Sentences(
        (("b", "a", "c"), ("a",), ("<pad>", "c"), ("a", "new", "<unknown>", "b")),
        (("X", "Y", "X"), ("Y",), ("X", "X"), ("Y", "X", "Y", "X")),
    )


def test_vocabulary_by_frequency_then_alphabet():
    facts = sentences().facts()
    assert facts.words == ("<pad>", "<unknown>", "a", "b", "c", "new")
    assert facts.labels == ("X", "Y")
    assert (facts.task, facts.kind, facts.shape) == ("tag", "sentences", ())


def test_batches_of_sentences():
    table, facts = sentences(), sentences().take(np.array([0, 1])).facts()
    (tokens, mask), targets = table.batch(np.array([3, 1, 2]), facts)
    assert facts.words[2:] == ("a", "b", "c")
    assert tokens.tolist() == [[2, 1, 1, 3], [2, 0, 0, 0], [1, 4, 0, 0]]
    assert mask.tolist() == [[True] * 4, [True, False, False, False], [True, True, False, False]]
    assert targets.tolist() == [[1, 0, 1, 0], [1] + [IGNORED] * 3, [0, 0, IGNORED, IGNORED]]
    assert (tokens.dtype, mask.dtype, targets.dtype) == (torch.int64, torch.bool, torch.int64)
    assert table.lengths.tolist() == [3, 1, 2, 4]


def test_other_facts_are_not_mixed_up():
    table = sentences()
    one, other = table.facts(), table.take(np.array([1, 2])).facts()
    place = np.array([0])
    first = table.batch(place, one).inputs[0]
    with pytest.raises(AssertionError):
        torch.testing.assert_close(first, table.batch(place, other).inputs[0])
    torch.testing.assert_close(first, table.batch(place, one).inputs[0])


def test_unknown_tag_is_named():
    facts = sentences().take(np.array([1])).facts()
    with pytest.raises(DataError, match="tag 'X' of sentence 1 is not one of the 1 tags"):
        sentences().batch(np.array([1]), facts)


def test_every_word_comes_up_once_in_an_epoch_of_like_lengths(root):
    table = SOURCES["treebank"](root).read("train")
    parts = batches(Draw(0, 0), len(table), 1, table.lengths)
    facts = table.facts()
    assert sum(int(table.batch(part, facts).inputs[1].sum()) for part in parts) == table.lengths.sum()


def test_lines_keep_their_numbers(tmp_path):
    path: Path = put(tmp_path / "a.txt", b"a\n\nb\r\nc")
    assert list(lines(path)) == [(1, "a"), (2, ""), (3, "b"), (4, "c")]
