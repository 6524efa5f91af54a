"""Step control: the paper's algorithm to the letter, a steady one, and what neither may touch."""

import math
from copy import deepcopy
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import anydepth as ad
from anydepth.block.form import weights_of
from anydepth.data.table import Batch
from anydepth.errors import ConfigError
from anydepth.runs.checkpoint_files import manifests, read_checkpoint
from anydepth.runs.control import PaperControl, SteadyControl, ToleranceControl
from anydepth.runs.folder import Run, dataset_of, open_run
from anydepth.solve.solver import make_solver
from anydepth.train.control.controller import CONTROLLERS, Clock, make_controller
from anydepth.train.control.estimate import Error, first_step, measure, of_chances, of_outputs, of_predictions
from anydepth.train.control.paper import Algorithm, Paper, PaperTolerance, step_of
from anydepth.train.control.probe import Probe
from anydepth.train.control.steady import AIM, ALARM, Memory, Steady
from anydepth.train.prepare import prepare
from anydepth.train.trainer import Trainer
from anydepth.train.training import train
from crashing import remains, train_and_crash
from small_runs import tiny

FLOW = (
    "data.name=landscape",
    "data.limit=64",
    "data.validation=16",
    "model.name=flow",
    'model.options={"scheme": "euler", "steps": 4}',
    "optimizer.name=adam",
    "optimizer.lr=0.01",
)
ADAPTIVE = 'model.options={"scheme": "bosh32", "rtol": 0.01, "atol": 0.001}'
PAPER = 'control={"name": "paper", "every": 2, "threshold": 0.02, "check_steps": 8}'
TOLERANCE = 'control={"name": "paper_tolerance", "every": 2}'
STEADY = 'control={"name": "steady", "every": 1, "examples": 20, "rough": 0.05, "least_steps": 1}'
KINDS = {"paper": (PAPER,), "paper_tolerance": (ADAPTIVE, TOLERANCE), "steady": (STEADY,)}


def probe_of(model, inputs, targets=None, task="classify"):
    targets = torch.zeros(len(inputs), dtype=torch.long) if targets is None else targets
    return Probe(model, [Batch((inputs,), targets)], task, torch.no_grad)


def flow(steps=4, scheme="euler", **options):
    torch.manual_seed(0)
    return ad.build("flow", features=2, classes=3, scheme=scheme, steps=steps, **options)


def trainer_of(*changes, folder=Path("nowhere")):
    config = tiny(*FLOW, *changes)
    return Trainer(prepare(config, dataset_of(config, None)), Run(folder, None))


def controlled(run):
    return [line for line in run.metrics() if line["kind"] == "control"]


# The paper's algorithm

GAPS = st.lists(st.floats(0, 0.3), min_size=40, max_size=40)


@given(GAPS, st.floats(0.002, 1), st.floats(0.3, 0.9), st.floats(1.01, 3))
@settings(max_examples=30, deadline=None)
def test_the_papers_arithmetic_is_followed_exactly(gaps, first, shrink, grow):
    """h <- shrink h if |a - b| > threshold, else grow h unless that fails; 1 / most_steps <= h <= 1."""
    given_gaps = iter(gaps)
    controller = Paper(PaperControl(first=first, shrink=shrink, grow=grow, most_steps=400))
    controller.gap_to = lambda probe, solvers: next(given_gaps)
    probe = SimpleNamespace(solvers={"block": make_solver(scheme="euler", steps=1)})
    solvers, expected, left = controller.start(probe).solvers, max(first, 1 / 400), iter(gaps)
    for _ in range(20):
        probe.solvers = solvers
        decision = controller.check(probe, Clock(50, 100), {})
        before, gap = expected, next(left)
        if gap > 0.1:
            expected = max(shrink * before, 1 / 400)
            event = "keep" if expected == before else "shrink"
        elif before == 1:
            event = "keep"
        else:
            grown = min(1.0, grow * before)
            expected, event = (grown, "grow") if next(left) <= 0.1 else (before, "revert")
        solvers = decision.solvers
        grid = solvers["block"].grid
        assert decision.event == event
        assert step_of(solvers["block"]) == expected
        assert (grid.times[0], grid.times[-1]) == (0, 1)
        widths = [b - a for a, b in pairwise(grid.times)]
        assert set(widths[:-1]) <= {grid.times[1]}
        assert 0 < widths[-1] <= grid.times[1] <= 1


