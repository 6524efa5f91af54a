"""Measures: distances, orders, margins, shares, and crossings against exact arithmetic."""

from fractions import Fraction
from itertools import combinations, pairwise
from math import isnan, nan, pi

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from anydepth.errors import ShapeError
from anydepth.measure import cost
from anydepth.measure.agreement import wilson
from anydepth.measure.answers import margins, scores, shifts
from anydepth.measure.crossings import crossing_rate, meet, orientation
from anydepth.measure.distance import relative_distance
from anydepth.measure.observed_order import observed_order

# Distances


def test_distance_is_relative_and_the_same_in_one_batch_or_several():
    a, b = torch.tensor([[3.0, 4.0], [0.0, 0.0]]), torch.tensor([[3.0, 4.0], [0.0, 1.0]])
    assert relative_distance(a, b) == pytest.approx(1 / 5)
    assert relative_distance(list(a), list(b)) == pytest.approx(1 / 5)
    assert relative_distance(7 * a, 7 * b) == pytest.approx(1 / 5)
    assert relative_distance(a, a) == 0


def test_distance_from_nothing_and_from_what_is_not_finite():
    zero, half = torch.zeros(4), torch.full((4,), 0.5)
    assert relative_distance(zero, half) == 0.5
    assert relative_distance(half, torch.tensor([0.0, nan, 0.0, 0.0])) == float("inf")
    assert relative_distance(torch.tensor([]), torch.tensor([])) == 0


def test_distance_survives_low_precision():
    a = torch.full((1000,), 300.0, dtype=torch.float16)
    assert relative_distance(a, a * 2) == 1


@pytest.mark.parametrize("size", [1e-300, 1e-160, 1e160, 1e307])
def test_distance_neither_overflows_nor_vanishes(size):
    a, b = torch.tensor([3.0, 4.0], dtype=torch.float64), torch.tensor([3.0, 5.0], dtype=torch.float64)
    assert relative_distance(size * a, size * b) == pytest.approx(1 / 5)
    assert relative_distance([size * a, torch.tensor([])], [size * b, torch.tensor([])]) == pytest.approx(1 / 5)


# Orders


@given(st.floats(0.5, 6), st.floats(1e-6, 10), st.sampled_from([2, 3, 1.5]))
def test_order_of_exact_powers(order, first, factor):
    errors = [first * factor ** (-order * i) for i in range(4)]
    assert observed_order(errors, factor) == pytest.approx(order)
    neighbours = [a - b for a, b in pairwise(errors)]
    assert observed_order(neighbours, factor) == pytest.approx(order)


@pytest.mark.parametrize("errors", [[], [1.0], [0.0, 0.0], [1.0, 0.0], [1.0, nan], [float("inf"), 1.0]])
def test_no_order_without_two_errors(errors):
    assert isnan(observed_order(errors))


# Margins


@given(st.integers(1, 6), st.integers(0, 10_000), st.floats(0.01, 3))
def test_a_change_below_the_margin_changes_no_prediction(classes, seed, size):
    draw = torch.Generator().manual_seed(seed)
    before = torch.randn(50, classes, generator=draw)
    after = before + size * torch.randn(50, classes, generator=draw)
    safe = shifts(before, after) < margins(before)
    same = scores(before).argmax(-1) == scores(after).argmax(-1)
    assert bool(same[safe].all())


def test_margins_are_those_of_the_two_highest_scores():
    assert margins(torch.tensor([[1.0, 5.0, 3.0], [2.0, 2.0, 0.0]])).tolist() == [2, 0]
    assert margins(torch.tensor([[-3.0], [0.5]])).tolist() == [3, 0.5]
    assert margins(torch.tensor([-3.0, 0.5])).tolist() == [3, 0.5]


def test_scores_need_an_axis():
    with pytest.raises(ShapeError, match="without any axis"):
        scores(torch.tensor(1.0))


def test_a_common_change_of_all_scores_is_no_shift():
    outputs = torch.tensor([[1.0, 5.0, 3.0]])
    assert shifts(outputs, outputs + 7).item() == 0
    assert shifts(outputs, outputs + torch.tensor([1.0, -1.0, 0.0])).item() == 2


# Shares


@given(st.integers(0, 300), st.integers(1, 300))
def test_wilson_is_the_interval_of_scipy(successes, count):
    successes = min(successes, count)
    theirs = binomtest(successes, count).proportion_ci(method="wilson")
    assert wilson(successes, count) == pytest.approx((theirs.low, theirs.high), abs=1e-12)
    low, high = wilson(successes, count)
    assert 0 <= low <= successes / count <= high <= 1


def test_without_a_count_nothing_is_known():
    assert wilson(0, 0) == (0, 1)


# Crossings


def _turn(a, b, c):
    (ax, ay), (bx, by), (cx, cy) = ([Fraction(x) for x in point] for point in (a, b, c))
    value = (ax - cx) * (by - cy) - (ay - cy) * (bx - cx)
    return (value > 0) - (value < 0)


def _meet(a, b, c, d):
    return _turn(a, b, c) * _turn(a, b, d) < 0 and _turn(c, d, a) * _turn(c, d, b) < 0


