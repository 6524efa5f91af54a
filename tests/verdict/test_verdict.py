"""Verdicts: right on models whose verdict is known, and laws of everything that is measured."""

import json
import re
from dataclasses import fields
from fractions import Fraction
from math import inf
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import anydepth as ad
from anydepth.data.table import IGNORED
from anydepth.depth.grids import uniform
from anydepth.errors import ConfigError, DataError, NumericalError, ShapeError
from anydepth.report.verdict_figure import draw_verdict
from anydepth.solve.adaptive import Cause, SolverError, Stats
from anydepth.solve.ladder import coarser, finer, raised
from anydepth.solve.solver import make_solver
from anydepth.verdict.row import SolverRow
from anydepth.verdict.rule import Limits, judged
from fields import Field, by_sign, drifting, growing, line, net, plane, pole, swinging, three_ways, turning


def classifier(seed=0, **block):
    """A random field in the plane, and three classes."""
    torch.manual_seed(seed)
    made = ad.ContinuousBlock(lambda: net(2), **{"size": 1, "scheme": "euler", "steps": 8, **block})
    return nn.Sequential(made, nn.Linear(2, 3)).double()


# Right verdicts


def test_a_single_score_is_judged_by_its_sign():
    labels = (line(0) > 0).long()
    flipped, slow = growing(-2.0), growing(-0.3)
    found = [ad.check(f, [(line(0), labels)], scheme="euler", steps=1) for f in (flipped, slow)]
    assert [verdict.proper for verdict in found] == [False, True]
    assert [verdict.table[0].accuracy for verdict in found] == [0, 100]


def test_ignored_positions_do_not_count():
    x = plane(0, 60).reshape(20, 3, 2)
    labels = torch.full((20, 3), IGNORED)
    labels[:, 0] = three_ways(x[:, 0]).argmax(-1)
    model = classifier(steps=1)
    verdict = ad.check(model, [(x, labels)])
    alone = ad.check(model, [(x[:, 0], labels[:, 0])])
    assert [row.agreement for row in verdict.table] == [row.agreement for row in alone.table]
    assert verdict.table[0].accuracy == alone.table[0].accuracy
    assert "20 predictions" in verdict.reason


def test_states_and_feature_maps_without_labels_are_numbers():
    torch.manual_seed(0)
    maps = nn.Sequential(nn.Conv2d(1, 2, 1), ad.ContinuousBlock(lambda: nn.Conv2d(2, 2, 1), steps=2)).double()
    assert ad.check(maps, [torch.randn(6, 1, 3, 3).double()]).table[0].agreement is None
    assert ad.check(classifier()[0], [plane(0, 20)]).table[0].agreement is None
    tagger, words = classifier(), plane(0, 60).reshape(20, 3, 2)
    guessed, told = ad.check(tagger, [words]), ad.check(tagger, [words], classes=True)
    assert guessed.table == told.table
    assert "classes=False" in guessed.reason
    assert "classes=False" not in told.reason


def test_labels_tell_whether_outputs_are_numbers():
    y = plane(0, 50)
    model = classifier()
    assert ad.check(model, [y]).table[0].agreement == 100
    assert ad.check(model, [(y, torch.zeros(50, 3))]).table[0].agreement is None
    assert ad.check(model, [(y, torch.zeros(50, dtype=torch.long))]).table[0].accuracy is not None
    assert ad.check(turning(0.1), [y], scheme="euler", steps=2).table[0].agreement is None
    assert ad.check(nn.Sequential(model[0], nn.Linear(2, 1).double()), [y]).table[0].agreement is None


def test_a_model_of_several_blocks_with_different_solvers():
    torch.manual_seed(0)
    blocks = [
        ad.ContinuousBlock(lambda: net(2), scheme="euler", steps=16),
        ad.ContinuousBlock(lambda: net(2), scheme="rk4", steps=[0, 0.3, 1]),
        ad.ContinuousBlock(lambda: net(2), scheme="bosh32", rtol=1e-3, atol=1e-3),
    ]
    verdict = ad.check(nn.Sequential(*blocks).double(), [plane(0, 50)], classes=False)
    first = verdict.table[1].solver
    assert first == "euler x 32, rk4 x 4, bosh32 rtol=0.0001 atol=0.0001"
    assert verdict.order is None
    assert verdict.step == pytest.approx(0.7)


