"""Arrays of one's own: images, vectors, windows of series."""

import json
import struct
import zipfile

import numpy as np
import pytest

from anydepth.data.images import Images
from anydepth.data.source import SOURCES
from command import assert_refused, run_command

RANDOM = np.random.default_rng(0)
PIXELS = RANDOM.integers(0, 256, (30, 8, 8), np.uint8)
KINDS = np.arange(30) % 3
SERIES = RANDOM.normal(size=(30, 6, 2))

GOOD = {
    "grey": {"x": PIXELS, "y": KINDS},
    "colour": {"images": np.stack([PIXELS] * 3, -1), "labels": KINDS[:, None].astype(np.uint8)},
    "texts": {"inputs": PIXELS, "targets": np.array(["a", "b", "c"])[KINDS]},
    "parts": {"x_train": PIXELS, "y_train": KINDS, "x_test": PIXELS[:9], "y_test": KINDS[:9]},
    "three parts": {
        f"{part}_{name}": array[:count]
        for part, count in (("train", 20), ("val", 6), ("test", 8))
        for name, array in (("images", PIXELS), ("labels", KINDS))
    },
    "vectors": {"X": SERIES[:, :, 0], "y": KINDS},
    "windows": {"x": SERIES, "y": SERIES[:, -1] * 1000},
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_arrays_are_trained_on_with_the_recipe_that_fits(name, tmp_path, capsys):
    path = tmp_path / "arrays.npz"
    np.savez_compressed(path, **GOOD[name])
    is_image = name not in ("vectors", "windows")
    narrow = ("--set", "model.options.channels=[4]") if is_image else ()
    words = ("--epochs", "1", "--batch", "8", "--lr", "0.01", *narrow, "--out", tmp_path / "run")
    done = run_command(capsys, "train", path, *words)
    assert done.code == 0, done.err
    config = json.loads((tmp_path / "run" / "run.json").read_text())["config"]
    assert (config["training"]["batch"], config["optimizer"]["lr"]) == (8, 0.01)
    assert config["model"]["name"] == ("image" if is_image else "tabular")
    if name == "windows":
        np.save(tmp_path / "new.npy", SERIES[:4])
        done = run_command(capsys, "predict", tmp_path / "run", tmp_path / "new.npy", "--json")
        assert len(json.loads(done.out)["predictions"][str(tmp_path / "new.npy")]) == 4


def test_every_class_gives_its_share_to_the_test_part(tmp_path):
    np.savez(tmp_path / "arrays.npz", x=PIXELS, y=KINDS)
    source = SOURCES["npz"](tmp_path)
    train, test = source.read("train"), source.read("test")
    assert isinstance(train, Images)
    assert np.bincount(test.classes).tolist() == [2, 2, 2]
    whole = {bytes(p.tobytes()) for p in (*train.pixels, *test.pixels)}
    assert len(whole) == 30


BAD = {
    "objects": ({"x": np.array([{}, 1], object), "y": np.arange(2)}, "'x'"),
    "names": ({"a": PIXELS, "b": KINDS}, "data.options.inputs"),
    "lengths": ({"x": PIXELS, "y": KINDS[:5]}, "as many"),
    "not finite": ({"x": np.full((4, 2), np.nan), "y": np.arange(4) % 2}, "nan at (0, 0)"),
    "float images": ({"x": np.zeros((4, 1, 8, 8)), "y": np.arange(4) % 2}, "uint8"),
    "float targets of images": ({"x": PIXELS, "y": KINDS / 2}, "classified"),
    "one class": ({"x": PIXELS, "y": KINDS * 0}, "2 to"),
    "channels": ({"x": np.zeros((4, 8, 8, 5), np.uint8), "y": np.arange(4) % 2}, "channels"),
    "other class in test": ({"x_train": PIXELS, "y_train": KINDS, "x_test": PIXELS, "y_test": KINDS + 1}, "no class"),
}


@pytest.mark.parametrize("name", BAD)
def test_arrays_that_do_not_do_are_told(name, tmp_path, capsys):
    arrays, says = BAD[name]
    path = tmp_path / "arrays.npz"
    np.savez(path, **arrays)
    if name == "other class in test":
        with pytest.raises(Exception, match=says):
            SOURCES["npz"](tmp_path).read("test")
        return
    assert_refused(run_command(capsys, "train", path, "--out", tmp_path / "run"), 3, str(path), says)


def test_damaged_files_are_data_errors(tmp_path, capsys):
    path = tmp_path / "arrays.npz"
    np.savez_compressed(path, x=PIXELS, y=KINDS)
    whole = path.read_bytes()
    for place in (0, len(whole) // 3, len(whole) - 10):
        path.write_bytes(whole[:place])
        assert_refused(run_command(capsys, "train", path, "--out", tmp_path / "run"), 3, str(path))


def test_a_header_that_promises_too_much_is_not_believed(tmp_path, capsys):
    path = tmp_path / "arrays.npz"
    header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (1000000000000, 8, 8), }".ljust(117) + b"\n"
    npy = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(64)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", npy)
        archive.writestr("y.npy", npy)
    assert_refused(run_command(capsys, "train", path, "--out", tmp_path / "run"), 3, str(path), "does not fit")
