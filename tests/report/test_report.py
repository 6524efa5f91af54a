"""Reports: one file with everything in it, whatever the run."""

import json
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import anydepth as ad
from anydepth import artifact
from anydepth.data.source import SOURCES, Source
from anydepth.data.vectors import Vectors
from anydepth.errors import ConfigError, DataError, ModelFileError, NumericalError
from anydepth.measure.evaluation import Score, evaluate
from anydepth.measure.form_curves import (
    Compressed,
    CompressionCurve,
    SolverGrid,
    SolverPoint,
    compression_curve,
    solver_grid,
    usual_sizes,
    usual_steps,
)
from anydepth.measure.predictions import without_blocks
from anydepth.report import findings
from anydepth.report.advice import cheapest, cheapest_told, close_ranges, solver_verdict
from anydepth.report.choices import chosen_form, chosen_solver
from anydepth.report.curves import read_curves
from anydepth.report.drawing import rows_without_overlap
from anydepth.report.figures import compression_figure, overview_figure, solver_figure, training_figure
from anydepth.report.html import Markup, tag
from anydepth.report.overview import write_overview
from anydepth.report.page import SECTIONS, ReportResult, report_page, write_report
from anydepth.report.weight_lines import weight_lines
from anydepth.report.yardstick import Yardstick
from anydepth.runs.config import read_config
from anydepth.runs.folder import REPORT, open_run, save_derived
from anydepth.train.training import train
from anydepth.zoo.parts import MODELS