class Cubic(nn.Module):
    """A pull to zero that steps of Euler overshoot from far away."""

    def __init__(self):
        super().__init__()
        self.pull = nn.Parameter(torch.tensor(60.0))

    def forward(self, y):
        return -self.pull * y**3


def test_a_trial_that_diverges_before_the_last_block_is_a_row():
    torch.manual_seed(0)
    solver = {"scheme": "euler", "steps": 32}
    blocks = [ad.ContinuousBlock(Cubic, **solver), ad.ContinuousBlock(lambda: nn.Linear(2, 2), **solver)]
    model, y = nn.Sequential(*blocks, nn.Linear(2, 3)).double(), plane(0, 40).clamp(-1, 1)
    broken = [row for row in ad.check(model, [y]).coarser if row.distance is None]
    assert broken
    assert all(row.failure == "the outputs are not finite" for row in broken)
    assert all(row.nfe == int(row.solver.split()[-1]) for row in broken)
    with pytest.raises(NumericalError, match="as the model is, are not finite; there is no verdict"):
        ad.check(model, [100 * y])


def test_states_of_several_tensors_and_other_spans():
    def oscillate(t, state):
        q, p = state
        return p, -q

    start = (plane(0, 40), plane(1, 40))
    verdict = ad.check(oscillate, [(start, None)], scheme="rk4", steps=12, span=(1, 4))
    assert verdict.proper
    assert verdict.order == pytest.approx(4, abs=0.2)
    assert verdict.step == pytest.approx(0.25)
    assert not ad.check(oscillate, [(start, None)], scheme="euler", steps=12, span=(1, 4)).proper


def test_a_field_may_differentiate_something_itself():
    def downhill(t, y):
        with torch.enable_grad():
            y = y.detach().requires_grad_()
            (slope,) = torch.autograd.grad((y**4).sum() / 40, y)
        return -slope

    assert ad.check(downhill, [plane(0)], scheme="rk4", steps=4).proper


# The rule


def _row(distance, agreement=None, low=None, high=None, safe=None, **more):
    return SolverRow("s", 1, agreement, distance, None, low, high, safe, **more)


def test_the_interval_decides_and_then_the_margins():
    trained, limits = _row(0.0, 100.0, 99.0, 100.0, 100.0), Limits(95.0)

    def proper(low, high, safe):
        return judged([trained, _row(0.3, (low + high) / 2, low, high, safe)], limits, True)

    assert proper(96, 99, 0)[0]
    assert not proper(80, 94, 100)[0]
    assert proper(80, 99, 60)[0]
    assert not proper(80, 99, 40)[0]
    assert "margins" in proper(80, 99, 40)[1]
    assert "margins" not in proper(96, 99, 0)[1]


def test_solvers_of_larger_error_do_not_count_and_broken_ones_do():
    trained, limits = _row(0.0), Limits(distance=0.05)
    wild = _row(0.5, counts=False)
    assert judged([trained, _row(0.01), wild], limits, False)[0]
    proper, reason = judged([trained, _row(0.01), _row(None, failure="the outputs are not finite")], limits, False)
    assert not proper
    assert "not finite" in reason
    assert "the change is not finite" in judged([trained, _row(None)], limits, False)[1]


def test_few_predictions_are_called_thin_evidence():
    verdict = ad.check(turning(0.25), [plane(0, 8)], scheme="euler", steps=8, head=three_ways)
    assert verdict.proper
    assert "thin: 8 predictions" in verdict.reason
    assert "thin: 8 examples" in ad.check(turning(0.25), [plane(0, 8)], scheme="euler", steps=8).reason
    assert "thin" not in ad.check(turning(0.25), [plane(0, 80)], scheme="euler", steps=8, head=three_ways).reason


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 1000))
def test_a_handful_of_examples_does_not_flip_a_clear_verdict(seed):
    for speed, proper in ((0.25, True), (6.0, False)):
        verdict = ad.check(turning(speed), [plane(seed, 5)], scheme="euler", steps=4, head=three_ways)
        assert verdict.proper is proper


