"""What is kept of a study: how it was made, its pieces, and a small figure."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from anydepth import artifact
from anydepth.artifact import write_bytes
from anydepth.errors import ModelFileError
from anydepth_papers.judge import rules
from anydepth_papers.judge.experiment import SCALES, Claim, ClaimVerdict, Experiment, Findings
from anydepth_papers.judge.pieces import plain
from anydepth_papers.judge.rules import better
from anydepth_papers.judge.study import Study
from anydepth_papers.judge.wording import rules_of
from anydepth_papers.pages.publish import publish


def _claim(name="it grows"):
    return Claim(name, "ours", "1 %")


def _experiment(values=(1.0, 1.1, 1.2), crowd: int | None = 0):
    """Judges whether values are above 0; the values are pieces."""

    def run(study):
        found = [study.piece(f"seed-{seed}", lambda s=seed: values[s]) for seed in study.seeds]
        judgement = better(found, [0.0] * len(found), paired=True)
        verdict = ClaimVerdict(_claim(), f"mean {np.mean(found):g}", judgement)
        draw = partial(_picture, crowd) if crowd is not None else None
        return Findings(("seed", "value"), tuple(enumerate(found)), (verdict,), draw, ("One note.",))

    return Experiment("Three values", "nobody, Fig 0", {scale: {"margin": 1} for scale in SCALES}, run)


def _picture(points):
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots()
    axes.scatter(*np.random.default_rng(0).normal(size=(2, points)), c=np.linspace(0, 1, points))
    return figure


def _published(experiment, folder, scale="cpu", evidence=None, seeds=(0, 1, 2)):
    study = Study("values", scale, experiment.settings[scale], seeds, folder, evidence=evidence)
    return publish(experiment, study, experiment.run(study), "anydepth reproduce values")


def test_a_result_says_how_it_was_made(tmp_path):
    result = _published(_experiment(), tmp_path)
    assert result == json.loads((tmp_path / "result.json").read_text())
    assert result["settings"] == {"margin": 1}
    assert result["notes"] == ["One note."]
    assert set(result["code"]) == {"commit", "is_changed"}
    assert result["verdicts"][0] | {"kind": "better", "verdict": "holds", "family": "ours"} == result["verdicts"][0]
    assert "95 % interval" in result["rules"]["better"]


def test_a_smoke_run_decides_nothing(tmp_path):
    assert _published(_experiment(), tmp_path, "smoke")["verdicts"][0]["verdict"] == "undecided"


def test_evidence_judges_again_without_computing(tmp_path):
    kept = tmp_path / "kept"
    first = _published(_experiment(), tmp_path / "a", evidence=kept)
    again = _published(_experiment((None,) * 3), tmp_path / "b", evidence=kept)
    assert again["rows"] == first["rows"]
    assert {path.name for path in kept.iterdir()} == {"result.json", "pieces.json", "figure.svg"}
    _published(_experiment((None,) * 3), tmp_path / "c", evidence=kept, seeds=(0,))
    assert set(json.loads((kept / "pieces.json").read_text())["pieces"]) == {"seed-0", "seed-1", "seed-2"}


def test_kept_pieces_keep_the_order_of_names(tmp_path):
    for folder in (tmp_path / "a", tmp_path / "b"):
        study = Study("x", "cpu", None, (0,), folder, evidence=tmp_path / "kept")
        assert list(study.piece("one", lambda: {"b": 1, "a": 2})) == ["b", "a"]
        study.publish_pieces()
    assert not (tmp_path / "b").exists()


def test_a_study_knows_which_pieces_it_has(tmp_path):
    _published(_experiment(), tmp_path / "a", evidence=tmp_path / "kept", seeds=(0,))
    for folder, evidence in ((tmp_path / "a", None), (tmp_path / "b", tmp_path / "kept")):
        study = Study("values", "cpu", {"margin": 1}, (0, 1), folder, evidence=evidence)
        assert [study.has(f"seed-{seed}") for seed in (0, 1)] == [True, False]


def test_evidence_of_other_settings_or_scales_is_not_taken(tmp_path):
    kept = tmp_path / "kept"
    _published(_experiment(), tmp_path / "a", evidence=kept)
    others = replace(_experiment((5.0, 6.0, 7.0)), settings={scale: {"margin": 2} for scale in SCALES})
    assert _published(others, tmp_path / "b", evidence=kept)["rows"] == [[0, 5.0], [1, 6.0], [2, 7.0]]
    assert _published(_experiment((8.0, 8.0, 8.0)), tmp_path / "c", "smoke", kept)["rows"][0] == [0, 8.0]


def test_settings_of_any_kind_have_a_digest():
    spec = Study("x", "cpu", {"a": (1, _claim()), "b": Path("c"), 3: None}, (0,), Path())
    assert spec.digest != Study("x", "smoke", spec.settings, (0,), Path()).digest
    assert plain(spec.settings)["a"] == [1, {"sentence": "it grows", "source": "ours", "paper": "1 %"}]


@pytest.mark.parametrize(("crowd", "name"), [(10, "figure.svg"), (20_000, "figure.png")])
def test_figures_of_the_evidence_are_small(crowd, name, tmp_path):
    kept = tmp_path / "kept"
    for other in ("figure.svg", "figure.png"):
        write_bytes(kept / other, b"old")
    _published(_experiment(crowd=crowd), tmp_path / "a", evidence=kept)
    figures = list(kept.glob("figure.*"))
    assert [path.name for path in figures] == [name]
    assert 1_000 < figures[0].stat().st_size <= 60_000
    _published(_experiment(crowd=None), tmp_path / "b", evidence=kept)
    assert not list(kept.glob("figure.*"))


def test_a_damaged_file_of_pieces_is_named(tmp_path):
    write_bytes(tmp_path / "pieces.json", b'{"a": 1}')
    with pytest.raises(ModelFileError, match=r"pieces\.json.*delete it"):
        _published(_experiment(), tmp_path / "a", evidence=tmp_path)


def test_every_kind_of_claim_has_its_rule():
    kinds = [
        better([1, 2], [0, 0], True).kind,
        rules.no_worse([1, 2], [0, 0], 1, True).kind,
        rules.near([1, 2], 1, 1).kind,
        rules.proportion(1, 2, 0.5).kind,
        rules.instance_better([True], [False]).kind,
        rules.instance_no_worse([True], [False], 1).kind,
        rules.better_median([1], [0]).kind,
        rules.fewer_failures(0, 1, 1, 1).kind,
        rules.computed(True, "").kind,
        rules.undecided("").kind,
        rules.not_run("").kind,
    ]
    assert len({rules_of(kind) for kind in kinds}) == len(kinds)
    assert "" not in map(rules_of, kinds)
    assert rules_of("better, and within 1 of 2") == f"{rules_of('better')} {rules_of('within 1 of 2')}"


class Crash(BaseException):
    """Ends the work on the spot, as a kill does."""


@pytest.mark.parametrize("number", range(1, 19, 3))
def test_killed_while_publishing_a_result_speaks_of_what_is_there(number, tmp_path):
    left = [number]

    def watcher(_point):
        left[0] -= 1
        if left[0] == 0:
            raise Crash

    work = partial(_published, _experiment(), tmp_path / "made", evidence=tmp_path / "kept")
    artifact.watchers.append(watcher)
    try:
        with pytest.raises(Crash):
            work()
    finally:
        artifact.watchers.pop()
    if (tmp_path / "kept" / "result.json").exists():
        assert {"pieces.json", "figure.svg"} < {path.name for path in (tmp_path / "kept").iterdir()}
    work()
    assert {path.name for path in (tmp_path / "kept").iterdir()} == {"result.json", "pieces.json", "figure.svg"}
    assert not list(tmp_path.rglob("*.tmp"))