CONFIG = {
    "log_every": 1,
    "data": {"name": "digits", "limit": 96, "validation": 40},
    "model": {
        "name": "image",
        "options": {"channels": [4], "pool": 8, "first_stitch": False, "basis": "linear", "steps": 1, "scheme": "rk4"},
    },
    "optimizer": {"name": "sgd", "lr": 0.1},
    "training": {"epochs": 2, "batch": 32},
    "refine": {"at": [1]},
}
EXAMPLES = 40
HOSTILE = "<script>alert('x')</script>"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run that is trained once and copied for every test."""
    torch.set_num_threads(1)
    return train(read_config(CONFIG), tmp_path_factory.mktemp("report") / "digits").folder


@pytest.fixture(scope="module")
def found(trained):
    """What there is to say of it."""
    return findings.find(open_run(trained), None, "test", EXAMPLES, None)


@pytest.fixture
def run(trained, tmp_path):
    return open_run(Path(shutil.copytree(trained, tmp_path / "digits")))


class Page(HTMLParser):
    """A parsed page: its elements are closed in order, and its ids and addresses are known."""

    def __init__(self, path: Path):
        super().__init__()
        self.source = path.read_text(encoding="utf-8")
        self.open, self.ids, self.addresses, self.tags, self.words = [], [], [], set(), []
        self.feed(self.source)
        assert self.open == []
        assert len(self.ids) == len(set(self.ids))
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag not in ("img", "meta", "br"):
            self.open.append(tag)
        self.ids += [value for name, value in attrs if name == "id"]
        self.addresses += [value for name, value in attrs if name in ("src", "href", "srcset", "action", "data")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.words.append(data)


def hashes(folder):
    """Of all files of a run but its report."""
    return {path: artifact.digest(path.read_bytes()) for path in folder.rglob("*.*") if path.name != REPORT}


def edited(run, change):
    """The run with its record changed on disk."""
    path = run.folder / "run.json"
    values = json.loads(path.read_text())
    change(values)
    path.write_text(json.dumps(values))
    return open_run(run.folder)


# The page


def test_page_is_one_file_with_everything_in_it(run):
    before = hashes(run.folder)
    told = []
    result = write_report(run, examples=EXAMPLES, report=lambda what, share: told.append(share))
    page = Page(result.path)
    assert result.path == run.folder / REPORT
    assert hashes(run.folder) == before
    assert "http://" not in page.source
    assert "https://" not in page.source
    assert all(address.startswith(("#", "data:image/svg+xml;base64,")) for address in page.addresses)
    assert page.tags.isdisjoint({"script", "link", "iframe", "object"})
    assert page.ids == [title.lower() for title in SECTIONS if title != "Budgets"]
    assert told == sorted(told)
    assert 0 <= told[0] <= told[-1] <= 1


def test_page_says_what_was_measured(found):
    run, text = found.run, report_page(found)
    score = evaluate(run.model(), run.dataset(None).part("test").some(EXAMPLES), run.facts)
    assert found.reference == score.value
    trained = [point for point in found.measured.grid.points if point.is_trained]
    assert [(point.scheme, point.steps, point.value) for point in trained] == [("rk4", 2, score.value)]
    whole = [p for p in found.measured.curve.points if p.basis == "linear" and p.size == 2 and not p.is_shortened]
    assert [(p.parameters, p.value) for p in whole] == [(found.model.summary.parameters, score.value)]
    assert f"<b>{score.value:.2f} %</b>" in text
    assert "<td>[4]</td>" in text
    assert "as trained, 40 examples" in text
    json.dumps(ReportResult(Path("x"), found).describe(), allow_nan=False)


def test_hostile_text_is_escaped(run):
    labels = [HOSTILE, *"123456789"]

    def change(values):
        values["facts"]["labels"] = labels
        values["machine"] = values["versions"]["torch"] = HOSTILE
        values["config"]["model"]["options"]["unit"] = HOSTILE
        values["config"]["data"]["options"] = {HOSTILE: HOSTILE}
        values["lineage"], values["parent"], values["transform"] = [HOSTILE], HOSTILE, {HOSTILE: HOSTILE}

    page = Page(write_report(edited(run, change)).path)
    assert "<script" not in page.source
    assert page.text.count(HOSTILE) > 6
    assert "has no option" in page.text


def test_missing_data_is_said_and_the_rest_is_there(run, monkeypatch):
    def gone(self, part):
        raise DataError("no file digits.csv; put it there")

    monkeypatch.setattr(SOURCES["digits"], "demand", gone)
    result = write_report(run)
    page = Page(result.path)
    assert page.text.count("Not measured: no file digits.csv; put it there.") == 4
    assert page.ids == [title.lower() for title in SECTIONS if title != "Budgets"]
    assert "as logged by the training" in page.text
    assert result.describe()["unmeasured"] == "no file digits.csv; put it there"


def test_empty_part_is_said(run):
    changed = edited(run, lambda values: values["config"]["data"].update(validation=0))
    assert "the validation part of the data is empty" in Page(write_report(changed, split="validation").path).text


def test_unfinished_run_shows_its_curves(run):
    (run.folder / "model.json").unlink()
    page = Page(write_report(run).path)
    assert "this run holds no trained model yet" in page.text
    assert "weights" not in page.ids
    assert any(address.startswith("data:") for address in page.addresses)


def test_compressed_run_shows_its_lineage(run, tmp_path):
    small = ad.compress(run.model(), basis="constant", size=1, steps=1)
    derived = save_derived(run, tmp_path / "small", small, {"basis": "constant", "size": 1})
    result = write_report(derived, examples=EXAMPLES)
    page = Page(result.path)
    assert "There are no curves: this run was made from another run." in page.text
    assert run.model_hash() in page.text
    assert derived.record.lineage[0] in page.text
    assert '{"basis": "constant", "size": 1}' in page.text
    assert "compress (project)" in page.text
    assert "as made, 40 examples" in page.text


def test_bad_requests_are_refused(run):
    with pytest.raises(ConfigError, match="unknown part 'tset'"):
        write_report(run, split="tset")
    with pytest.raises(ConfigError, match="at least 1 example"):
        write_report(run, examples=0)
    with open(run.folder / "metrics.jsonl", "a") as file:
        file.write('{"kind": "epoch", "epoch": 3}\n')
    with pytest.raises(ModelFileError, match="lacks 'step'"):
        write_report(run)


def test_solver_that_is_not_finite_is_shown(run, monkeypatch):
    def fragile(model, *rest, **more):
        (block,) = ad.blocks_of(model).values()
        if block.scheme.name == "euler" and block.steps == 1:
            raise NumericalError("the model's outputs are not finite")
        return evaluate(model, *rest, **more)

    monkeypatch.setattr(findings, "evaluate", fragile)
    result = write_report(run, examples=EXAMPLES)
    points = result.findings.measured.grid.by_scheme()["euler"]
    assert points[0].value is None
    assert points[1].value is not None
    assert 'class="d5" title="euler x 1, 1 unit evaluations">not finite</td>' in Page(result.path).source


def test_model_that_is_not_finite_has_a_page(run, monkeypatch):
    def broken(*rest, **more):
        raise NumericalError("the model's outputs are not finite")

    monkeypatch.setattr(findings, "evaluate", broken)
    page = Page(write_report(run, examples=EXAMPLES).path)
    assert "The outputs of this model are not finite." in page.text


# Another task, and adaptive schemes


class Line(Source):
    """y = x @ [[1, 2], [3, 4]]."""

    def read(self, part):
        inputs = np.random.default_rng(len(part)).normal(size=(64, 2)).astype(np.float32)
        return Vectors(inputs, inputs @ np.array([[1, 2], [3, 4]], np.float32))


class Small(nn.Module):
    def __init__(self, features: int, scheme: str = "dopri54"):
        super().__init__()
        self.config = {"features": features, "scheme": scheme}
        self.block = ad.ContinuousBlock(lambda: nn.Linear(features, features), "constant", 2, scheme=scheme)
        self.head = nn.Linear(features, features)

    def forward(self, x):
        return self.head(self.block(x))


@pytest.fixture
def regression(tmp_path, monkeypatch):
    """A run whose metric is an error, solved adaptively."""
    for registry, part in ((SOURCES, Line), (MODELS, Small)):
        registry.names()
        monkeypatch.setitem(registry._parts, f"report-{part.__name__}", part)
    config = {
        "data": {"name": "report-Line"},
        "model": {"name": "report-Small"},
        "optimizer": {"name": "sgd", "lr": 0.02},
        "training": {"epochs": 2, "batch": 16},
    }
    return train(read_config(config), tmp_path / "line")


def test_regression_speaks_of_errors(regression):
    result = write_report(regression)
    page, grid = Page(result.path), result.findings.measured.grid
    assert "test rmse" in page.text
    assert "lower is better" in page.text
    assert "accuracy" not in page.text
    assert "within 10 % of as trained" in page.text
    assert [point.rtol for point in grid.adaptive if point.is_trained] == [1e-4]
    assert grid.adaptive[0].nfe <= grid.adaptive[-1].nfe
    assert all(point.steps >= 2 for point in grid.adaptive)
    assert "dopri54 with other tolerances" in page.text


# The parts


def one(model):
    return Score(0.0, "accuracy", 50.0, 1, 0, 0.0)


def test_usual_steps_and_sizes(run):
    model = run.model()
    assert usual_steps(ad.set_solver(model, steps=16)) == (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
    assert usual_steps(ad.set_solver(model, steps=5)) == (1, 2, 3, 4, 5, 6, 8)
    assert usual_steps(ad.set_solver(model, steps=1)) == (1, 2, 3, 4)
    assert usual_sizes(9) == tuple(range(1, 10))
    for size in (16, 33, 64, 200):
        assert usual_sizes(size)[0] == 1
        assert usual_sizes(size)[-1] == size
        assert len(usual_sizes(size)) <= 10


def test_measuring_changes_nothing(run):
    model = run.model()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    solver = str(ad.summary(model))
    solver_grid(model, one)
    compression_curve(model, one)
    without_blocks(model)
    assert str(ad.summary(model)) == solver
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def mixed():
    weights = {"weight": ("linear", 4), "bias": ("discontinuous", 2)}
    return nn.Sequential(
        ad.ContinuousBlock(lambda: nn.Linear(3, 3), weights=weights, scheme="rk4", steps=3),
        ad.ContinuousBlock(lambda: nn.Linear(3, 3), "constant", 2, scheme="euler", steps=5),
    )


def test_blocks_that_differ_have_no_common_solver():
    grid = solver_grid(mixed(), one)
    assert not any(point.is_trained for point in grid.points)
    assert {3, 5} <= {point.steps for point in grid.points}


def test_mixed_functions_are_compressed_each_in_its_own_basis():
    model, seen = mixed(), []

    def judge(small):
        seen.append(str(ad.summary(small)))
        return one(small)

    curve = compression_curve(model, judge, sizes=(1, 2, 3, 4))
    assert curve.points[0].basis == "mixed"
    assert all(point.parameters <= curve.parameters for point in curve.points)
    assert any("discontinuous:2 + linear:3" in text for text in seen)
    assert curve.refused is None


def test_sizes_that_a_basis_lacks_are_left_out():
    model = nn.Sequential(ad.ContinuousBlock(lambda: nn.Linear(2, 2), "discontinuous", 4))
    curve = compression_curve(model, one)
    assert "needs size 1 or even" in curve.refused
    assert {point.size for point in curve.points if point.basis == "discontinuous"} == {1, 2, 4}
    assert {point.size for point in curve.points if point.basis == "linear"} == {1, 2, 3, 4}


def test_without_blocks_hands_on():
    block = ad.ContinuousBlock(lambda: nn.Linear(2, 2), "constant", 2)
    x = torch.randn(3, 2)
    assert torch.equal(without_blocks(nn.Sequential(block))(x), x)
    assert torch.equal(without_blocks(block)(x), x)
    assert not torch.equal(block(x), x)


def test_weight_lines_jump_where_the_weights_do():
    block = ad.ContinuousBlock(lambda: nn.Linear(1, 1), "constant", 3)
    with torch.no_grad():
        block.stored("weight").copy_(torch.tensor([1.0, 3.0, 2.0]).view(3, 1, 1))
    (lines,) = weight_lines(nn.Sequential(block))
    assert lines.tensor == "weight"
    values = dict.fromkeys(lines.lines[0])
    assert list(values) == [1.0, 3.0, 2.0]
    places = [place for place, depth in enumerate(lines.depths) if depth == 1 / 3]
    assert [lines.lines[0][place] for place in places] == [1.0, 3.0]
    mean = sum(abs(value) for value in lines.lines[0]) / len(lines.lines[0])
    assert lines.roughness == pytest.approx(3 / mean)


def test_verdict_names_what_stays_close():
    model = nn.Sequential(ad.ContinuousBlock(lambda: nn.Linear(2, 2), "constant", 4, scheme="rk4"))

    def judge(trial):
        (block,) = ad.blocks_of(trial).values()
        close = block.scheme.name == "rk4" or (block.scheme.name == "euler" and block.steps in (2, 3, 8))
        return Score(0.0, "accuracy", 90.0 if close else 80.0, 1, 0, 0.0)

    grid, yardstick = solver_grid(model, judge), Yardstick("accuracy")
    assert close_ranges(grid.by_scheme()["euler"], yardstick, 90.0) == "2 to 3 and 8"
    told = solver_verdict(grid, yardstick, 90.0, 16, cheapest_told(cheapest(grid, yardstick, 90.0), yardstick, 16))
    assert "never with midpoint and rk4_38" in told
    assert "The cheapest of them, euler x 2, takes 2 unit evaluations instead of 16 (90.00 %)." in told
    assert "these weights belong to rk4 x 4" in solver_verdict(
        solver_grid(model, lambda m: Score(0.0, "accuracy", 9.0, 1, 0, 0.0)), yardstick, 90.0, 16
    )


def test_validation_data_chooses_and_the_part_that_is_shown_is_told():
    def measured(values):
        points = tuple(SolverPoint("euler", steps, steps, value) for steps, value in values.items())
        forms = tuple(Compressed("linear", size, 4, False, 10 * size, 4, value) for size, value in values.items())
        score = Score(0.0, "accuracy", 90.0, 1, 0, 0.0)
        return findings.Measured(1, score, SolverGrid(points), CompressionCurve(forms, 100), None)

    shown, choosing = measured({1: 90.0, 2: 85.0, 4: 90.0}), measured({1: 80.0, 2: 90.0, 4: 90.0})
    run = SimpleNamespace(facts=SimpleNamespace(task="classify"), record=SimpleNamespace(parent=None))
    found = findings.Findings(run, "test", [], measured=shown, choosing=choosing)
    assert (chosen_solver(found).steps, chosen_solver(found).value) == (2, 85.0)
    assert (chosen_form(found).size, chosen_form(found).value) == (2, 85.0)
    alone = replace(found, choosing=None)
    assert (chosen_solver(alone).steps, chosen_form(alone).size) == (1, 1)


def test_yardstick_knows_which_way_is_better():
    accuracy, rmse = Yardstick("accuracy"), Yardstick("rmse")
    assert accuracy.is_close(89.0, 90.0)
    assert not accuracy.is_close(88.9, 90.0)
    assert rmse.is_close(0.109, 0.1)
    assert rmse.is_close(0.01, 0.1)
    assert not rmse.is_close(0.12, 0.1)
    assert not rmse.is_close(None, 0.1)
    assert rmse.is_close(0.0, 0.0)
    assert accuracy.text(None) == "not finite"


def test_text_is_escaped_unless_it_is_markup():
    assert tag("p", "<b>", Markup("<i>"), title='"') == '<p title="&quot;">&lt;b&gt;<i></p>'


def test_labels_do_not_overlap():
    assert rows_without_overlap([0, 1, 2, 10], 3) == [0, 1, 2, 0]


def test_figures_are_deterministic_and_undated(found):
    curves = read_curves(found.metrics, "accuracy")
    assert curves is not None
    names = {"_hidden": ((1.0, 2.0),), "$x^$": ((1.0, 3.0),), "\u6570": ((1.0, 3.0),)}
    for draw in (
        lambda: training_figure(curves),
        lambda: solver_figure(found.measured.grid, found.yardstick, found.reference, "test"),
        lambda: compression_figure(found.measured.curve, found.yardstick, found.reference, "test"),
        lambda: overview_figure(names, Yardstick("rmse"), "train"),
    ):
        svg = draw()
        assert svg.startswith("<svg")
        assert "<dc:" not in svg
        assert svg == draw()


# Several runs


def test_overview_compares_runs(run, tmp_path):
    (run.folder / REPORT).write_text("a report")
    small = ad.compress(run.model(), size=1)
    save_derived(run, tmp_path / "deep" / f"small {HOSTILE.replace('/', '')}", small, {"size": 1})
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text("{")
    path = write_overview(tmp_path)
    page = Page(path)
    assert path == tmp_path / REPORT
    assert "<script" not in page.source
    assert "digits/report.html" in page.addresses
    assert "linear:2" in page.text
    assert "linear:1" in page.text
    assert "broken: " in page.text
    assert page.text.count("digits") >= 2


def test_overview_needs_a_folder_of_runs(run, tmp_path):
    with pytest.raises(ConfigError, match="is a run itself"):
        write_overview(run.folder)
    tmp_path = tmp_path / "empty"
    with pytest.raises(ModelFileError, match="no run in"):
        write_overview(tmp_path)