def test_one_class_alone_tells_little():
    shifted = ad.check(turning(0.1), [plane(0, 50)], scheme="rk4", steps=2, head=lambda y: y @ y.new_zeros(2, 2) + 1)
    assert "one class" in shifted.reason


# What is measured


@pytest.mark.parametrize("scheme", ["euler", "midpoint", "heun", "ralston", "rk4", "rk4_38"])
def test_measured_order_is_that_of_the_scheme_on_smooth_fields(scheme):
    verdict = ad.check(swinging, [plane(0, 50)], scheme=scheme, steps=8)
    assert verdict.order == pytest.approx(ad.SCHEMES[scheme].order, abs=0.25)
    assert verdict.scheme_order == ad.SCHEMES[scheme].order
    assert ad.check(classifier(scheme=scheme), [plane(0, 50)]).order == pytest.approx(verdict.scheme_order, abs=0.3)


def test_order_is_not_read_off_rounding():
    assert ad.check(growing(0.0), [plane(0)], scheme="euler", steps=2).order is None
    single = ad.check(swinging, [plane(0).float()], scheme="rk4", steps=64)
    assert single.order is None
    assert single.proper


@pytest.mark.parametrize(("scheme", "power", "constant"), [("euler", 1, 1 / 2), ("midpoint", 2, 1 / 6)])
def test_critical_step_is_where_the_leading_error_meets_the_limit(scheme, power, constant):
    """|error| of the turn y' = iy is constant h^power, for small h."""
    limit = 0.02
    verdict = ad.check(turning(1.0), [plane(0)], distance=limit, scheme=scheme, steps=64)
    predicted = (limit / constant) ** (1 / power)
    assert predicted / 2.2 <= verdict.critical_step <= predicted * 1.1
    coarse = ad.check(turning(1.0), [plane(0)], distance=limit, scheme=scheme, steps=4)
    assert coarse.critical_step == verdict.critical_step
    assert coarse.proper is (verdict.critical_step >= 1 / 4)


def test_the_order_of_rk4_falls_where_weights_jump_between_its_steps():
    on, off = ([plane(0, 50)[:, :1]], {"scheme": "rk4"})
    kept = ad.check(drifting([1.0, 2.0, 0.5, 3.0], 1.0, steps=4, **off), on)
    missed = ad.check(drifting([1.0, 2.0, 0.5, 3.0], 1.0, steps=3, **off), on)
    assert max(row.distance for row in kept.table) < 1e-12
    assert max(row.distance for row in missed.table) > 0.01


def test_safe_predictions_never_outnumber_those_that_stay():
    for seed in range(3):
        for speed in (0.5, 2.0, 6.0):
            verdict = ad.check(turning(speed), [plane(seed)], scheme="euler", steps=4, head=three_ways)
            assert all(row.safe <= row.agreement for row in (*verdict.table, *verdict.coarser))
            assert verdict.margin.safe <= 100
            assert list(verdict.margin.margins) == sorted(verdict.margin.margins)


def test_predictions_without_any_change_are_safe_even_if_they_tie():
    verdict = ad.check(growing(0.0), [plane(0, 40)], scheme="euler", steps=2, head=lambda y: torch.zeros_like(y))
    assert verdict.margin.safe == 100
    assert verdict.proper


def test_huge_outputs_are_compared():
    verdict = ad.check(turning(6.0), [1e200 * plane(0, 40)], scheme="euler", steps=4)
    assert not verdict.proper
    assert verdict.table[1].distance == pytest.approx(
        ad.check(turning(6.0), [plane(0, 40)], scheme="euler", steps=4).table[1].distance
    )


def test_crossings_of_planar_autonomous_states_only():
    y = plane(0, 60)
    assert ad.check(turning(6.0), [y], scheme="euler", steps=4).crossing_rate > 0.01
    assert ad.check(turning(6.0), [y], scheme="rk4", steps=64).crossing_rate < 0.002
    assert ad.check(turning(1.0), [y], scheme="dopri54", rtol=1e-6, atol=1e-6).crossing_rate is None
    assert ad.check(classifier(scheme="bosh32", steps=None, rtol=1e-2, atol=1e-2), [y]).crossing_rate is None
    assert ad.check(lambda t, y: t * y, [y], scheme="euler", steps=4).crossing_rate is None
    assert ad.check(growing(-0.1), [line(0, 60)], scheme="euler", steps=4).crossing_rate is None
    assert ad.check(classifier(), [y]).crossing_rate is not None
    assert ad.check(classifier(size=2), [y]).crossing_rate is None


