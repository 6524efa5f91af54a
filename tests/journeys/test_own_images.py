"""A folder of photos, from training to a report, by the command line alone."""

import json
import warnings

import numpy as np
import pytest
from PIL import Image

from anydepth.cli.main import main
from command import assert_refused, run_command
from own_data import CLASSES, damage, rows_of, scene, write_photos

SMALL = ("--epochs", "3", "--set", "data.options.size=8", "--set", "model.options.channels=[4]", "--set", "data.crop=0")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with photos, two of them damaged, and a run that was trained on it."""
    folder = tmp_path_factory.mktemp("own-images")
    write_photos(folder / "photos", 8, (12, 60))
    bad = damage(folder / "photos")
    skip = ("--set", "data.options.damaged=skip")
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        with pytest.raises(SystemExit) as stopped:
            main(["train", str(folder / "photos"), "--out", str(folder / "run"), *skip, *SMALL])
    assert not stopped.value.code
    return folder, bad


def test_damaged_files_are_all_named_in_one_line_before_training(made, capsys):
    folder, bad = made
    done = run_command(capsys, "train", folder / "photos", "--out", folder / "other", *SMALL)
    assert_refused(done, 3, *map(str, bad), "damaged=skip")
    assert not (folder / "other").exists()


@pytest.mark.filterwarnings("ignore")
def test_from_evaluation_to_report(made, capsys, monkeypatch):
    folder, _ = made
    run = folder / "run"
    monkeypatch.chdir(folder.parent)  # the run knows where its data is
    record = json.loads((run / "run.json").read_text())
    assert record["config"]["data"]["options"]["folder"] == str(folder / "photos")
    assert tuple(record["facts"]["labels"]) == tuple(sorted(CLASSES))
    found = json.loads(run_command(capsys, "evaluate", run, "--json").out)
    assert found["examples"] == 5 * 2
    grid = ("--sizes", "1", "--steps", "1", "--rounds", "1")
    assert run_command(capsys, "sweep", run, *grid).code == 0
    done = run_command(capsys, "compress", run, "--max-drop", "100", "--confidence", "0", "--out", folder / "small")
    assert done.code == 0, done.err
    done = run_command(capsys, "export", folder / "small", "--to", folder / "small.pt2", "--no-check")
    assert done.code == 0, done.err
    assert "cropped" in json.loads((folder / "small.pt2.json").read_text())["preparation"]
    done = run_command(capsys, "report", run, "--examples", "10")
    assert done.code == 0, done.err
    assert (run / "report.html").stat().st_size > 10_000


def test_a_folder_is_predicted_past_its_bad_files(made, capsys):
    folder, bad = made
    table = folder / "table.csv"
    done = run_command(capsys, "predict", folder / "run", folder / "photos", "--top", "2", "--csv", table, "--json")
    assert done.code == 3
    found = json.loads(done.out)
    assert set(found["failed"]) == set(map(str, bad))
    assert len(found["predictions"]) == 5 * 8 - 1
    rows = rows_of(table)
    assert len(rows) == 5 * 8 - 1
    assert set(rows[0]) == {"file", "example", "label", "probability", "label_2", "probability_2"}
    for row in rows:
        assert row["label"] == found["predictions"][row["file"]][0]["label"]
        assert float(row["probability"]) >= float(row["probability_2"])
    people = run_command(capsys, "predict", folder / "run", folder / "photos")
    assert people.code == 3
    assert people.out == ""
    assert "left out" in people.err


def test_one_bad_file_alone_is_an_error(made, capsys):
    folder, bad = made
    assert_refused(run_command(capsys, "predict", folder / "run", bad[1]), 3, str(bad[1]))


def test_a_model_of_fixed_size_fits_pictures_only_when_asked(tmp_path, capsys):
    small = ("--epochs", "1", "--set", "data.limit=40", "--set", "model.options.channels=[4]", "--set", "data.crop=0")
    done = run_command(capsys, "train", "image", "--set", "data.name=digits", *small, "--out", tmp_path / "run")
    assert done.code == 0, done.err
    picture = tmp_path / "large.png"
    Image.fromarray(scene("discs", np.random.default_rng(0), 30, 50)).save(picture)
    done = run_command(capsys, "predict", tmp_path / "run", picture)
    assert_refused(done, 3, "50 x 30", "8 x 8", "--resize")
    assert run_command(capsys, "predict", tmp_path / "run", picture, "--resize").code == 0


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("train", "fashion-mnist"), 2, "anydepth train image --set data.name=fashion-mnist"),
        (("train", "pendulum"), 2, "pendulum"),
        (("train", "imagefolder"), 2, "anydepth train PATH"),
        (("train", "./nowhere"), 3, "no file or folder"),
        (("train", "image"), 3, "no folder"),
        (("train", "{empty}"), 3, "holds no folders"),
        (("train", "{one}"), 3, "at least two"),
        (("train", "{hollow}"), 3, "no image in it"),
        (("train", "image", "--set", "data.name=imagefolder", "--set", "data.options.size=big"), 2, "size"),
    ],
)
def test_what_cannot_be_trained_says_what_can(words, code, says, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    (tmp_path / "one" / "cats").mkdir(parents=True)
    for name in ("cats", "dogs"):
        (tmp_path / "hollow" / name).mkdir(parents=True)
    places = {name: tmp_path / name for name in ("empty", "one", "hollow")}
    words = [word.format(**places) for word in words]
    assert_refused(run_command(capsys, *words, "--data", tmp_path, "--out", tmp_path / "run"), code, says)
