"""Grids: exact times, and the side that every stage reads."""

from fractions import Fraction as F

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anydepth.depth.bases.base import locate
from anydepth.depth.grids import Grid, by_step, through, uniform, unit_grid
from anydepth.depth.schemes import SCHEMES
from anydepth.depth.times import Instant, Side, exact
from anydepth.errors import ConfigError


@pytest.mark.parametrize("steps", [1, 7, 9, 12, 49, 98, 256])
def test_uniform_grid_is_exact(steps):
    grid = uniform(steps)
    assert grid.steps == steps
    assert grid.times[-1] == 1
    assert grid.is_uniform


@given(st.fractions(min_value=F(1, 500), max_value=1))
def test_given_step_with_the_last_one_cut(step):
    grid = by_step(step)
    widths = [b - a for a, b in zip(grid.times, grid.times[1:], strict=False)]
    assert grid.times[-1] == 1
    assert all(width == step for width in widths[:-1])
    assert 0 < widths[-1] <= step


@pytest.mark.parametrize(("step", "steps"), [(0.1, 10), (0.3, 4), (1.0, 1), (1 / 49, 49), ("1/3", 3)])
def test_step_sizes_as_people_write_them(step, steps):
    assert by_step(step).steps == steps


@given(st.integers(1, 2000), st.integers(1, 2000))
def test_floats_mean_the_simple_fraction_they_round(a, b):
    assert exact(a / b) == F(a, b)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_exact_never_moves_a_float(value):
    assert float(exact(value)) == value


@pytest.mark.parametrize("name", SCHEMES.names())
def test_sides_forward_and_backward(name):
    scheme = SCHEMES[name]
    for grid, ahead, behind in (
        (uniform(3), Side.RIGHT, Side.LEFT),
        (uniform(3).reversed(), Side.LEFT, Side.RIGHT),
    ):
        for step, (a, b) in zip(grid.stages(scheme), zip(grid.times, grid.times[1:], strict=False), strict=True):
            for c, instant in zip(scheme.c, step, strict=True):
                assert instant.time == a + c * (b - a)
                assert instant.side == (behind if c == 1 else ahead)


@pytest.mark.parametrize("counts", [(*range(1, 65), 127, 128), pytest.param(range(65, 257), marks=pytest.mark.slow)])
def test_every_stage_reads_its_own_side_for_all_steps_and_sizes(counts):
    """Every step count and every size to 64, against whole-number arithmetic; `make soak` goes on to 256 steps.

    Stage c = i/2 of step n sits at (2 n + i) / (2 steps). With size K, the cell ahead of it is
    floor(K (2 n + i) / (2 steps)); the cell behind is one less on a knot.
    """
    scheme = SCHEMES["rk4"]
    for steps in counts:
        stages = uniform(steps).stages(scheme)
        read = [(2 * n + i, stages[n][j]) for n in range(steps) for i, j in ((0, 0), (1, 1), (2, 3))]
        for size in range(1, 65):
            for halves, instant in read:
                cell, remainder = divmod(halves * size, 2 * steps)
                if remainder == 0 and instant.side == Side.LEFT:
                    cell -= 1
                assert locate(size, instant) == cell


@given(st.integers(1, 40), st.integers(0, 40), st.integers(1, 40), st.sampled_from(Side))
def test_equal_cells_and_knots_agree(size, top, bottom, side):
    instant = Instant(F(min(top, bottom), bottom), side)
    knots = tuple(F(i, size) for i in range(size + 1))
    assert locate(size, instant) == locate(knots, instant)


def test_refined_grid_bisects_and_describe_round_trips():
    grid = through([0, 0.25, 1])
    assert grid.refined().times == (0, F(1, 8), F(1, 4), F(5, 8), 1)
    for each in (grid, uniform(7), by_step(0.3)):
        assert unit_grid(each.describe()) == each


@pytest.mark.parametrize(
    "bad", [0, -1, 2.5, True, "three", None, [0, 0.5], [0, 0.5, 0.5, 1], [1, 0], [0], [0, float("nan"), 1]]
)
def test_bad_grids_are_refused(bad):
    with pytest.raises(ConfigError):
        unit_grid(bad)


def test_reversed_grid_integrates_backward():
    assert not uniform(4).reversed().is_forward
    assert Grid((F(1), F(0))).steps == 1
