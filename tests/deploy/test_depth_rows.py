"""Forms of a sweep whose depth is another for every example."""

import json
import re

import pytest
import torch
from torch import nn

import anydepth as ad
from anydepth.deploy.sweeps.depth_rows import DepthRows
from anydepth.deploy.sweeps.sweep_file import read_sweep, sweep_of
from anydepth.deploy.sweeps.sweep_inputs import inputs_by_hand
from anydepth.measure.paired import Answers
from anydepth.report.budgets import budgets
from anydepth.report.findings import Findings, swept_in
from anydepth.report.sweep_figure import sweep_figure
from anydepth.runs.folder import open_run
from anydepth.train.training import train
from command import assert_refused, run_command
from small_runs import tiny, tiny_tagger, write_treebank

GRID = ("--steps", "8", "--schemes", "euler", "--sizes", "1", "--rounds", "1", "--threads", "1")


@pytest.fixture(scope="module")
def given():
    """A model whose coarse forms are nearly as good, with data."""
    torch.manual_seed(0)
    field = ad.ContinuousBlock(lambda: ad.units.MLP(8), "linear", 3, scheme="midpoint", steps=4)
    model = nn.Sequential(nn.Linear(2, 8), field, nn.Linear(8, 3)).eval()
    x = torch.randn(800, 2)
    with torch.no_grad():
        y = model(x).argmax(-1)
    return model, [(x[i : i + 100], y[i : i + 100]) for i in range(0, 800, 100)]


@pytest.fixture(scope="module")
def swept(given):
    return ad.sweep(*given, rounds=1, steps=[4], sizes=[3], schemes=["midpoint"], batch=16, anytime=[10.0, 2.0])


def test_it_is_a_further_form(swept):
    assert [row.name for row in swept.anytime] == ["linear:3, anytime 2", "linear:3, anytime 10"]
    careful, bold = swept.anytime
    assert bold.evaluations <= careful.evaluations < swept.source.nfe == 8
    assert careful.parameters == swept.source.parameters
    assert isinstance(careful.paired, Answers)
    assert careful.value >= swept.source.value - 2
    assert sum(careful.stops.values()) == pytest.approx(100)
    assert careful.paired.count == 800
    assert careful.latency_ms == pytest.approx(careful.latency_ratio * swept.source.latency_ms)
    assert "anytime 10" in str(swept)
    assert [row["max_drop"] for row in swept.describe()["anytime"]] == [2.0, 10.0]
    assert swept.best() == swept.source


def test_its_answers_are_those_of_two_nets_that_do_not_know_the_examples(given):
    model, batches = given
    rows = DepthRows(inputs_by_hand(model, batches, None, 1, 1).meter, None)
    halves = [calibration.policy for calibration in (rows.calibrated(half, 5.0) for half in rows.halves)]
    answers, evaluations, _ = rows.judged(halves)
    x, spent = torch.cat([x for x, _ in batches]), 0.0
    y = torch.cat([y for _, y in batches])
    for mine, its in (rows.halves, rows.halves[::-1]):
        net = ad.Anytime.of(rows.nets, rows.calibrated(mine, 5.0), (x[:1],), rows.costs)
        torch.testing.assert_close(net(x[its]), answers[its], rtol=1e-4, atol=1e-5)
        spent += float(net.spent.evaluations.sum())
    assert evaluations == pytest.approx(spent / len(y))


def test_impossible_requests(given):
    model, batches = given
    with pytest.raises(ad.ConfigError, match="points above 0"):
        ad.sweep(model, batches, anytime=[0])
    with pytest.raises(ad.DataError, match=r"one half of 800 examples .* at least 1,794 examples"):
        ad.sweep(model, batches, anytime=[0.5])
    with pytest.raises(ad.ConfigError, match="one class for each"):
        ad.sweep(ad.build("flow", features=2, steps=2), [(torch.randn(9, 2),) * 2], anytime=[0.5])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    torch.set_num_threads(1)
    config = tiny("data.limit=200", "data.validation=400", "model.options.steps=8")
    return train(config, tmp_path_factory.mktemp("depth") / "run", None)


def test_from_the_command_line(run, capsys):
    done = run_command(capsys, "sweep", run.folder, *GRID, "--anytime", "8,20", "--json")
    assert (done.code, done.err) == (0, "")
    told = json.loads(done.out)["anytime"]
    assert [row["max_drop"] for row in told] == [8.0, 20.0]
    assert all(row["evaluations"] > 0 for row in told)
    sweep, is_complete = read_sweep(run.folder / "sweep.json")
    assert is_complete
    again = run_command(capsys, "sweep", run.folder, *GRID)
    assert "anytime 20" in again.err
    assert "% by" in again.err
    kept = sweep_of(open_run(run.folder))
    assert kept is not None
    assert kept.anytime == sweep.anytime
    assert sweep_figure(sweep).startswith("<svg")
    page = str(budgets(Findings(run, "test", [], **swept_in(run, "test"))))
    assert "A depth for every example" in page
    assert len(re.findall("anytime 20", page)) == 1


def test_impossible_requests_from_the_command_line(run, capsys, tmp_path):
    out = ("--out", tmp_path / "out")
    sweep = ("sweep", run.folder, *GRID, *out)
    assert_refused(run_command(capsys, *sweep, "--anytime", "x"), 2, "such as 0.5,2")
    assert_refused(run_command(capsys, *sweep, "--anytime", "100"), 2, "below 100")
    assert_refused(run_command(capsys, *sweep, "--anytime", "0.5"), 3, "one half of 400 examples")
    assert_refused(run_command(capsys, *sweep, "--anytime", "5", "--no-data"), 3, "sweep with data")
    bare = train(tiny("data.validation=0"), tmp_path / "bare", None)
    refused = run_command(capsys, "sweep", bare.folder, *GRID, "--anytime", "20")
    assert_refused(refused, 3, "holds out no validation part")
    data = write_treebank(tmp_path / "data" / "treebank")
    tagger = train(tiny_tagger(), tmp_path / "tagger", data.parent)
    refused = run_command(capsys, "sweep", tagger.folder, *GRID, "--anytime", "20", "--data", data.parent)
    assert_refused(refused, 2, "one class for each")