def test_the_check_solver_is_midpoint_with_at_least_fifty_steps():
    paper = Paper(PaperControl())
    for steps, expected in ((1, 50), (3, 51), (7, 56), (49, 98), (50, 50), (64, 64)):
        checked = paper.finer({"block": make_solver(scheme="euler", steps=steps)})["block"]
        assert (checked.scheme.name, checked.steps) == ("midpoint", expected)
    higher = {"midpoint": "rk4", "heun": "rk4", "rk4": "rk4"}
    for scheme, expected in higher.items():
        checked = paper.finer({"block": make_solver(scheme=scheme, steps=60)})["block"]
        assert (checked.scheme.name, checked.steps) == (expected, 120 if scheme == "rk4" else 60)


def test_the_gap_is_that_of_the_accuracies_or_of_the_outputs():
    torch.manual_seed(0)
    model, x = flow(), 3 * torch.randn(50, 2)
    labels = model(x).argmax(-1)
    paper = Paper(PaperControl())
    finer = deepcopy(model)
    finer.block.set_solver(**paper.finer({"block": model.block.solver})["block"].describe())
    right = (finer(x).argmax(-1) == labels).double().mean()
    assert paper.gap_to(probe_of(model, x, labels), {"block": model.block.solver}) == pytest.approx(1 - float(right))
    found = paper.gap_to(probe_of(model, x, torch.zeros(50, 3), "regress"), {"block": model.block.solver})
    before, after = model(x).detach(), finer(x).detach()
    assert found == pytest.approx(float((after - before).norm() / before.norm()), rel=1e-5)


def test_tolerances_are_scaled_together_within_their_bounds():
    control = PaperTolerance(ToleranceControl(tightest=1e-3))
    solvers = {"a": make_solver(scheme="dopri54", rtol=0.01, atol=1e-4), "b": make_solver(scheme="bosh32", rtol=0.002)}
    half = control.scaled(solvers, 0.5)
    assert (half["a"].tolerance.rtol, half["a"].tolerance.atol) == (0.005, 5e-5)
    assert half["b"].tolerance.rtol == 0.001
    assert control.scaled(solvers, 1e-9)["a"].tolerance.rtol == pytest.approx(1e-3)
    assert control.scaled(solvers, 1e9)["a"].tolerance.rtol == pytest.approx(1)
    assert control.finer(solvers)["a"].tolerance.rtol == pytest.approx(0.001)


class Linear(nn.Module):
    """x' = rate x."""

    def __init__(self, rate):
        super().__init__()
        self.rate = nn.Parameter(torch.tensor(float(rate)))

    def forward(self, x):
        return self.rate * x


def linear(rate, steps, scheme="euler"):
    return nn.Sequential(ad.ContinuousBlock(lambda: Linear(rate), scheme=scheme, steps=steps)).double()


@pytest.mark.parametrize("scheme", ["euler", "midpoint", "rk4"])
def test_the_first_step_is_hairers(scheme):
    """On x' = a x: d0 = |x| / s, d1 = a d0, d2 = a^2 d0 (exactly, since x' is linear), s = tolerance (1 + |x|)."""
    rate, tolerance, x = 5.0, 0.1, 2.0
    model = linear(rate, 3, scheme)
    probe = probe_of(model, torch.full((4, 1), x, dtype=torch.double), torch.zeros(4, 1), "regress")
    size = x / (tolerance * (1 + x))
    order = ad.SCHEMES[scheme].order
    expected = min(1 / rate, (0.01 / (rate**2 * size)) ** (1 / (order + 1)), 1)
    assert first_step(probe, tolerance) == pytest.approx(expected)
    assert probe.evaluations == 3 * ad.SCHEMES[scheme].stages + 2


