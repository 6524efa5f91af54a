"""A table of one's own, from training to a report, by the command line alone."""

import json

import numpy as np
import pytest

from command import assert_refused, run_command
from own_data import rows_of, write_table


def trained(capsys, path, out, *words):
    done = run_command(capsys, "train", path, "--out", out, "--epochs", "8", *words)
    assert done.code == 0, done.err
    return json.loads((out / "run.json").read_text())


def test_classes_of_a_table(tmp_path, capsys):
    table = write_table(tmp_path / "table.csv", 200)
    record = trained(capsys, table, tmp_path / "run")
    facts = record["facts"]
    assert facts["labels"] == ["large", "middle", "small"]
    assert [c["name"] for c in facts["columns"] if c["categories"]] == ["colour", "note"]
    run = tmp_path / "run"
    score = json.loads(run_command(capsys, "evaluate", run, "--json").out)
    assert score["test_accuracy"] > 60
    assert run_command(capsys, "sweep", run, "--steps", "1", "--rounds", "1").code == 0
    done = run_command(capsys, "compress", run, "--max-drop", "100", "--confidence", "0", "--out", tmp_path / "small")
    assert done.code == 0, done.err
    done = run_command(capsys, "export", tmp_path / "small", "--to", tmp_path / "small.pt2", "--no-check")
    assert done.code == 0, done.err
    done = run_command(capsys, "predict", tmp_path / "small", table, "--csv", tmp_path / "out.csv")
    assert done.code == 0, done.err
    rows = rows_of(tmp_path / "out.csv")
    truth = [line.rsplit(",", 1)[1] for line in table.read_text().splitlines()[1:]]
    assert np.mean([row["label"] == true for row, true in zip(rows, truth, strict=True)]) > 0.6
    done = run_command(capsys, "report", run, "--examples", "20")
    assert done.code == 0, done.err


def test_numbers_are_found_in_their_own_units(tmp_path, capsys):
    table = write_table(tmp_path / "prices.csv", 300, target="price")
    facts = trained(capsys, table, tmp_path / "run")["facts"]
    assert facts["task"] == "regress"
    score = json.loads(run_command(capsys, "evaluate", tmp_path / "run", "--json").out)
    assert score["test_rmse"] < facts["target_std"][0] / 2
    assert run_command(capsys, "predict", tmp_path / "run", table, "--csv", tmp_path / "out.csv").code == 0
    found = [float(row["output"]) for row in rows_of(tmp_path / "out.csv")]
    truth = [float(line.rsplit(",", 1)[1]) for line in table.read_text().splitlines()[1:]]
    assert np.corrcoef(found, truth)[0, 1] > 0.9


ROWS = "a,b,colour,y\n1,2,red,0\n2,3,blue,1\n3,4,red,0\n4,5,blue,1\n5,6,red,0\n6,7,red,1\n7,8,red,1\n8,9,red,0\n"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("\n3,4,red", "\n3,,red"), ("line 4", "'b'", "drop")),
        (("\n3,4,red", "\n3,NaN,red"), ("line 4", "'b'", "NaN")),
        (("\n3,4,red", "\n3,4O,red"), ("line 4", "'b'", "4O", "categorical")),
        (("\n3,4,red", "\n3,inf,red"), ("line 4", "'b'", "inf")),
        (("\n3,4,red,0", "\n3,4,red"), ("line 4", "3 fields", "expected 4")),
        (("\n3,4,red,0", '\n3,4,"red,0'), ("line 4",)),
        (("a,b,colour,y", "a,a,colour,y"), ("two columns", "'a'")),
        (("a,b,colour,y", "1,2,3,4"), ("line 1", "header")),
        (("a,b,colour,y", "a,b,,y"), ("line 1", "no name")),
        ((ROWS, ""), ("empty",)),
        ((ROWS, "a,b,y\n"), ("no rows",)),
        ((ROWS, "a\n1\n"), ("one column",)),
        (("red", "r\x1bed\udcff"), ("not UTF-8",)),
        ((",0\n", ",1\n"), ("one value",)),
    ],
)
def test_faults_of_a_table_have_their_place(change, says, tmp_path, capsys):
    path = tmp_path / "table.csv"
    path.write_bytes(ROWS.replace(*change).encode("utf-8", "surrogateescape"))
    assert_refused(run_command(capsys, "train", path, "--out", tmp_path / "run"), 3, str(path), *says)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("data.options.target=yy",), 3, "did you mean 'y'"),
        (('data.options.drop=["colou"]',), 3, "did you mean 'colour'"),
        (("data.options.drop=colour",), 2, "expected a list such as"),
        (('data.options.columns=["y"]',), 2, "is the target"),
        (("data.options.task=guess",), 2, "task"),
        (("data.options.test=2",), 2, "test"),
    ],
)
def test_options_of_a_table_are_checked(words, code, says, tmp_path, capsys):
    path = tmp_path / "table.csv"
    path.write_text(ROWS)
    settings = [part for word in words for part in ("--set", word)]
    assert_refused(run_command(capsys, "train", path, "--out", tmp_path / "run", *settings), code, says)