def _rate(paths):
    """By every pair of segments, in fractions."""
    pieces = [list(pairwise(path)) for path in paths.swapaxes(0, 1).tolist()]
    pairs = list(combinations(pieces, 2))
    return sum(any(_meet(*p, *q) for p in one for q in other) for one, other in pairs) / len(pairs)


_coarse = st.integers(-4, 4).map(float)
_fine = st.floats(-4, 4, allow_subnormal=False).filter(lambda x: x == 0 or abs(x) > 1e-30)
_nearly = st.builds(lambda k, ulps: float(np.nextafter(k / 4, 9 * ulps)), st.integers(-4, 4), st.integers(-1, 1))


@settings(max_examples=100)
@given(st.lists(st.tuples(*[st.one_of(_coarse, _fine, _nearly)] * 8), min_size=1, max_size=20))
def test_segments_meet_as_fractions_say(segments):
    points = np.array(segments).reshape(-1, 4, 2)
    a, b, c, d = (points[:, i] for i in range(4))
    assert orientation(a, b, c).tolist() == [_turn(*three) for three in zip(a, b, c, strict=True)]
    assert meet(a, b, c, d).tolist() == [_meet(*four) for four in zip(a, b, c, d, strict=True)]


@settings(max_examples=50)
@given(st.integers(2, 6), st.integers(2, 7), st.integers(0, 10_000), st.booleans())
def test_crossing_rate_is_that_of_all_pairs_of_segments(points, times, seed, lattice):
    draw = np.random.default_rng(seed)
    shape = (times, points, 2)
    paths = draw.integers(-3, 4, shape).astype(float) if lattice else draw.normal(size=shape)
    assert crossing_rate(torch.from_numpy(paths)) == _rate(paths)


def test_crossing_rate_of_known_pictures():
    cross = torch.tensor([[[0.0, 0.0], [0.0, 1.0]], [[1.0, 1.0], [1.0, 0.0]]])
    parallel = torch.tensor([[[0.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [1.0, 1.0]]])
    one_line = torch.tensor([[[0.0, 0.0], [0.5, 0.5]], [[1.0, 1.0], [2.0, 2.0]]])
    into_a_sink = torch.tensor([[[0.0, 1.0], [1.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]])
    assert [crossing_rate(x) for x in (cross, parallel, one_line, into_a_sink)] == [1, 0, 0, 0]
    assert crossing_rate(torch.zeros(5, 1, 2)) == 0
    assert crossing_rate(torch.zeros(5, 300, 2)) == 0


def test_crossing_rate_counts_a_pair_once_at_any_size():
    times = torch.linspace(0, 6 * pi, 200, dtype=torch.float64)
    waves = torch.stack([torch.stack([times, torch.sin(times + shift)], -1) for shift in (0.0, 1.0, 2.0)], 1)
    above = waves[:, :1] + torch.tensor([0.0, 5.0])
    assert crossing_rate(torch.cat([waves, above], 1)) == 3 / 6
    for size in (1e-200, 1e200):
        assert crossing_rate(size * waves) == 1


def test_the_rotation_has_no_crossings_and_its_coarse_euler_steps_do():
    start = torch.randn(40, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    angles = torch.linspace(0, 1, 300, dtype=torch.float64)
    turn = (
        torch.stack([torch.stack([a.cos(), -a.sin()]) for a in angles]),
        torch.stack([torch.stack([a.sin(), a.cos()]) for a in angles]),
    )
    exact = torch.stack([start @ turn[0].T, start @ turn[1].T], -1).permute(1, 0, 2)
    assert crossing_rate(exact) == 0
    field = 6 * torch.stack([-start[:, 1], start[:, 0]], -1)
    assert crossing_rate(torch.stack([start, start + field])) > 0.05


def test_trajectories_must_lie_in_the_plane_and_broken_ones_are_left_out():
    with pytest.raises(ShapeError, match=r"\[time, points, 2\]"):
        crossing_rate(torch.zeros(3, 4, 3))
    broken = torch.tensor([[[0.0, 0.0], [0.0, 1.0], [nan, 0.0]], [[1.0, 1.0], [1.0, 0.0], [0.0, 0.0]]])
    assert crossing_rate(broken) == 1


# The machine


def test_a_machine_is_busy_when_others_want_our_cores(monkeypatch):
    """The work of all cores while we sleep, against what our threads leave over."""
    worked = iter([10.0, 10.0, 10.0, 10.5, 10.0, 10.2])
    monkeypatch.setattr(cost, "work_so_far", lambda: next(worked))
    monkeypatch.setattr(cost.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(cost.torch, "get_num_threads", lambda: 1)
    monkeypatch.setattr(cost, "sleep", lambda seconds: None)
    assert not cost.is_busy(0.25), "nobody works"
    assert cost.is_busy(0.25), "two cores at work"
    assert not cost.is_busy(0.25), "less than one, which our one thread leaves over"


def test_work_is_read_from_the_system_where_it_tells(tmp_path):
    text = "cpu  100 20 30 4000 50 6 4 0 0 0\ncpu0 1 2 3\n"
    (tmp_path / "stat").write_text(text)
    ticks = cost.os.sysconf("SC_CLK_TCK")
    assert cost.work_so_far(tmp_path / "stat") == pytest.approx(160 / ticks)
    assert cost.work_so_far(tmp_path / "missing") == 0
    (tmp_path / "other").write_text("something else")
    assert cost.work_so_far(tmp_path / "other") == 0