def test_crossings_are_those_of_the_first_block_on_a_planar_state():
    torch.manual_seed(0)
    solver = {"scheme": "euler", "steps": 2}
    wide = ad.ContinuousBlock(lambda: nn.Linear(3, 3), **solver)
    model = nn.Sequential(wide, nn.Linear(3, 2), ad.ContinuousBlock(lambda: nn.Linear(2, 2), **solver)).double()
    with torch.no_grad():
        model[2].stored("weight").copy_(torch.tensor([[[0.0, -6.0], [6.0, 0.0]]]))
    y = torch.cat([plane(0, 40), plane(1, 40)[:, :1]], 1)
    assert ad.check(model, [y], False).crossing_rate > 0.01


def test_a_block_and_the_same_field_outside_get_the_same_verdict():
    model, y = classifier(steps=3), plane(0, 100)
    block, head = model
    rows = {name: stored[0] for name, stored in ((n, block.stored(n)) for n in block.lifted)}
    field = net(2).double()
    field.load_state_dict(rows)
    inside = ad.check(model, [y])
    outside = ad.check(lambda t, y: field(y), [y], scheme="euler", steps=3, head=head)
    assert inside.reason == outside.reason
    assert [row.distance for row in inside.table] == pytest.approx([row.distance for row in outside.table], abs=1e-12)
    assert [row.nfe for row in inside.table] == [row.nfe for row in outside.table]
    assert inside.crossing_rate == outside.crossing_rate
    assert inside.critical_step == outside.critical_step


# What is tried


@given(st.sampled_from(["euler", "midpoint", "rk4"]), st.integers(1, 12), st.integers(1, 3))
def test_finer_grids_keep_every_point_and_coarser_ones_add_none(scheme, steps, level):
    solver = make_solver(scheme=scheme, steps=steps)
    fine, coarse = finer(solver, level), coarser(solver)
    assert set(solver.grid.times) <= set(fine.grid.times)
    assert fine.grid.steps == steps * 2**level
    assert {0, 1} <= set(coarse.grid.times) <= set(solver.grid.times)
    assert coarse.grid.steps == -(-steps // 2)
    assert raised(solver, "rk4").grid == solver.grid
    assert coarser(finer(solver, 1)) == solver


def test_adaptive_solvers_get_tighter_and_stay_adaptive():
    solver = make_solver(scheme="bosh32", rtol=1e-2, atol=1e-3)
    tight = finer(solver, 2)
    assert tight.tolerance.rtol == pytest.approx(1e-4)
    assert tight.tolerance.atol == pytest.approx(1e-5)
    assert raised(solver, "rk4") == coarser(solver) == solver
    assert make_solver(scheme="euler", steps=4).grid == uniform(4)


def test_tolerances_stop_at_the_precision():
    solver = make_solver(scheme="dopri54", rtol=1e-4, atol=1e-6)
    assert finer(solver, 3, floor=1e-5).tolerance.rtol == pytest.approx(1e-5)
    assert finer(solver, 3, floor=1e-5).tolerance.atol == pytest.approx(1e-7)
    assert finer(solver, 3, floor=1e-3) == solver
    with pytest.raises(NumericalError, match="no solver finer"):
        ad.check(turning(1.0), [plane(0, 50).float()], scheme="dopri54", rtol=1e-6, atol=1e-6)


class Failing:
    """A head that is called in vain after so many passes."""

    def __init__(self, cause, after):
        self.cause, self.left = cause, after

    def __call__(self, y):
        self.left -= 1
        if self.left < 0:
            raise SolverError("odeint", Fraction(1, 2), self.cause, Stats())
        return y


def test_solvers_that_give_up():
    settings = {"scheme": "bosh32", "rtol": 0.1, "atol": 0.1}
    tight = ad.check(turning(0.1), [plane(0)], False, head=Failing(Cause.UNDERFLOW, 2), **settings)
    assert tight.proper
    assert len(tight.table) == 2
    for cause, says in ((Cause.NON_FINITE, "not finite"), (Cause.STEP_CAP, "does not finish")):
        verdict = ad.check(turning(0.1), [plane(0)], False, head=Failing(cause, 2), **settings)
        assert not verdict.proper
        assert says in verdict.reason


# What is left alone, and what is refused


class Odd(nn.Module):
    """Counts its calls, drops out, and has statistics."""

    def __init__(self):
        super().__init__()
        self.norm, self.drop, self.linear, self.calls = nn.BatchNorm1d(2), nn.Dropout(), nn.Linear(2, 2), 0

    def forward(self, t, y):
        self.calls += 1
        return torch.tanh(self.linear(self.drop(self.norm(y))))


def _bytes(module):
    return {name: value.numpy().tobytes() for name, value in module.state_dict().items()}


def test_check_leaves_the_model_as_it_is():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.BatchNorm1d(2),
        ad.ContinuousBlock(lambda: nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 2)), size=2, scheme="euler"),
        nn.Dropout(),
    )
    model.train()
    model[0].eval()
    model(plane(0).float())
    before, solver, stats = _bytes(model), model[1].solver, model[1].stats
    modes = [module.training for module in model.modules()]
    ad.check(model, [plane(0).float()])
    assert _bytes(model) == before
    assert (model[1].solver, model[1].stats) == (solver, stats)
    assert [module.training for module in model.modules()] == modes
    assert all(parameter.grad is None for parameter in model.parameters())