@pytest.mark.parametrize(("rate", "x"), [(0.0, 2.0), (0.0, 0.0), (0.5, 0.0)])
def test_a_field_that_does_nothing_starts_with_one_step(rate, x):
    probe = probe_of(linear(rate, 3), torch.full((4, 1), x, dtype=torch.double), torch.zeros(4, 1), "regress")
    assert first_step(probe, 0.1) == 1


# The steady one


@pytest.mark.parametrize("total", [1, 20, 50, 52, 400])
def test_the_last_checks_are_held_in_the_shortest_training(total):
    """Where the predictions begin to count, and at the end; Algorithm 1 has none there."""
    controller = Steady(SteadyControl())
    memory = Memory(due=2 * total, wait=50).model_dump()
    due = [step for step in range(1, total + 1) if controller.is_due(Clock(step, total), memory)]
    assert due == sorted({math.ceil(0.96 * total), total})
    assert not Paper(PaperControl(every=total)).is_due(Clock(total, total), {})


@pytest.mark.parametrize(("scheme", "constant", "order"), [("euler", 0.5, 1), ("midpoint", 1 / 6, 2)])
@pytest.mark.parametrize("begin", [1, 3, 200])
def test_steady_leaves_with_steps_that_pass_where_they_are_measured(scheme, constant, order, begin):
    """On x' = x the relative error is constant / N^order; steps that pass already are kept, others are not overdone."""
    model = linear(1.0, begin, scheme)
    probe = probe_of(model, torch.ones(1, 1, dtype=torch.double), torch.zeros(1, 1), "regress")
    steady, memory = Steady(SteadyControl(limit=0.01, examples=1)), Memory(due=50, wait=50).model_dump()
    decision = steady.check(probe, Clock(1000, 1000), memory)
    steps = decision.solvers["0"].steps
    assert decision.memory == memory
    assert decision.tests[-1]
    assert constant / steps**order <= 0.87 * 0.01, "measured, so up to the error of the more accurate solver"
    if begin == 200:
        assert (decision.event, steps) == ("keep", 200)
    else:
        assert decision.event == "shrink"
        assert begin < steps <= 1.5 * (constant / (0.7 * 0.01)) ** (1 / order) + 1
    assert len(decision.tests) <= 4


def test_steady_leaves_at_its_most_steps_when_none_suffice():
    model = linear(1.0, 4)
    probe = probe_of(model, torch.ones(1, 1, dtype=torch.double), torch.zeros(1, 1), "regress")
    steady = Steady(SteadyControl(limit=1e-6, examples=1, most_steps=40))
    decision = steady.check(probe, Clock(9, 9), Memory(due=50, wait=50).model_dump())
    assert decision.solvers["0"].steps == 40
    assert not any(decision.tests)


def test_the_errors_of_classes_are_shares():
    probe = probe_of(linear(1.0, 4), torch.ones(2, 1, dtype=torch.double), torch.tensor([0, 1]))
    exact = torch.tensor([[0.0, 0.0], [2.0, 0.0]], dtype=torch.double)
    other = torch.tensor([[0.0, 5.0], [3.0, 0.0]], dtype=torch.double)
    gaps = (other.softmax(-1) - exact.softmax(-1))[:, 0].abs()
    assert of_chances(probe, exact, other) == pytest.approx(float(gaps.mean()))
    assert of_chances(probe, exact, exact + 7) == pytest.approx(0, abs=1e-15)
    assert of_predictions(probe, exact, other) == 0.5


