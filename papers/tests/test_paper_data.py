"""Datasets of the papers that are made: the laws they are made by."""

import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp

from anydepth.data.source import SOURCES
from anydepth_papers.data.landscape import force, settle, step, true_field
from anydepth_papers.data.travelling_wave import SPEEDS, signal, travel, velocity
from anydepth_papers.studies.potentials import Wells, potential

MADE = {"wave": {"train": 50, "test": 20}}
RANDOM = np.random.default_rng(0)


@pytest.fixture
def make(tmp_path):
    """A made dataset; nothing is read from the (empty) data directory."""
    return lambda name, **options: SOURCES[name](tmp_path, **options)


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
