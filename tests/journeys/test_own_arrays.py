"""Arrays of one's own: images, vectors, windows of series."""

import json
import struct
import zipfile

import numpy as np
import pytest

from anydepth.data.facts import Facts
from anydepth.data.images import Images
from anydepth.data.source import SOURCES
from anydepth.data.windows import Windows
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
    "one channel": {"x": SERIES[..., :1], "y": KINDS},
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_arrays_are_trained_on_with_the_recipe_that_fits(name, tmp_path, capsys):
    path = tmp_path / "arrays.npz"
    np.savez_compressed(path, **GOOD[name])
    model = {"vectors": "tabular", "windows": "series", "one channel": "series"}.get(name, "image")
    narrow = ("--set", "model.options.channels=[4]") if model == "image" else ()
    words = ("--epochs", "1", "--batch", "8", "--lr", "0.01", *narrow, "--out", tmp_path / "run")
    done = run_command(capsys, "train", path, *words)
    assert done.code == 0, done.err
    config = json.loads((tmp_path / "run" / "run.json").read_text())["config"]
    assert (config["training"]["batch"], config["optimizer"]["lr"]) == (8, 0.01)
    assert config["model"]["name"] == model
    new = {"windows": SERIES[:4], "one channel": SERIES[:4, :, 0]}.get(name)
    if new is not None:
        np.save(tmp_path / "new.npy", new)
        done = run_command(capsys, "predict", tmp_path / "run", tmp_path / "new.npy", "--json")
        assert len(json.loads(done.out)["predictions"][str(tmp_path / "new.npy")]) == 4


def phases(count, times=24):
    """Windows in which the order of times is all that tells the classes apart: saw teeth that rise, or fall."""
    random = np.random.default_rng(0)
    kinds = np.arange(count) % 2
    teeth = (np.arange(times) / 6 + random.uniform(0, 1, (count, 1))) % 1
    return np.where(kinds[:, None] == 1, teeth, 1 - teeth)[..., None].astype(np.float32), kinds


def test_windows_keep_their_times_through_training_export_and_prediction(tmp_path, capsys):
    inputs, kinds = phases(160)
    np.savez(tmp_path / "teeth.npz", x=inputs, y=np.array(["fall", "rise"])[kinds])
    run = tmp_path / "run"
    done = run_command(capsys, "train", tmp_path / "teeth.npz", "--epochs", "6", "--out", run)
    assert done.code == 0, done.err
    facts = json.loads((run / "run.json").read_text())["facts"]
    assert (facts["kind"], facts["shape"], len(facts["mean"])) == ("series", [24, 1], 1)
    assert json.loads(run_command(capsys, "evaluate", run, "--json").out)["test_accuracy"] > 90
    exported = tmp_path / "teeth.pt2"
    assert run_command(capsys, "export", run, "--to", exported).code == 0
    assert "channel" in json.loads((tmp_path / "teeth.pt2.json").read_text())["preparation"]
    np.save(tmp_path / "new.npy", inputs[:6])
    for model in (run, exported):
        found = json.loads(run_command(capsys, "predict", model, tmp_path / "new.npy", "--json").out)
        answers = [row["label"] for row in found["predictions"][str(tmp_path / "new.npy")]]
        assert answers == ["fall", "rise"] * 3
    np.save(tmp_path / "short.npy", inputs[:6, :20])
    assert_refused(run_command(capsys, "predict", run, tmp_path / "short.npy"), 3, "(6, 20, 1)", "(count, 24, 1)")


def test_the_recipe_for_tables_flattens_windows(tmp_path, capsys):
    np.savez(tmp_path / "arrays.npz", x=SERIES, y=KINDS)
    words = ("--set", "data.name=npz", "--set", f"data.options.file={tmp_path / 'arrays.npz'}", "--epochs", "1")
    done = run_command(capsys, "train", "tabular", *words, "--out", tmp_path / "run")
    assert done.code == 0, done.err
    config = json.loads((tmp_path / "run" / "run.json").read_text())
    assert config["facts"]["shape"] == [6, 2]


def test_windows_are_standardised_as_facts_of_flat_ones_say():
    """Runs of earlier versions took windows for vectors."""
    table = Windows(SERIES, KINDS, ("0", "1", "2"))
    flat = SERIES.reshape(30, -1)
    about = {"mean": tuple(flat.mean(0).tolist()), "std": tuple(flat.std(0).tolist())}
    facts = Facts(task="classify", kind="vectors", shape=(12,), labels=("0", "1", "2"), **about)
    (found,) = table.batch(np.arange(30), facts).inputs
    np.testing.assert_allclose(found.numpy(), (flat - flat.mean(0)) / flat.std(0), rtol=1e-5, atol=1e-6)


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
    "other class in test": (
        {"x_train": PIXELS, "y_train": KINDS, "x_test": PIXELS, "y_test": KINDS + 1},
        "not a class",
    ),
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