@pytest.mark.parametrize(("scheme", "least"), [("euler", 12), ("midpoint", 4), ("rk4", 2)])
def test_steady_never_takes_very_large_steps(scheme, least):
    model = linear(1e-3, 40, scheme)
    probe = probe_of(model, torch.ones(1, 1, dtype=torch.double), torch.zeros(1, 1), "regress")
    steady = Steady(SteadyControl(examples=1))
    memory = steady.start(probe).memory
    for step in range(50, 450, 50):
        decision = steady.check(probe, Clock(step, 1000), memory)
        model[0].set_solver(**decision.solvers["0"].describe())
        memory = decision.memory
    assert least <= model[0].steps <= least / 0.75 + 1


def test_the_error_of_a_linear_field_is_measured_and_predicted():
    """Euler on x' = x: (1 + 1/N)^N falls short of e by about e / 2N."""
    model = linear(1.0, 40)
    probe = probe_of(model, torch.ones(1, 1, dtype=torch.double), torch.zeros(1, 1), "regress")
    found = measure(probe, lambda n: {"0": make_solver(scheme="euler", steps=n)}, 40, of_outputs)
    assert probe.evaluations == 40 + 2 * 40 + 20
    assert found.observed == pytest.approx(1, abs=0.03)
    for steps in (20, 40, 80, 160):
        true = 1 - (1 + 1 / steps) ** steps / math.e
        assert found.at(steps) == pytest.approx(true, rel=0.06)
    assert found.needed(0.02) == pytest.approx(1 / (2 * 0.02), rel=0.15)
    assert found.needed(1e-9) == 160
    assert found.needed(1.0) == 20


@pytest.mark.parametrize(("scheme", "constant", "order"), [("euler", 0.5, 1), ("midpoint", 1 / 6, 2)])
@pytest.mark.parametrize("begin", [3, 200])
def test_steady_lands_on_the_number_of_steps_that_theory_predicts(scheme, constant, order, begin):
    """On x' = x the relative error is constant / N^order; the goal is half of what is allowed."""
    model = linear(1.0, begin, scheme)
    probe = probe_of(model, torch.ones(1, 1, dtype=torch.double), torch.zeros(1, 1), "regress")
    steady = Steady(SteadyControl(rough=0.01, examples=1, least_steps=1))
    memory = Memory(due=50, wait=50).model_dump()
    for step in range(50, 450, 50):
        decision = steady.check(probe, Clock(step, 1000), memory)
        model[0].set_solver(**decision.solvers["0"].describe())
        memory = decision.memory
    predicted = (constant / (0.5 * 0.01)) ** (1 / order)
    assert 0.8 * predicted <= model[0].steps <= predicted / 0.74 + 1
    assert decision.event == "keep"


class Noisy:
    """Stands in for measured errors: constant / N, times a noise that no step count can mend."""

    def __init__(self, constant, noise):
        self.constant, self.noise = constant, noise

    def at(self, steps):
        return self.constant * self.noise / steps

    def needed(self, goal):
        return max(1, math.ceil(self.constant * self.noise / goal))


@given(st.lists(st.floats(0.88, 1.12), min_size=60, max_size=60), st.floats(1, 40), st.integers(1, 300))
@settings(max_examples=60, deadline=None)
def test_steady_does_not_oscillate_on_stationary_noise(noise, constant, begin):
    """Errors measured with noise of 12 %: one way to the band, hardly a change after; late ones only tighten."""
    steady, total = Steady(SteadyControl()), 10_000
    memory, steps, history, checks = Memory(due=50, wait=50), begin, [], 0
    while memory.due < total:
        clock, found = Clock(memory.due, total), Noisy(constant, noise[checks % len(noise)])
        checks += 1
        allowed = steady.allowed(clock)
        passed = found.at(steps) <= ALARM * allowed
        after = steady.choose(clock, memory, steps, found.needed(AIM * allowed), passed)
        memory = steady.after(clock, memory, steps, after, passed)
        if after != steps:
            history.append((clock.step, after - steps))
        steps = after
    early = [change for step, change in history if step < total / 2]
    assert len(early) <= 3
    assert sum(a * b < 0 for a, b in pairwise(early)) <= 1
    late = [change for step, change in history if step >= total / 2]
    assert len(late) <= 1, "and one at the end"
    assert all(change > 0 for change in late)
    assert checks <= 30
    assert constant / steps <= 0.05


