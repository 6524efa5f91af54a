"""Sweeps and budgets: what is on the front, what fits, what is kept, and what is refused."""

import json
import re
import shutil
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import anydepth as ad
from anydepth import artifact
from anydepth.data.order import Draw
from anydepth.data.order import batches as batches_of_epoch
from anydepth.data.source import SOURCES
from anydepth.data.table import Augment
from anydepth.deploy.recalibrate import training_batches
from anydepth.deploy.sweeps.budget import Budget
from anydepth.deploy.sweeps.candidates import axes_of
from anydepth.deploy.sweeps.pick import pick
from anydepth.deploy.sweeps.result import COSTS, FormRow, Sweep, front
from anydepth.deploy.sweeps.sweep_file import read_sweep, sweep_of
from anydepth.depth.bases import BASES, FEW, ladder
from anydepth.errors import BudgetError, ConfigError, DataError, ModelFileError, NumericalError
from anydepth.measure.cost import flops, interleaved, peak_bytes, weight_bytes
from anydepth.measure.evaluation import evaluate
from anydepth.measure.paired import Answers, drop_of, loss_in
from anydepth.report.budgets import budgets
from anydepth.report.findings import Findings, swept_in
from anydepth.report.page import SECTIONS
from anydepth.report.sweep_figure import sweep_figure
from anydepth.runs import folder
from anydepth.runs.folder import discard_run, open_run
from anydepth.surgery.forms import MIXED, Form, form_of, in_form
from anydepth.train.training import train
from command import assert_refused, run_command
from small_runs import tiny, tiny_tagger, write_treebank