def test_check_leaves_a_field_as_it_is_and_gives_the_same_verdict_twice():
    torch.manual_seed(0)
    field = Odd()
    before = _bytes(field)
    found = [ad.check(field, [plane(0).float()], scheme="heun", steps=3) for _ in range(2)]
    assert found[0] == found[1]
    assert _bytes(field) == before
    assert field.calls == 0
    assert field.training


def test_batches_come_in_many_forms():
    y, labels = plane(0, 60), three_ways(plane(0, 60)).argmax(-1)
    model = classifier()
    whole = ad.check(model, y)
    assert ad.check(model, [y[:25], y[25:]]).table[1].agreement == whole.table[1].agreement
    assert ad.check(model, [[y]]) == whole
    assert ad.check(model, (batch for batch in [y])) == whole
    loader = DataLoader(TensorDataset(y, labels), batch_size=25)
    assert ad.check(model, loader).table[0].accuracy == ad.check(model, [(y, labels)]).table[0].accuracy


def test_what_cannot_be_judged_is_refused_in_one_line():
    y = plane(0, 10)
    with pytest.raises(ConfigError, match=r"scheme='euler', steps=8"):
        ad.check(nn.Linear(2, 2), [y])
    with pytest.raises(ConfigError, match="own solvers, got steps"):
        ad.check(classifier(), [y], steps=3)
    with pytest.raises(ConfigError, match="got str"):
        ad.check("model", [y])  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigError, match="a batch must be"):
        ad.check(classifier(), [{1, 2}])
    with pytest.raises(ConfigError, match="cannot be called with a batch of 'x'"):
        ad.check(classifier(), [{"x": y}])
    with pytest.raises(DataError, match="no batches"):
        ad.check(classifier(), [])
    with pytest.raises(ShapeError, match="do not fit outputs"):
        ad.check(classifier(), [(y, torch.zeros(7, dtype=torch.long))])
    with pytest.raises(NumericalError, match="there is no verdict"):
        ad.check(growing(inf), [y], scheme="euler", steps=2)
    with pytest.raises(ConfigError, match="needs a number of steps"):
        ad.check(growing(1.0), [y], scheme="euler")
    with pytest.raises(ShapeError, match="one tensor"):
        ad.check(growing(1.0), [y], scheme="euler", steps=2, head=lambda y: (y, y))