# What control may not touch


@pytest.mark.parametrize("name", sorted(CONTROLLERS))
def test_checks_change_no_buffer_no_random_stream_and_no_gradient(name):
    image = [change for change in KINDS[name] if change.startswith("control")]
    scheme = "bosh32" if name == "paper_tolerance" else "euler"
    config = tiny(f"model.options.scheme={scheme}", *image)
    trainer = Trainer(prepare(config, dataset_of(config, None)), Run(Path("nowhere"), None))
    lines = []
    trainer.log = lines.append
    trainer.take_step(trainer.order()[0], 0)
    trainer.progress.step = 2
    before = deepcopy(weights_of(trainer.model))
    gradients = [p.grad.clone() for p in trainer.model.parameters()]
    state, modes = torch.get_rng_state(), [m.training for m in trainer.model.modules()]
    batch = trainer.train_part.batch(np.arange(16), trainer.facts).to(trainer.device, torch.float32, True)
    trainer.steer(batch)
    assert len(lines) == 2
    assert lines[0]["event"] == "start"
    assert all(torch.equal(value, before[key]) for key, value in weights_of(trainer.model).items())
    assert all(torch.equal(p.grad, g) for p, g in zip(trainer.model.parameters(), gradients, strict=True))
    assert torch.equal(torch.get_rng_state(), state)
    assert [m.training for m in trainer.model.modules()] == modes


def test_a_controller_that_never_changes_the_solver_changes_no_bit(tmp_path):
    """A control that keeps one step trains what none trains."""
    still = 'control={"name": "paper", "every": 1, "first": 1.0, "threshold": 0.999}'
    one = ("model.options.steps=1", "training.epochs=3")
    plain, watched = train(tiny(*FLOW, *one), tmp_path / "a"), train(tiny(*FLOW, *one, still), tmp_path / "b")
    assert remains(plain.folder)[:2] == remains(watched.folder)[:2]
    assert {line["event"] for line in controlled(watched)} == {"start", "keep"}
    assert controlled(plain) == []


# Accounts


def test_evaluations_are_counted_in_every_run(tmp_path):
    lines = train(tiny(*FLOW, "training.epochs=2"), tmp_path / "run").metrics()
    epochs = [line for line in lines if line["kind"] == "epoch"]
    assert [line["evaluations"] for line in epochs] == [4 * line["step"] for line in epochs]
    assert all("checks" not in line for line in epochs)


@pytest.mark.parametrize("name", sorted(CONTROLLERS))
def test_evaluations_of_checks_are_counted_exactly(name, tmp_path, monkeypatch):
    """Against a count of the calls of the unit itself."""
    calls = [0]
    original = ad.units.MLP.forward

    def counting(self, x):
        calls[0] += 1
        return original(self, x)

    monkeypatch.setattr(ad.units.MLP, "forward", counting)
    monkeypatch.setattr("anydepth.fast.chains.found_program", lambda given, y: "calls are counted")
    config = tiny(*FLOW, *KINDS[name], "training.epochs=2", "data.validation=0", "evaluation.test=false")
    prepared = prepare(config, dataset_of(config, None))
    run = open_run(train(config, tmp_path / "made").folder)
    calls[0] = 0
    trainer = Trainer(prepared, run)
    trainer.log = lambda line: None
    trainer.save = lambda: None
    trainer.fit()
    progress = trainer.progress
    assert progress.evaluations == calls[0]
    last = [line for line in run.metrics() if line["kind"] == "epoch"][-1]
    assert last["evaluations"] == progress.evaluations
    assert {key: last[key] for key in ("check_evaluations", "checks", "failed_checks", "changes")} == {
        key: getattr(progress, key) for key in ("check_evaluations", "checks", "failed_checks", "changes")
    }
    assert 0 < progress.check_evaluations < progress.evaluations


