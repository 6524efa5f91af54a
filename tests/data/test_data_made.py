"""Datasets that are made: the laws they are made by."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from anydepth.data.source import SOURCES
from anydepth.data.sources.pendulum import GRAVITY, START, exact
from anydepth.data.sources.spheres import SHELLS
from anydepth.errors import ConfigError, DataError

MADE = {
    "spheres": {"train": 200, "test": 100},
    "landscape": {"train": 200, "test": 100},
    "pendulum": {"duration": 1.0},
    "wave": {"train": 50, "test": 20},
}
MADE = {name: options for name, options in MADE.items() if name in SOURCES}  # some are of plugins


@pytest.fixture
def make(tmp_path):
    """A made dataset; nothing is read from the (empty) data directory."""
    return lambda name, **options: SOURCES[name](tmp_path, **options)


# Laws over all of them


@pytest.mark.parametrize("name", MADE)
def test_parts_are_fixed_and_disjoint(make, name):
    train, test = (make(name, **MADE[name]).read(part) for part in ("train", "test"))
    again = make(name, **MADE[name]).read("train")
    np.testing.assert_array_equal(train.inputs, again.inputs)
    np.testing.assert_array_equal(train.targets, again.targets)
    assert not {x.tobytes() for x in train.inputs} & {x.tobytes() for x in test.inputs}


@pytest.mark.parametrize("name", ["spheres", "landscape", "wave"])
def test_seed_and_size_are_options(make, name):
    one, other = (make(name, **MADE[name], seed=seed).read("train") for seed in (0, 1))
    assert one.inputs.shape == other.inputs.shape
    assert (one.inputs != other.inputs).any(axis=1).all()
    assert len(make(name, train=7, test=5).read("train")) == 7
    assert len(make(name, train=7, test=5).read("test")) == 5


@pytest.mark.parametrize("name", MADE)
def test_tables_are_finite_float32(make, name):
    table = make(name, **MADE[name]).read("train")
    assert table.inputs.dtype == np.float32
    assert table.targets.dtype == (np.int64 if table.labels else np.float32)
    assert np.isfinite(table.inputs).all()
    assert np.isfinite(table.targets).all()
    assert table.facts().shape == table.inputs.shape[1:]


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("spheres", "d", 0),
        ("spheres", "d", 2.0),
        ("spheres", "d", True),
        ("spheres", "train", -1),
        ("spheres", "test", 10**9),
        ("spheres", "seed", -1),
        ("spheres", "seed", "x"),
        ("landscape", "minima", 1),
        ("landscape", "dimensions", 0),
        ("landscape", "friction", 0.0),
        ("landscape", "friction", float("nan")),
        ("pendulum", "dt", 0),
        ("pendulum", "dt", float("inf")),
        ("pendulum", "duration", -1.0),
        ("wave", "points", 3),
        ("wave", "modes", 32),
        ("wave", "modes", 0),
        ("wave", "speed", "sin"),
        ("wave", "speed", 1),
        ("wave", "times", ()),
        ("wave", "times", 1.0),
        ("wave", "times", "12"),
        ("wave", "times", (1.0, -1.0)),
        ("wave", "times", (1.0, None)),
    ],
)
def test_bad_options_are_refused_in_one_line(make, name, option, value):
    with pytest.raises(ConfigError, match=rf"dataset '{name}': option {option} is .*expected"):
        make(name, **{option: value})


def test_pendulum_needs_a_step_in_its_duration(make):
    with pytest.raises(ConfigError, match="holds 0 steps"):
        make("pendulum", dt=1.0, duration=0.5)


# Spheres


@pytest.mark.parametrize("d", [1, 2, 3, 10, 900])
def test_points_lie_in_their_shells(make, d):
    table = make("spheres", d=d, train=2000).read("train")
    radius = np.linalg.norm(table.inputs.astype(np.float64), axis=1)
    # storing in float32 moves a radius by 1e-7 or so
    inside = [(a - 1e-6 <= radius) & (radius <= b + 1e-6) for a, b in SHELLS]
    assert [int(shell.sum()) for shell in inside] == [500, 1000, 500]
    np.testing.assert_array_equal(inside[1], table.targets == table.labels.index("middle"))


def test_radius_and_direction_follow_their_law(make):
    """With 20000 points, means of uniform numbers are within 0.01 of their expectation (4 sigma)."""
    d, table = 2, make("spheres", train=20000).read("train")
    points = table.inputs[table.targets == 1].astype(np.float64)
    a, b = SHELLS[1]
    u = ((np.linalg.norm(points, axis=1) - a) / (b - a)).clip(0, 1) ** d
    angle = np.arctan2(points[:, 1], points[:, 0]) / (2 * np.pi) % 1
    for uniform in (u, angle):
        assert uniform.mean() == pytest.approx(1 / 2, abs=0.012)
        assert (uniform**2).mean() == pytest.approx(1 / 3, abs=0.012)


@given(count=st.integers(1, 60))
def test_shares_for_any_count(tmp_path_factory, count):
    table = SOURCES["spheres"](tmp_path_factory.getbasetemp(), train=count).read("train")
    assert len(table) == count
    assert (table.targets == 1).sum() == count // 2


# Pendulum


def test_pendulum_closed_form_against_a_solver():
    times = np.linspace(0, 20, 401)
    solution = solve_ivp(
        lambda _, y: (y[1], -GRAVITY * np.sin(y[0])), (0, 20), (START, 0.0), "DOP853", times, rtol=1e-13, atol=1e-13
    )
    angle, speed = exact(times)
    np.testing.assert_allclose(angle, solution.y[0], atol=1e-8)
    np.testing.assert_allclose(speed, solution.y[1], atol=1e-8)


def test_pendulum_starts_at_rest_and_keeps_its_energy():
    angle, speed = exact(np.linspace(0, 100, 5001))
    assert (angle[0], speed[0]) == pytest.approx((START, 0))
    np.testing.assert_allclose(speed**2 / 2 - GRAVITY * np.cos(angle), -GRAVITY * np.cos(START), rtol=1e-12)


def test_pendulum_pairs(make):
    source = make("pendulum", dt=0.02, duration=3.0)
    train, test = source.read("train"), source.read("test")
    assert len(train) == len(test) == 150
    np.testing.assert_array_equal(train.inputs[1:], train.targets[:-1])
    np.testing.assert_array_equal(train.targets[-1], test.inputs[0])
    expected = np.stack(exact(3.0 + 0.02 * np.arange(1, 151)), axis=1).astype(np.float32)
    np.testing.assert_array_equal(test.targets, expected)
    assert train.facts().task == "regress"
    assert len(make("pendulum").read("train")) == 1000


@pytest.mark.parametrize("name", MADE)
def test_no_validation_part(make, name):
    with pytest.raises(DataError, match=f"{name} has no validation part"):
        make(name).read("validation")
