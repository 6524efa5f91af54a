"""Datasets that are made: the laws they are made by."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad, solve_ivp

from anydepth.data.potentials import Wells, potential
from anydepth.data.source import SOURCES
from anydepth.data.sources.landscape import force, settle, step, true_field
from anydepth.data.sources.pendulum import GRAVITY, START, exact
from anydepth.data.sources.spheres import SHELLS
from anydepth.data.sources.wave import SPEEDS, signal, travel, velocity
from anydepth.errors import ConfigError, DataError

MADE = {
    "spheres": {"train": 200, "test": 100},
    "landscape": {"train": 200, "test": 100},
    "pendulum": {"duration": 1.0},
    "wave": {"train": 50, "test": 20},
}
RANDOM = np.random.default_rng(0)


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


# Landscape


def test_published_minima():
    np.testing.assert_allclose(potential(3, 1).minima[:, 0], [-0.850, 0.269, 1.839], atol=5e-4)
    assert potential(3, 1).energy(np.array([[2.0], [0.5], [-1.0], [-0.6], [1.6], [0.0]])) == pytest.approx(0)


LANDSCAPES = [(3, 1), (2, 1), (5, 1), (7, 1), (100, 1), (3, 2), (9, 2), (100, 2), (8, 3), (5, 10), (2, 100)]


@pytest.mark.parametrize(("minima", "dimensions"), LANDSCAPES)
def test_minima_are_minima_and_apart(minima, dimensions):
    landscape = potential(minima, dimensions)
    places = landscape.minima
    assert places.shape == (minima, dimensions)
    np.testing.assert_allclose(landscape.gradient(places), 0, atol=1e-10)
    gaps = np.linalg.norm(places[:, None] - places, axis=2) + np.diag(np.full(minima, np.inf))
    assert gaps.min() > 0.5  # the balls of rest, of radius 0.2, do not touch
    bottom = landscape.energy(places)
    assert (landscape.trap_energies > bottom + 0.005).all()
    # on the way to the nearest other minimum there is a barrier
    nearest = places[gaps.argmin(1)]
    ways = np.linspace(0, 1, 41)[:, None, None] * (nearest - places) + places
    heights = landscape.energy(ways.reshape(-1, dimensions)).reshape(41, minima)
    assert (heights.max(0) > np.maximum(heights[0], heights[-1]) + 0.01).all()


@pytest.mark.parametrize(("minima", "dimensions"), LANDSCAPES)
def test_gradient_is_the_derivative_of_the_energy(minima, dimensions):
    landscape, h = potential(minima, dimensions), 1e-5
    x = RANDOM.uniform(*landscape.box, (20, dimensions))
    for axis in range(min(dimensions, 3)):
        move = h * np.eye(dimensions)[axis]
        slope = (landscape.energy(x + move) - landscape.energy(x - move)) / (2 * h)
        np.testing.assert_allclose(landscape.gradient(x)[:, axis], slope, atol=1e-6)  # h^2 V''' / 6, and rounding / h


@pytest.mark.parametrize(("minima", "dimensions"), [(3, 1), (4, 1), (5, 2)])
def test_energy_never_grows(minima, dimensions):
    landscape = potential(minima, dimensions)
    x, v = RANDOM.uniform(*landscape.box, (200, dimensions)), RANDOM.uniform(-2, 2, (200, dimensions))
    before = np.inf
    for _ in range(300):
        energy = landscape.energy(x) + (v**2).sum(1) / 2
        assert (energy <= before + 1e-5).all()  # RK4 errs by 1e-6 or so a step
        before = energy
        x, v = step(landscape, x, v, 0.2)


def test_labels_agree_with_an_accurate_solver(make):
    """Followed for long by an adaptive solver, every particle ends at the minimum that is its label."""
    table = make("landscape", train=40).read("train")

    def right_side(_, flat):
        state = flat.reshape(-1, 2)
        return true_field(state).ravel()

    start = table.inputs.astype(np.float64)
    end = (
        solve_ivp(right_side, (0, 120), start.ravel(), method="DOP853", rtol=1e-10, atol=1e-10).y[:, -1].reshape(-1, 2)
    )
    np.testing.assert_allclose(end[:, 0], potential(3, 1).minima[table.targets, 0], atol=1e-3)
    np.testing.assert_allclose(end[:, 1], 0, atol=1e-3)


@pytest.mark.parametrize("options", [{}, {"minima": 2}, {"minima": 6}, {"minima": 4, "dimensions": 2}])
def test_every_minimum_is_reached(make, options):
    table = make("landscape", **options).read("train")
    shares = np.bincount(table.targets, minlength=len(table.labels)) / len(table)
    assert len(table) == 2000
    assert len(table.labels) == options.get("minima", 3)
    assert shares.min() > 0.2 / len(table.labels)
    assert table.inputs.shape[1] == 2 * options.get("dimensions", 1)


def test_starts_are_in_the_published_box(make):
    x, v = make("landscape").read("train").inputs.T
    assert (x.min(), x.max()) == pytest.approx((-1, 2), abs=0.02)
    assert (v.min(), v.max()) == pytest.approx((-2, 2), abs=0.02)


@pytest.mark.parametrize("friction", [0.02, 1.0, 10.0])
def test_weak_and_strong_friction_come_to_rest(make, friction):
    assert len(make("landscape", train=100, friction=friction).read("train")) == 100


def test_particles_that_do_not_rest_have_no_label():
    landscape = potential(3, 1)
    top = np.array([[-0.32948928]])  # on a barrier, about at rest: it takes long to fall
    found = settle(landscape, np.concatenate([top, [[np.nan]], [[1e6]]]), np.zeros((3, 1)), 0.2)
    assert found[1] == found[2] == -1


def test_true_field_is_newton_with_friction():
    state = RANDOM.uniform(-1, 1, (10, 4))
    field = true_field(state, minima=4, dimensions=2, friction=0.5)
    np.testing.assert_array_equal(field[:, :2], state[:, 2:])
    np.testing.assert_array_equal(field[:, 2:], force(Wells(4, 2), state[:, :2], state[:, 2:], 0.5))


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


# Wave


@pytest.mark.parametrize("speed", SPEEDS)
def test_travel_is_the_integral_of_the_speed(speed):
    for t in (0.0, 0.3, 1.0, 2.5):
        assert travel(speed, t) == pytest.approx(quad(lambda s: velocity(speed, s), 0, t)[0], abs=1e-10)


@pytest.mark.parametrize("speed", SPEEDS)
def test_wave_solves_its_equation(speed):
    """dz/dt by central differences, dz/dx by the Fourier derivative."""
    coefficients = RANDOM.standard_normal((5, 6)) + 1j * RANDOM.standard_normal((5, 6))
    x, t, h = np.arange(32) / 32, 0.7, 1e-5
    z, after, before = (signal(coefficients, x + travel(speed, s)) for s in (t, t + h, t - h))
    slope = np.fft.irfft(np.fft.rfft(z) * 2j * np.pi * np.arange(17), 32)
    change = (after - before) / (2 * h)
    np.testing.assert_allclose(change, velocity(speed, t) * slope, atol=1e-5)  # h^2 z''' / 6 is 1e-6


def test_wave_shapes_and_rest(make):
    one = make("wave", **MADE["wave"], points=32, times=[0.0]).read("train")
    assert one.inputs.shape == one.targets.shape == (50, 32)
    np.testing.assert_array_equal(one.inputs, one.targets)
    several = make("wave", **MADE["wave"], times=(0.0, 0.5, 1.0)).read("test")
    assert several.targets.shape == (20, 3, 64)
    np.testing.assert_array_equal(several.targets[:, 0], several.inputs)


def test_wave_is_carried_and_band_limited(make):
    table = make("wave", **MADE["wave"], points=40, speed="constant", times=(1.0,), modes=5).read("train")
    # half a circle in all: 20 of 40 points, to the left
    np.testing.assert_allclose(table.targets, np.roll(table.inputs, -20, axis=1), atol=1e-5)
    spectrum = np.abs(np.fft.rfft(table.inputs, axis=1))
    assert spectrum[:, [0, *range(6, 21)]].max() < 1e-4  # float32
    assert spectrum[:, 1:6].max() > 1


@pytest.mark.parametrize("name", MADE)
def test_no_validation_part(make, name):
    with pytest.raises(DataError, match=f"{name} has no validation part"):
        make(name).read("validation")
