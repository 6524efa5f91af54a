"""Reproductions: every one runs at the smoke scale, resumes, and writes its folder; the ledger is up to date."""

import json
from pathlib import Path

import pytest

from anydepth.reproduce import EXPERIMENTS, publish
from anydepth.reproduce.experiment import SCALES, Claim, Verdict
from anydepth.reproduce.ledger import ledger
from anydepth.reproduce.publish import markdown
from anydepth.reproduce.study import Study
from anydepth.train.loop import train
from anydepth.train.progress import Watch
from command import assert_refused, run_command
from small_runs import tiny

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("name", EXPERIMENTS.names())
def test_every_experiment_runs_writes_its_folder_and_resumes(name, capsys, tmp_path, monkeypatch):
    words = ("reproduce", name, "--scale", "smoke", "--seeds", "1", "--out", tmp_path, "--evidence", tmp_path / "kept")
    done = run_command(capsys, *words, "--json")
    assert done.code == 0, done.err
    result = json.loads(done.out)
    folder = tmp_path / f"{name}-smoke"
    assert result["verdicts"]
    assert all(len(row) == len(result["columns"]) for row in result["rows"])
    assert {verdict["verdict"] for verdict in result["verdicts"]} == {"undecided"}
    assert {"result.json", "table.md", "figure.png", "figure.svg", "pieces"} <= {p.name for p in folder.iterdir()}
    before = {path: path.read_bytes() for path in (folder / "pieces").iterdir()}
    monkeypatch.setattr(publish, "_draw", lambda *_: None)
    again = json.loads(run_command(capsys, *words, "--json").out)
    assert again["rows"] == result["rows"]
    assert {path: path.read_bytes() for path in (folder / "pieces").iterdir()} == before
    assert name in ledger(tmp_path / "kept")
    assert set(EXPERIMENTS[name].settings) == set(SCALES)
    assert EXPERIMENTS[name].__doc__


def test_a_study_keeps_its_pieces(tmp_path):
    calls = []

    def compute():
        calls.append(1)
        return {"a": [1.5, None]}

    for _ in range(2):
        study = Study("x", "cpu", None, (0,), tmp_path)
        assert study.piece("one", compute) == {"a": [1.5, None]}
    assert len(calls) == 1


def test_bad_requests(capsys, tmp_path):
    assert_refused(run_command(capsys, "reproduce", "pendulumm"), 2, "did you mean 'pendulum'")
    assert_refused(run_command(capsys, "reproduce", "pendulum", "--scale", "huge"), 2, "huge")


def test_a_result_as_markdown_keeps_its_columns():
    verdict = Verdict(Claim("a | b", "where", "1 %"), "2 %", False).describe()
    result = {
        "name": "x",
        "title": "t",
        "paper": "p",
        "scale": "cpu",
        "seeds": [0],
        "command": "anydepth",
        "date": "2026-11-16",
        "seconds": 60.0,
        "machine": "m",
        "versions": {"torch": "2"},
        "columns": ["a", "b"],
        "rows": [["x", 1.23456]],
        "verdicts": [verdict],
        "notes": "note",
    }
    text = markdown(result)
    assert r"a \| b" in text
    assert "**does not hold**" in text
    assert "| x | 1.235 |" in text


def test_the_ledger_in_the_docs_is_the_one_of_the_evidence():
    page = ROOT / "docs" / "evidence.md"
    assert page.read_text() == ledger(ROOT / "evidence"), "run make evidence"


def test_a_study_counts_what_an_interrupted_training_took(tmp_path):
    config = tiny()
    folder = Study("x", "cpu", None, (0,), tmp_path / "x").folder_of("net", config)

    class Stop(Watch):
        def event(self, line):
            if line["kind"] == "epoch":
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(config, folder, watch=Stop())
    metrics = folder / "metrics.jsonl"
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    metrics.write_text(
        "".join(json.dumps(line | ({"seconds": 1000.0} if "seconds" in line else {})) + "\n" for line in lines)
    )
    study = Study("x", "cpu", None, (0,), tmp_path / "x")
    study.piece("one", lambda: study.trained("net", config).metrics()[-1])
    assert 1000 < study.seconds < 2000
    again = Study("y", "cpu", None, (0,), tmp_path / "y")
    again.piece("two", lambda: again.trained("net", config).metrics()[-1])
    assert again.seconds < 1000