@pytest.mark.parametrize("name", sorted(CONTROLLERS))
def test_the_lines_of_control_tell_what_the_model_became(name, tmp_path):
    run = train(tiny(*FLOW, *KINDS[name], "training.epochs=3", "training.ema=0.5"), tmp_path / "run")
    lines = controlled(run)
    assert lines[0]["event"] == "start"
    assert lines[-1]["solver"] == str(run.model().block.solver)
    changes = [b for a, b in pairwise(lines) if b["event"] in ("grow", "shrink")]
    last = [line for line in run.metrics() if line["kind"] == "epoch"][-1]
    assert last["solver"] == lines[-1]["solver"]
    assert last["changes"] == len(changes) > 0
    assert last["checks"] >= len(lines) - 1
    assert {"step", "evaluations", "passed", "measured", "rtol" if name == "paper_tolerance" else "steps"} <= set(
        lines[1]
    )


# Going on


@pytest.mark.parametrize("name", sorted(CONTROLLERS))
def test_killed_and_resumed_is_uninterrupted_to_the_bit(name, tmp_path):
    config = tiny(*FLOW, *KINDS[name], "training.epochs=3", "checkpoint_minutes=0", "training.ema=0.5")
    whole = remains(train(config, tmp_path / "whole").folder)
    for times in (4, 5):
        assert train_and_crash(tmp_path / "run", config, ".json renamed", times)
    train(config, tmp_path / "run", resume=True)
    assert remains(tmp_path / "run") == whole


def test_a_checkpoint_holds_the_grid_and_the_memory(tmp_path):
    config = tiny(*FLOW, STEADY, "training.epochs=3")
    run = train(config, tmp_path / "run")
    kept = read_checkpoint(manifests(run.folder)[0], run.record_hash()).contents
    assert kept.blocks["block"]["solver"]["steps"] == run.model().block.steps
    assert Memory(**kept.progress.memory).due > 0
    fresh = Trainer(prepare(config, dataset_of(config, None)), run)
    fresh.resume()
    assert fresh.model.block.grid == run.model().block.grid
    assert fresh.progress.evaluations == kept.progress.evaluations > 0


def test_a_memory_that_is_none_is_refused():
    for name, memory in (("steady", {"due": -1, "wait": 1}), ("steady", {}), ("paper", {"due": 1})):
        with pytest.raises(ValueError):
            make_controller(tiny(f"control.name={name}").control).recall(memory)


# What is refused


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ((PAPER, ADAPTIVE), "adaptive scheme 'bosh32'"),
        ((STEADY, ADAPTIVE), "adaptive scheme 'bosh32'"),
        ((TOLERANCE,), "euler x 4"),
        ((PAPER, "refine.at=[1]"), "refine.rule 'nested'"),
        ((TOLERANCE, ADAPTIVE, "refine.at=[1]"), "refine.rule=weights"),
    ],
)
def test_what_does_not_go_together_is_refused_before_training(changes, says, tmp_path):
    with pytest.raises(ConfigError, match=says):
        train(tiny(*FLOW, *changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["paper", "steady"])
def test_weights_may_grow_under_control(name, tmp_path):
    grown = ('refine={"at": [5], "unit": "step", "rule": "weights"}', "training.epochs=3")
    run = train(tiny(*FLOW, *KINDS[name], *grown), tmp_path / "run")
    lines = run.metrics()
    place = next(i for i, line in enumerate(lines) if line["kind"] == "refine")
    assert lines[place]["solver"]["from"] == lines[place]["solver"]["to"]
    assert run.model().block.size == 2


def test_every_controller_is_made_by_its_name():
    for name in CONTROLLERS:
        assert make_controller(tiny(f"control.name={name}").control) is not None
    assert make_controller(tiny().control) is None
    assert issubclass(Paper, Algorithm)
    assert Fraction(1) == make_solver(scheme="euler", steps=1).grid.times[-1]
    assert Error(None, False, 4, 1.0, 1.0).at(4) == math.inf