FORM = ("model.options.size=2", "model.options.steps=2", "training.epochs=1")
QUICK = ("--rounds", "1", "--threads", "1")
TIMES = ("latency_ms", "latency_ratio")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run of 2 constants and 2 midpoint steps; its default grid has 8 forms."""
    torch.set_num_threads(1)
    return train(tiny(*FORM), tmp_path_factory.mktemp("sweep") / "tiny").folder


@pytest.fixture(scope="module")
def swept(trained, tmp_path_factory):
    """The folder of a whole sweep of it."""
    folder = tmp_path_factory.mktemp("swept")
    ad.sweep(trained, rounds=1, out=folder)
    return folder


@pytest.fixture
def run(trained, tmp_path):
    """A copy that may be changed."""
    return open_run(shutil.copytree(trained, tmp_path / "tiny"))


def untimed(sweep):
    """Rows without what a clock says."""
    return [replace(row, latency_ms=0.0, latency_ratio=0.0) for row in sweep.rows]


# Fronts and budgets, on made-up tables


def row(value, parameters, latency_ms, place=0, paired=None):
    numbers = {"nfe": 1, "flops": 1, "memory_bytes": 1, "latency_ratio": 1.0, "projection_error": 0.0}
    return FormRow(
        basis="constant",
        size=place + 1,
        steps=1,
        scheme="euler",
        is_source=place == 0,
        parameters=parameters,
        latency_ms=latency_ms,
        value=value,
        is_frozen=True,
        agreement=None,
        paired=paired,
        solver_error=None,
        **numbers,
    )


VALUES = st.one_of(st.none(), st.integers(0, 5).map(float))
POINTS = st.lists(st.tuples(VALUES, st.integers(1, 5), st.integers(1, 5).map(float)), min_size=1, max_size=12)
METRICS = st.sampled_from(["accuracy", "agreement", "rmse", "error"])


def table(points, metric="accuracy"):
    first = (3.0, *points[0][1:])
    return Sweep(tuple(row(*point, place) for place, point in enumerate([first, *points[1:]])), metric)


def dominates(a, b, metric, costs):
    mine, its = ([loss_in(metric, r.value), *(getattr(r, cost) for cost in costs)] for r in (a, b))
    return all(x <= y for x, y in zip(mine, its, strict=True)) and mine != its


@given(POINTS, METRICS, st.sampled_from([COSTS, COSTS[:1], COSTS[1:]]))
def test_front_is_what_no_row_dominates(points, metric, costs):
    rows = table(points, metric).rows
    found = front(rows, metric, costs)
    for candidate in rows:
        beaten = any(dominates(other, candidate, metric, costs) for other in rows if other.value is not None)
        assert (candidate in found) == (candidate.value is not None and not beaten)


@given(POINTS, METRICS)
def test_front_by_one_cost_has_every_value_that_nothing_cheaper_reaches(points, metric):
    sweep = table(points, metric)
    for cost in COSTS:
        found = sweep.front_by(cost)
        assert set(found) <= set(sweep.front)
        expected = {(getattr(r, cost), r.value) for r in front(sweep.rows, metric, (cost,))}
        assert {(getattr(r, cost), r.value) for r in found} == expected
        assert [getattr(r, cost) for r in found] == sorted(getattr(r, cost) for r in found)


@given(
    POINTS,
    METRICS,
    st.one_of(st.none(), st.integers(1, 6)),
    st.one_of(st.none(), st.integers(0, 6).map(float)),
    st.one_of(st.none(), st.integers(-2, 6).map(float)),
)
def test_best_keeps_the_budget_and_nothing_that_keeps_it_is_better(points, metric, params, latency, drop):
    sweep = table(points, metric)
    fits = [
        r
        for r in sweep.rows
        if r.value is not None
        and (params is None or r.parameters <= params)
        and (latency is None or r.latency_ms <= latency)
        and (drop is None or drop_of(metric, r.value, 3.0) <= drop)
    ]
    if not fits:
        with pytest.raises(BudgetError, match="no form of this model meets") as refused:
            sweep.best(params, latency, drop)
        assert "\n" not in str(refused.value)
        return
    best = sweep.best(max_params=params, max_latency_ms=latency, max_drop=drop)
    assert best in fits
    if drop is not None and params is None and latency is None:
        assert best.parameters == min(r.parameters for r in fits)
    else:
        assert loss_in(metric, best.value) == min(loss_in(metric, r.value) for r in fits)


def test_refused_budgets_name_the_best_that_can_be_reached():
    sweep = Sweep((row(90.0, 100, 10.0), row(80.0, 50, 20.0, 1)), "accuracy")
    for budget, says in (
        ({"max_params": 49}, "fewest parameters are 50"),
        ({"max_latency_ms": 9.0}, "lowest latency is 10 ms"),
        ({"max_params": 60, "max_latency_ms": 15.0}, "with so few parameters the lowest latency is 20 ms"),
        ({"max_params": 60, "max_drop": 5.0}, "smallest drop within the rest of it is 10"),
    ):
        with pytest.raises(BudgetError, match=says):
            sweep.best(**budget)
    for bad in ({"max_params": 0}, {"max_latency_ms": float("nan")}, {"max_drop": float("inf")}):
        with pytest.raises(ConfigError, match="must be a finite number"):
            sweep.best(**bad)
    for bad in (-0.1, 1.0, 95, float("nan")):
        with pytest.raises(ConfigError, match="share below 1"):
            sweep.best(max_drop=1, confidence=bad)


def answered(count, *losses):
    """A source, and smaller and smaller forms that lose so many of its answers and gain none."""
    rows = [row(90.0, 100, 9.0, paired=Answers(count, 0, 0))]
    for place, lost in enumerate(losses, 1):
        rows.append(row(90 - 100 * lost / count, 100 - place, 9.0, place, Answers(count, lost, 0)))
    return Sweep(tuple(rows), "accuracy")


@given(
    st.integers(21, 5000),
    st.lists(st.integers(0, 20), min_size=1, max_size=6),
    st.floats(0, 20),
    st.sampled_from([0.5, 0.9, 0.95, 0.99]),
)
def test_a_drop_is_kept_by_its_bound_and_the_source_keeps_any(count, losses, drop, confidence):
    sweep = answered(count, *losses)
    found = sweep.best(max_drop=drop, confidence=confidence)
    assert found.is_source or sweep.most_drop(found, confidence) <= drop
    assert all(sweep.most_drop(r, confidence) > drop for r in sweep.rows if r.parameters < found.parameters)
    assert found.parameters >= sweep.best(max_drop=drop, confidence=0).parameters
    assert sweep.most_drop(sweep.source) == 0
    assert all(sweep.most_drop(r) > sweep.drop(r) for r in sweep.rows[1:])


def test_a_form_that_too_few_examples_speak_for_is_told_with_the_way_out():
    few, many = answered(200, 1), answered(20_000, 100)
    assert few.best(max_drop=1).is_source
    assert not few.best(max_drop=1, confidence=0).is_source
    assert not many.best(max_drop=1).is_source
    says = "drop of 0.5 as measured, but 200 examples .* at most 2.*95 % confidence.*; give more validation data"
    assert re.search(says, few.doubt(Budget(max_drop=1)))
    assert many.doubt(Budget(max_drop=1)) == ""
    assert few.doubt(Budget(max_params=99)) == ""
    with pytest.raises(BudgetError, match=says) as refused:
        few.best(max_params=99, max_drop=1)
    assert "\n" not in str(refused.value)
    with pytest.raises(BudgetError, match="smallest drop within the rest of it is"):
        few.best(max_params=99, max_drop=0.4)


@given(POINTS, st.integers(1, 6).map(float), st.lists(st.floats(0.5, 2), min_size=12, max_size=12))
def test_picks_keep_a_latency_when_measured_once_more(points, limit, factors):
    sweep, asked = table(points), []
    fresh = {r.name: r.latency_ms * factor for r, factor in zip(sweep.rows, factors, strict=False)}

    def timed(r):
        asked.append(r.name)
        return fresh[r.name]

    try:
        picked = pick(sweep, Budget(max_latency_ms=limit), timed)
    except BudgetError:
        assert not asked or min(fresh[name] for name in asked) > limit
        return
    assert picked.latency_ms == fresh[picked.row.name] <= limit
    assert asked[-1] == picked.row.name
    assert all(fresh[name] > limit for name in asked[:-1])
    safe = [r for r in sweep.ranked(Budget(max_latency_ms=limit)) if r.latency_ms <= 0.9 * limit]
    assert not safe or asked[0] == safe[0].name
    assert pick(sweep, Budget(max_drop=9.0), timed).latency_ms is None


def test_a_form_that_a_sweep_timed_badly_does_not_hide_those_that_fit():
    sweep = table([(3.0, 5, 9.0), (2.0, 5, 1.0), (1.0, 5, 2.0), (0.0, 5, 2.5)])
    heavy, light, lighter = (replace(r, flops=count) for r, count in zip(sweep.rows[1:], (9, 4, 2), strict=True))
    fresh = {heavy.name: 8.0, light.name: 4.0, lighter.name: 2.5}
    sweep = replace(sweep, rows=(sweep.source, heavy, light, lighter))
    assert pick(sweep, Budget(max_latency_ms=3.0), lambda r: fresh[r.name]).row is lighter


# Costs


def test_costs_are_what_can_be_counted_by_hand():
    x, layer = torch.randn(8, 100), nn.Linear(100, 50)
    with torch.inference_mode():
        assert flops(lambda: layer(x)) == 2 * 8 * 100 * 50
        assert peak_bytes(lambda: x.relu().relu().relu()) == 2 * x.numel() * 4
        assert peak_bytes(lambda: x.view(100, 8)) == 0
        assert peak_bytes(lambda: [x + 1, x + 2, x + 3]) == 3 * x.numel() * 4
    assert weight_bytes(layer) == 4 * (100 * 50 + 50)
    order = []
    times = interleaved({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, rounds=2, warm_up=1)
    assert order == list("ababab")
    assert {name: len(found) for name, found in times.items()} == {"a": 2, "b": 2}


# Grids and forms


def test_default_grid_halves_sizes_and_steps_and_lowers_the_order():
    net = ad.build("flow", features=2, basis="discontinuous", size=6, scheme="rk4_38", steps=5)
    axes = axes_of(net)
    assert axes == axes_of(net, ["discontinuous"], [6, 2, 1], [5, 2, 1], ["rk4_38", "midpoint", "euler"])
    adaptive = axes_of(ad.build("flow", features=2, basis="linear", size=3, scheme="bosh32"))
    assert (adaptive.steps, adaptive.schemes) == ((8, 4, 2, 1), ("midpoint", "euler"))
    for wrong in ({"schemes": ["dopri54"]}, {"bases": ["lineer"]}, {"sizes": [0]}, {"steps": [True]}):
        with pytest.raises(ConfigError):
            axes_of(net, **wrong)


@pytest.mark.parametrize("name", BASES.names())
def test_the_ladder_goes_down_the_nested_sizes_to_one(name):
    for size in (*range(1, 20), 40, 129):
        sizes = ladder(name, size)
        assert sizes[0] <= size
        assert sizes[-1] == 1
        assert list(sizes) == sorted(set(sizes), reverse=True)
        for each in sizes:
            assert BASES[name](each).size == each
    basis, chain = BASES[name](FEW), []
    for _ in range(4):
        basis = basis.refined()
        chain.append(basis.size)
    assert ladder(name, chain[-1])[: len(chain)] == tuple(reversed(chain))


def test_few_sizes_are_all_tried():
    assert ladder("linear", 3) == (3, 2, 1)
    assert ladder("linear", 9) == (9, 5, 3, 2, 1)
    net = ad.build("flow", features=2, basis="linear", size=3, steps=1)
    assert axes_of(net, ["linear", "discontinuous"]).sizes == {"linear": (3, 2, 1), "discontinuous": (2, 1)}


def test_forms_with_the_same_frozen_graph_are_timed_once(monkeypatch):
    timed = []

    def counted(calls, *rest, **more):
        timed.append(list(calls))
        return interleaved(calls, *rest, **more)

    monkeypatch.setattr("anydepth.measure.form_meter.interleaved", counted)
    net = ad.build("flow", features=2, classes=2, basis="linear", size=5, steps=2, scheme="midpoint")
    found = ad.sweep(net, [torch.randn(8, 2)], rounds=1)
    graphs = {(row.steps, row.scheme, min(row.size, 2)) for row in found.rows}  # one function: all units are the same
    assert len(found.rows) == 4 * 2 * 2
    assert len(timed) <= len(graphs)
    for row in found.rows:
        if (row.steps, row.scheme) == (2, "midpoint") and row.size > 1:
            assert (row.latency_ms, row.flops) == (found.source.latency_ms, found.source.flops)


def test_where_blocks_differ_no_block_grows():
    net = ad.build("image", channels=[2, 4], image=[1, 8, 8], pool=2, size=4, steps=4, scheme="euler")
    ad.refine(net, size={"blocks.0": 8}, steps={"blocks.0": 8})
    assert form_of(net) == Form("constant", 8, 8, "euler")
    smaller = in_form(net, Form("constant", 6, 6, "euler"))
    assert [(block.size, block.steps) for block in ad.blocks_of(smaller).values()] == [(6, 6), (4, 4)]
    same = in_form(net, form_of(net))
    assert all(torch.equal(a, b) for a, b in zip(net.parameters(), same.parameters(), strict=True))
    mixed = ad.ContinuousBlock(lambda: nn.Linear(3, 3), weights={"bias": ("linear", 2), "*": ("constant", 4)})
    assert form_of(mixed).basis == MIXED
    assert {f.size for f in ad.blocks_of(in_form(mixed, Form(MIXED, 1, 2, "rk4")))[""].functions.values()} == {1}


# Sweeping


def test_source_agrees_with_itself_and_values_are_those_of_evaluate(trained, swept):
    run = open_run(trained)
    sweep = sweep_of(run, folder=swept)
    assert len(sweep.rows) == 8
    assert (sweep.metric, sweep.split) == ("accuracy", "validation")
    source = sweep.source
    assert sweep.rows[0] is source
    assert (source.agreement, source.latency_ratio, source.projection_error) == (100.0, 1.0, 0.0)
    assert source.paired == Answers(20, 0, 0)
    for found in sweep.rows:
        assert sweep.drop(found) == pytest.approx(100 * (found.paired.lost - found.paired.gained) / found.paired.count)
    part = run.dataset(None).part("validation")
    for found in sweep.rows[::3]:
        model = in_form(run.model(), found.form)
        score = evaluate(model, part, run.facts)
        assert found.value == pytest.approx(score.value)
        assert (found.nfe, found.parameters) == (score.nfe, ad.summary(model).parameters)
    assert all(found.is_frozen and found.flops > 0 and found.memory_bytes > 0 for found in sweep.rows)
    by_nfe = {found.nfe: found.flops for found in sweep.rows}
    assert [by_nfe[count] for count in sorted(by_nfe)] == sorted(by_nfe.values())


def test_resumed_sweep_is_the_uninterrupted_one(trained, swept, tmp_path):
    asked = []

    def stop(what, share):
        asked.append(what)
        if len(asked) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ad.sweep(trained, rounds=1, out=tmp_path, report=stop)
    half, is_complete = read_sweep(tmp_path / "sweep.json")
    assert (len(half.rows), is_complete) == (3, False)
    assert sweep_of(open_run(trained), folder=tmp_path) is None
    rest = []
    sweep = ad.sweep(trained, rounds=1, out=tmp_path, report=lambda what, share: rest.append(what))
    assert len(rest) == 5
    assert sweep.rows[:3] == half.rows
    assert untimed(sweep) == untimed(sweep_of(open_run(trained), folder=swept))
    again = ad.sweep(trained, rounds=1, out=tmp_path, report=lambda what, share: pytest.fail(what))
    assert again.rows == sweep.rows
    more = ad.sweep(trained, rounds=1, out=tmp_path, sizes=[2], steps=[3], schemes=["rk4"])
    assert [r.name for r in more.rows] == [*(r.name for r in sweep.rows), "constant:2, rk4 x 3"]


def test_damaged_results_are_measured_anew_and_foreign_ones_refused(run, swept, tmp_path):
    kept = tmp_path / "kept"
    shutil.copytree(swept, kept)
    path = kept / "sweep.json"
    grid = {"sizes": [1], "steps": [1], "schemes": ["euler"], "rounds": 1, "out": kept}
    path.write_text(path.read_text().replace('"nfe": 1', '"nfe": 7', 1))
    with pytest.raises(ModelFileError, match="checksum"):
        sweep_of(run, folder=kept)
    sweep = ad.sweep(run, **grid)
    assert len(sweep.rows) == 2
    assert "does not match its own checksum" in sweep.note
    path.write_bytes(path.read_bytes()[:100])
    assert len(ad.sweep(run, **grid).rows) == 2
    older = json.loads(path.read_text()) | {"version": 1}
    artifact.write_json(path, artifact.sealed(older))
    with pytest.raises(ModelFileError, match="not a sweep file of version 2"):
        sweep_of(run, folder=kept)
    assert "not a sweep file of version 2" in ad.sweep(run, **grid).note
    assert "batch was 1, now it is 2" in ad.sweep(run, batch=2, **grid).note
    other = ad.compress(run.model(), size=1)
    ad.save(other, run.folder)
    with pytest.raises(ConfigError, match="another model"):
        ad.sweep(open_run(run.folder), **grid)
    with pytest.raises(ModelFileError, match="another model"):
        sweep_of(open_run(run.folder), folder=kept)
    assert ad.sweep(open_run(run.folder), fresh=True, **grid).source.size == 1


def test_without_a_validation_part_the_training_part_is_used_and_said(tmp_path):
    run = train(tiny("data.validation=0", "training.epochs=1"), tmp_path / "run")
    sweep = ad.sweep(run, rounds=1, examples=20)
    assert (sweep.split, sweep.settings["examples"]) == ("train", 20)
    assert "training part" in sweep.note
    assert ad.sweep(run, rounds=1, split="test", examples=20).split == "test"
    assert {path.name for path in run.folder.glob("sweep*")} == {"sweep.json", "sweep-test.json"}
    discard_run(run.folder)
    assert not list(run.folder.glob("sweep*"))


def test_taggers_are_swept(tmp_path):
    write_treebank(tmp_path / "data")
    config = tiny_tagger(f"data.options.folder={tmp_path / 'data'}", "model.options.size=2")
    run = train(config, tmp_path / "run")
    sweep = ad.sweep(run, rounds=1)
    assert len(sweep.rows) == 4
    assert sweep.source.agreement == 100
    assert all(found.is_frozen and found.flops for found in sweep.rows)
    blind = ad.sweep(run, rounds=1, split=None, sizes=[1])
    assert (blind.metric, blind.source.value) == ("error", 0)
    assert all(found.value > 0 for found in blind.rows[1:])


def test_models_are_swept_on_batches_with_labels_or_without():
    net = ad.build("flow", features=2, classes=3, basis="linear", size=3, scheme="dopri54")
    x = torch.randn(40, 2)
    sweep = ad.sweep(net, [(x, torch.randint(3, (40,)))], rounds=1, steps=[2], schemes=["rk4"], sizes=[3, 1])
    assert [(found.name, found.is_frozen) for found in sweep.rows] == [
        ("linear:3, dopri54", False),
        ("linear:3, rk4 x 2", True),
        ("linear:1, rk4 x 2", True),
    ]
    assert ad.sweep(net, [x], rounds=1, steps=[1], sizes=[3]).metric == "agreement"
    field = ad.build("flow", features=2, steps=2)
    numbers = ad.sweep(field, [(x, x)], rounds=1, batch=64)
    assert (numbers.metric, numbers.settings["batch"]) == ("rmse", 64)
    assert numbers.source.agreement is None
    assert all(numbers.most_drop(found) > numbers.drop(found) for found in numbers.rows[1:])
    assert numbers.drop(numbers.rows[-1]) == pytest.approx(100 * (numbers.rows[-1].paired.ratio ** 0.5 - 1))
    far = ad.sweep(field, [x], classes=False, rounds=1)
    assert (far.metric, far.source.value) == ("error", 0)
    assert all(far.most_drop(found) == far.drop(found) for found in far.rows)
    with pytest.raises(ConfigError, match="batches"):
        ad.sweep(field)
    with pytest.raises(ConfigError, match="rounds"):
        ad.sweep(field, [x], rounds=0)
    refused = ad.sweep(field, [x], rounds=1, bases=["discontinuous"], sizes=[1, 3], steps=[1], schemes=["euler"])
    assert list(refused.refused) == ["discontinuous:3, euler x 1"]


def test_a_source_that_is_not_finite_is_refused_and_a_form_has_no_value():
    net = ad.ContinuousBlock(lambda: nn.Linear(1, 1), scheme="euler", steps=2, scale=1e30)
    with pytest.raises(NumericalError):
        ad.sweep(net, [1e30 * torch.ones(2, 1)], classes=False, rounds=1)
    with torch.no_grad():
        net.unit.weight.fill_(-4e-30)
        net.unit.bias.zero_()
    sweep = ad.sweep(net, [3e38 * torch.ones(2, 1)], classes=False, rounds=1)
    assert [(found.steps, found.value) for found in sweep.rows] == [(2, 0.0), (1, None)]
    assert sweep.front == (sweep.source,)


# Recalibration


def normed(size=3, steps=2, scheme="midpoint", basis="linear"):
    return ad.build("image", channels=[3], image=[1, 8, 8], pool=8, size=size, steps=steps, scheme=scheme, basis=basis)


def images(count=3):
    return [2 * torch.randn(8, 1, 8, 8) + 1 for _ in range(count)]


@pytest.mark.parametrize("form", [(3, 2, "midpoint", "linear"), (4, 1, "euler", "constant"), (1, 3, "rk4", "legendre")])
def test_recalibration_forgets_the_state_before_it_and_keeps_every_weight(form):
    net, batches = normed(*form), images()
    weights = [parameter.clone() for parameter in net.parameters()]
    other = normed(*form)
    other.load_state_dict(net.state_dict())
    for buffer in other.buffers():
        if buffer.is_floating_point():
            buffer.normal_()
    modes = [module.training for module in net.eval().modules()]
    assert ad.recalibrate(net, batches) is net
    ad.recalibrate(other, batches)
    assert all(torch.equal(a, b) for a, b in zip(net.parameters(), weights, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(net.buffers(), other.buffers(), strict=True))
    assert [module.training for module in net.modules()] == modes
    state = {name: value.clone() for name, value in net.state_dict().items()}
    net(batches[0])
    assert all(torch.equal(value, state[name]) for name, value in net.state_dict().items())


def test_recalibrated_statistics_are_averages_over_the_batches():
    net, batches = normed(), images()
    stem, block = net.stem[1], net.blocks[0]
    ad.recalibrate(net, [(x, torch.zeros(8)) for x in batches])
    seen = [net.stem[0](x) for x in batches]
    expected = torch.stack([x.mean((0, 2, 3)) for x in seen]).mean(0)
    torch.testing.assert_close(stem.running_mean, expected)
    torch.testing.assert_close(stem.running_var, torch.stack([x.var((0, 2, 3)) for x in seen]).mean(0))
    assert int(stem.num_batches_tracked) == 3
    assert stem.momentum == 0.1
    for time in (0, 0.3, 1):
        assert all(bool((theta > 0).all()) for name, theta in block.theta(time).items() if "running_var" in name)


def test_depths_that_the_solver_does_not_read_get_the_mean_of_those_it_does():
    net = normed(4, 1, "euler", "constant")
    ad.recalibrate(net, images())
    stored = net.blocks[0].unit.bn1.running_mean
    assert torch.allclose(stored[1:], stored[1:2].expand(3, -1))
    assert not torch.equal(stored[1], torch.zeros(3))


def test_recalibration_changes_nothing_where_there_is_nothing_to_do_or_it_fails():
    plain = ad.build("tagger", words=9, classes=2, width=4)
    before = {name: value.clone() for name, value in plain.state_dict().items()}
    ad.recalibrate(plain, iter(()))
    assert all(torch.equal(value, before[name]) for name, value in plain.state_dict().items())
    net = normed()
    state = {name: value.clone() for name, value in net.state_dict().items()}
    for wrong, error in (([torch.full((8, 1, 8, 8), torch.nan)], Exception), ([], DataError)):
        with pytest.raises(error):
            ad.recalibrate(net, wrong)
        assert all(torch.equal(value, state[name]) for name, value in net.state_dict().items())
        assert net.training


def test_recalibration_sees_the_images_that_training_saw(tmp_path):
    """Shifted and mirrored as in the first epoch: the statistics of plain images are others."""
    config = tiny("data.crop=2", "data.flip=true", "training.epochs=1")
    run = train(config, tmp_path / "run")
    dataset = run.dataset(None)
    table, draw = dataset.part("train"), Draw(config.seed, 0)
    order = batches_of_epoch(draw, len(table), config.training.batch)
    seen = [table.batch(indices, run.facts, Augment(2, True), draw) for indices in order]
    found = training_batches(run, None)
    assert len(found) == len(seen) == 3
    for batch, expected in zip(found, seen, strict=True):
        assert torch.equal(batch.inputs[0], expected.inputs[0])
    assert not torch.equal(found[0].inputs[0], table.batch(order[0], run.facts).inputs[0])


# The command line


def test_sweep_prints_one_json_object_and_keeps_its_files(run, capsys):
    done = run_command(capsys, "sweep", run.folder, *QUICK, "--sizes", "1,2", "--steps", "2", "--json")
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    assert set(found) == {
        *("run", "sweep", "figure", "metric", "split", "settings", "note", "source", "rows", "front", "refused"),
        "anytime",
    }
    assert set(found["front"]) == {"all", *COSTS}
    assert {"name", "value", "agreement", "parameters", "nfe", "flops", *TIMES, "memory_bytes"} <= set(found["source"])
    assert {found["settings"][key] for key in ("batch", "threads", "rounds")} == {1}
    kept = json.loads((run.folder / "sweep.json").read_text())
    assert kept["is_complete"]
    assert kept["rows"] == found["rows"]
    assert (run.folder / "sweep.png").read_bytes().startswith(b"\x89PNG")
    people = run_command(capsys, "sweep", run.folder, *QUICK, "--sizes", "2", "--steps", "2", "--schemes", "euler")
    assert people.out == ""
    assert "4 forms on 20 validation examples" in people.err


def test_report_shows_the_sweep_where_there_is_one(run, swept):
    assert SECTIONS["Budgets"] is budgets
    assert budgets(found_in(run)) is None
    shutil.copy(swept / "sweep.json", run.folder)
    page = budgets(found_in(run))
    assert 'id="budgets"' in page
    assert "constant:2, midpoint x 2 (as it is)" in page
    (run.folder / "sweep.json").write_text("{")
    assert "Not shown" in budgets(found_in(run))


def found_in(run):
    return Findings(run, "test", [], **swept_in(run, "test"))


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--sizes", "1,x"], 2, "whole numbers"),
        (["--schemes", "euler,dopri54"], 2, "is adaptive"),
        (["--schemes", "oiler"], 2, "did you mean 'euler'"),
        (["--bases", "constant,lin"], 2, "unknown basis"),
        (["--split", "dev"], 2, "unknown part"),
        (["--out", "{file}/inside"], 6, "cannot make folder"),
        (["--batch", "0"], 2, "batch"),
    ],
)
def test_bad_sweeps_are_refused_in_one_line(trained, capsys, tmp_path, words, code, says):
    file = tmp_path / "file"
    file.write_text("")
    given = [word.format(file=file) for word in words]
    out = () if "--out" in words else ("--out", tmp_path / "out")
    assert_refused(run_command(capsys, "sweep", trained, *QUICK, *out, *given), code, says)


def test_damaged_runs_and_busy_folders_are_refused(run, capsys):
    path = run.folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    assert_refused(run_command(capsys, "sweep", run.folder, *QUICK), 4, "model.safetensors")
    budget = ("--max-params", "1000", "--out", run.folder / "small")
    assert_refused(run_command(capsys, "compress", run.folder, *budget), 4, "model.safetensors")


def test_compress_meets_a_budget(trained, swept, capsys, tmp_path):
    source = sweep_of(open_run(trained), folder=swept).source
    budget = ("--max-params", source.parameters - 1, "--max-drop", "100", "--max-latency-ms", "1e6")
    done = run_command(
        capsys, "compress", trained, *budget, "--sweep", swept, "--recalibrate", "--out", tmp_path / "s", "--json"
    )
    found = json.loads(done.out)
    assert found["parameters"]["to"] < source.parameters
    assert found["picked"]["used_data"]
    assert found["picked"]["remeasured_latency_ms"] > 0
    assert found["picked"]["value"] == found["recalibrated"]["before"]
    gained = found["recalibrated"]["after"] - found["recalibrated"]["before"]
    assert found["recalibrated"]["is_kept"] == (gained >= 0)
    small = open_run(tmp_path / "s")
    assert small.record.parent == open_run(trained).model_hash()
    assert small.record.transform["budget"]["max_drop"] == 100
    assert found["picked"]["drop"] < found["picked"]["most_drop"] <= 100
    assert small.record.transform["size"] == 1
    score = evaluate(small.model(), small.dataset(None).part("validation"), small.facts)
    expected = found["recalibrated"]["after" if gained >= 0 else "before"]
    assert score.value == pytest.approx(expected)
    taken = run_command(capsys, "compress", trained, "--max-drop", "0", "--sweep", swept, "--out", tmp_path / "s")
    assert_refused(taken, 2, "holds a run")


@pytest.mark.parametrize("words", [(), ("--recalibrate",)])
def test_compress_opens_the_model_once_and_reads_the_data_once(trained, swept, capsys, tmp_path, monkeypatch, words):
    opened, read = [], []
    source = SOURCES[open_run(trained).config.data.name]

    def counted(made, into):
        return lambda *args, **kwargs: into.append(args) or made(*args, **kwargs)

    monkeypatch.setattr(folder, "load", counted(folder.load, opened))
    monkeypatch.setattr(source, "read", counted(source.read, read))
    budget = ("--max-drop", "100", "--sweep", swept, "--out", tmp_path / "s")
    assert run_command(capsys, "compress", trained, *budget, *words).code == 0
    assert (len(opened), len(read)) == (1, 1)


def test_budgets_that_cannot_be_met_exit_1_and_write_nothing(trained, swept, capsys, tmp_path):
    words = ("--sweep", swept, "--out", tmp_path / "s")
    assert_refused(run_command(capsys, "compress", trained, "--max-params", "3", *words), 1, "fewest parameters are")
    assert_refused(run_command(capsys, "compress", trained, "--max-drop", "-101", *words), 1, "smallest drop")
    assert_refused(run_command(capsys, "compress", trained, "--max-latency-ms", "1e-9", *words), 1, "lowest latency")
    assert_refused(run_command(capsys, "compress", trained, "--size", "1", "--max-params", "9", *words), 2, "not both")
    assert_refused(run_command(capsys, "compress", trained, "--max-params", "-1", *words), 2, "max_params")
    sure = ("--max-drop", "1", "--confidence", "1")
    assert_refused(run_command(capsys, "compress", trained, *sure, *words), 2, "confidence must be 0")
    alone = ("--max-params", "99999", "--confidence", "0.9")
    assert_refused(run_command(capsys, "compress", trained, *alone, *words), 2, "give --max-drop too")
    assert not (tmp_path / "s").exists()
    (tmp_path / "file").write_text("")
    inside = ("--sweep", swept, "--out", tmp_path / "file" / "inside")
    assert_refused(run_command(capsys, "compress", trained, "--max-drop", "100", *inside), 6, "cannot make folder")


def test_compress_says_how_sure_it_is_of_a_drop(trained, swept, capsys, tmp_path):
    sweep = sweep_of(open_run(trained), folder=swept)
    drop = min(sweep.drop(found) for found in sweep.rows if found.parameters < sweep.source.parameters)
    words = ("--max-drop", max(drop, 0), "--sweep", swept, "--out")
    told = run_command(capsys, "compress", trained, *words, tmp_path / "a")
    assert "drop 0\n" in told.err
    assert open_run(tmp_path / "a").record.transform["size"] == sweep.source.size
    assert "20 examples show only that it is at most" in " ".join(told.err.split())
    told = run_command(capsys, "compress", trained, *words, tmp_path / "b", "--confidence", "0")
    assert open_run(tmp_path / "b").record.transform["size"] < sweep.source.size
    assert "confidence" not in told.err
    words = ("--max-drop", 99, "--sweep", swept, "--out")
    told = run_command(capsys, "compress", trained, *words, tmp_path / "c", "--confidence", "0.9")
    assert re.search("drop .*, at most .* with 90 % confidence", told.err)


def test_compress_without_data_says_so(trained, capsys, tmp_path, monkeypatch):
    def missing(*given):
        raise DataError("no file")

    words = ("--max-params", "100000", "--sweep", tmp_path, "--out")
    told = run_command(capsys, "compress", trained, *words, tmp_path / "a", "--no-data")
    assert told.code == 0
    assert "no data was used" in told.err
    monkeypatch.setattr("anydepth.data.dataset.Dataset.part", missing)
    found = json.loads(run_command(capsys, "compress", trained, *words, tmp_path / "b", "--json").out)
    assert not found["picked"]["used_data"]
    assert [found["picked"][key] for key in ("metric", "drop", "most_drop")] == ["error", 0, None]
    assert_refused(run_command(capsys, "sweep", trained, *QUICK, "--out", tmp_path / "c"), 3, "no file")


def test_rows_survive_their_file(swept):
    sweep, is_complete = read_sweep(swept / "sweep.json")
    assert is_complete
    assert [found.describe() for found in sweep.rows] == json.loads((swept / "sweep.json").read_text())["rows"]


@pytest.mark.parametrize(
    "setting", [{"threads": 0}, {"threads": -1}, {"threads": 10**30}, {"batch": 0}, {"rounds": None}, {"examples": -1}]
)
def test_forged_settings_are_refused(setting, swept, tmp_path):
    """PyTorch takes no threads for an error of its own."""
    values = json.loads((swept / "sweep.json").read_text())
    artifact.write_json(tmp_path / "sweep.json", artifact.sealed(values | {"settings": values["settings"] | setting}))
    with pytest.raises(ModelFileError, match=f"damaged: {next(iter(setting))} is"):
        read_sweep(tmp_path / "sweep.json")


@pytest.mark.parametrize("change", [{"metric": "luck"}, {"rows": []}, {"rows": [{"basis": 3}]}, {"settings": {}}])
def test_forged_files_are_refused(swept, tmp_path, change):
    values = json.loads((swept / "sweep.json").read_text()) | change
    artifact.write_json(tmp_path / "sweep.json", artifact.sealed(values))
    with pytest.raises(ModelFileError, match="damaged"):
        read_sweep(tmp_path / "sweep.json")


@pytest.mark.parametrize(("metric", "count"), [("accuracy", 4), ("rmse", 1), ("error", 4)])
def test_every_sweep_can_be_drawn(metric, count):
    many = [(90.0, 50, 9.0), (89.5, 40, 0.1), (None, 3, 1.0), (20.0, 2, 1.0)]
    rows = tuple(row(*point, place) for place, point in enumerate(many))
    assert sweep_figure(Sweep(rows[:count], metric, "test")).startswith("<svg")