def test_nothing_to_judge_is_refused():
    y, model = plane(0, 10), classifier()
    with pytest.raises(DataError, match="nothing to judge: every label is -100"):
        ad.check(model, [(y, torch.full((10,), IGNORED))])
    for classes in (True, False, None):
        with pytest.raises(DataError, match="no batches but empty ones"):
            ad.check(model, [y[:0]], classes)
    with pytest.raises(DataError, match="the outputs are empty"):
        ad.check(growing(0.1), [y], False, scheme="euler", steps=2, head=lambda y: y[:0])
    labels = torch.zeros(10, dtype=torch.long)
    assert ad.check(model, [(y, labels), (y[:0], labels[:0])]) == ad.check(model, [(y, labels)])


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        ({"agreement": 0.95}, "per cent.*did you mean 95"),
        ({"agreement": 0}, "per cent"),
        ({"agreement": 101}, "at most 100"),
        ({"agreement": float("nan")}, "at most 100"),
        ({"distance": 0}, "above 0, got 0"),
        ({"distance": -0.1}, "above 0"),
    ],
)
def test_limits_that_mean_nothing_are_refused(limits, says):
    with pytest.raises(ConfigError, match=says):
        ad.check(classifier(), [plane(0, 10)], **limits)


def test_outputs_and_fields_of_a_wrong_kind_are_refused():
    y, solver = plane(0, 10), {"scheme": "euler", "steps": 2}
    with pytest.raises(ShapeError, match="got int64; return the scores"):
        ad.check(growing(0.1), [y], head=lambda y: y.argmax(-1), **solver)
    with pytest.raises(ShapeError, match="without any axis"):
        ad.check(growing(0.1), [y], True, head=lambda y: y.sum(), **solver)
    assert ad.check(growing(0.1), [y], False, head=lambda y: y.sum(), **solver).table[0].agreement is None
    with pytest.raises(ConfigError, match=r"called with \(t, y\), got Linear"):
        ad.check(nn.Linear(2, 2).double(), [y], **solver)
    with pytest.raises(ConfigError, match=r"lambda t, y: net\(y\)"):
        ad.check(lambda y: y, [y], **solver)  # pyright: ignore[reportArgumentType]


def test_a_pair_that_is_no_list_of_batches_is_refused():
    y, labels = plane(0, 10), torch.zeros(10, dtype=torch.long)
    for pair in ((y, labels), [y, labels], (y, y), [y, y[:, 0]]):
        with pytest.raises(ConfigError, match=r"wrap the pair: \[\(x, labels\)\]"):
            ad.check(classifier(), pair)


# Telling


def test_a_verdict_is_json_even_of_broken_models():
    for verdict in (
        ad.check(classifier(), [plane(0, 20)]),
        ad.check(Field(pole), [3 * line(0).abs()], scheme="euler", steps=3, head=by_sign),
        ad.check(turning(1.0), [plane(0, 20)], scheme="dopri54", rtol=1e-2, atol=1e-2),
    ):
        told = json.loads(json.dumps(verdict.describe(), allow_nan=False))
        assert told["proper"] == verdict.proper
        assert len(told["table"]) == len(verdict.table)


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_a_verdict_is_drawn_the_same_every_time(kind, tmp_path):
    verdict = ad.check(turning(2.0), [plane(0, 40)], scheme="euler", steps=4, head=three_ways)
    for name in ("a", "b"):
        draw_verdict(verdict, tmp_path / f"{name}.{kind}")
    assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()


def test_every_kind_of_verdict_can_be_drawn(tmp_path):
    verdicts = [
        ad.check(Field(pole), [3 * line(0).abs()], scheme="euler", steps=3, head=by_sign),
        ad.check(turning(2.0), [plane(0, 40)], scheme="dopri54", rtol=1e-2, atol=1e-2),
        ad.check(growing(0.0), [plane(0, 40)], scheme="euler", steps=4, head=by_sign),
    ]
    for i, verdict in enumerate(verdicts):
        draw_verdict(verdict, tmp_path / f"{i}.png")
        assert (tmp_path / f"{i}.png").stat().st_size > 1000
    with pytest.raises(ConfigError, match=r"\.png, \.svg, \.pdf"):
        draw_verdict(verdicts[0], tmp_path / "x.gif")


def test_the_code_in_the_docs_runs():
    page = (Path(__file__).parents[2] / "docs" / "check.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(compile(code, "docs/check.md", "exec"), {"print": lambda *_: None})  # noqa: S102


def test_every_field_of_a_verdict_is_in_the_docs():
    page = (Path(__file__).parents[2] / "docs" / "check.md").read_text()
    for field in (*fields(ad.Verdict), *fields(SolverRow)):
        assert f"`{field.name}`" in page
