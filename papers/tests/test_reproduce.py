"""Reproductions: every one runs at the smoke scale, and again from what it left as evidence."""

import json
from contextlib import nullcontext
from dataclasses import replace

import pytest

from anydepth.block.roles import unfilled
from anydepth.runs.progress import Watch
from anydepth.train.training import train
from anydepth_papers.changes import CHANGES
from anydepth_papers.experiments import EXPERIMENTS, full_scale
from anydepth_papers.judge.experiment import SCALES
from anydepth_papers.judge.study import Study
from anydepth_papers.pages import publish as publishing
from anydepth_papers.pages.coverage import COVERAGE
from anydepth_papers.pages.figure_files import rendered
from anydepth_papers.pages.front_page import HEADLINES
from command import assert_refused, run_command
from small_runs import tiny


@pytest.fixture(scope="module")
def studies(tmp_path_factory):
    """Where all studies run: nets that several of them train are trained once."""
    return tmp_path_factory.mktemp("studies")


@pytest.fixture
def drawn_once(monkeypatch):
    """Every figure is drawn once and coarsely; the files of figures are tested with made-up ones."""
    monkeypatch.setattr(publishing, "_draw", lambda figure, _: figure and rendered(figure, "png", dpi=30))
    monkeypatch.setattr(publishing, "_keep_figure", lambda *_: None)


@pytest.fixture
def light_nets(monkeypatch):
    """`full-scale` builds a net of full size for every line that names its cost: here without weights, and once."""
    kept, hours_of = {}, full_scale.hours_of

    def once(config):
        if str(config) not in kept:
            kept[str(config)] = hours_of(config)
        return kept[str(config)]

    monkeypatch.setattr(full_scale, "ImageNetwork", unfilled()(full_scale.ImageNetwork))
    monkeypatch.setattr(full_scale, "hours_of", once)


@pytest.mark.usefixtures("drawn_once", "light_nets")
@pytest.mark.parametrize("name", EXPERIMENTS.names())
def test_every_experiment_runs_and_is_judged_again_from_its_evidence(name, studies, capsys, tmp_path, monkeypatch):
    words = ("reproduce", name, "--scale", "smoke", "--seeds", "1", "--out", studies, "--evidence", tmp_path / "kept")
    done = run_command(capsys, *words, "--json")
    assert done.code == 0, done.err
    result = json.loads(done.out)
    folder = studies / f"{name}-smoke"
    assert result["verdicts"]
    assert all(len(row) == len(result["columns"]) for row in result["rows"])
    assert {verdict["verdict"] for verdict in result["verdicts"]} <= {"undecided", "not run"}
    assert {"result.json", "table.md"} <= {path.name for path in folder.iterdir()}
    assert {"result.json", "pieces.json"} <= {path.name for path in (tmp_path / "kept" / name).iterdir()}
    monkeypatch.setattr(publishing, "drawn", lambda _: nullcontext())
    again = json.loads(run_command(capsys, *words, "--json", "--out", tmp_path / "other").out)
    assert again["rows"] == result["rows"]
    assert not (tmp_path / "other" / f"{name}-smoke" / "pieces").exists()
    assert set(EXPERIMENTS[name].settings) == set(SCALES)
    assert EXPERIMENTS[name].__doc__


def test_every_experiment_is_covered_changes_are_of_experiments_and_headlines_too():
    named = {name for items in COVERAGE.values() for item in items for name in item.studies}
    assert named == set(EXPERIMENTS.names())
    assert set(CHANGES) <= set(EXPERIMENTS.names())
    assert {name for headline in HEADLINES for name in headline.studies} <= set(EXPERIMENTS.names())


def test_a_study_keeps_its_pieces(tmp_path):
    calls = []

    def compute():
        calls.append(1)
        return {"a": [1.5, None]}

    for _ in range(2):
        study = Study("x", "cpu", None, (0,), tmp_path)
        assert study.piece("one", compute) == {"a": [1.5, None]}
    assert len(calls) == 1


def test_a_stopped_study_keeps_in_the_evidence_what_is_done(tmp_path, capsys, monkeypatch):
    def run(study):
        study.piece("one", lambda: 1)
        raise KeyboardInterrupt

    words = ("reproduce", "pendulum", "--out", tmp_path / "out", "--evidence", tmp_path / "kept")
    monkeypatch.setitem(EXPERIMENTS._parts, "pendulum", replace(EXPERIMENTS["pendulum"], run=run))
    assert run_command(capsys, *words).code == 130
    kept = tmp_path / "kept" / "pendulum"
    assert {path.name for path in kept.iterdir()} == {"pieces.json"}
    assert set(json.loads((kept / "pieces.json").read_text())["pieces"]) == {"one"}
    (kept / "pieces.json").unlink()
    (kept / "result.json").write_text("{}")
    run_command(capsys, *words)
    assert {path.name for path in kept.iterdir()} == {"result.json"}, "which other pieces belong to"


def test_bad_requests(capsys, tmp_path):
    assert_refused(run_command(capsys, "reproduce", "pendulumm"), 2, "did you mean 'pendulum'")
    assert_refused(run_command(capsys, "reproduce", "pendulum", "--scale", "huge"), 2, "huge")


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
