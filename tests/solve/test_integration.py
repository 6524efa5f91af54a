"""Integration: measured orders, oracles, and trajectories."""

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp
from torchdiffeq import odeint

import anydepth as ad
from anydepth.depth.grids import through
from anydepth.depth.schemes import SCHEMES, fixed_schemes
from anydepth.errors import ConfigError
from small_units import Smooth


def smooth_block(scheme, steps, basis="legendre", size=4, scale=2):
    torch.manual_seed(1)
    return ad.ContinuousBlock(Smooth, basis, size, scheme=scheme, steps=steps, scale=scale).double()


def gap(a, b):
    return float((a - b).detach().norm())


def reference(block, x, times=(1.0,)):
    """scipy's solution of the same equation."""

    def field(t, y):
        theta = block.theta(float(t))
        value = torch.tanh(torch.from_numpy(y).view_as(x) @ theta["linear.weight"].T + theta["linear.bias"])
        return float(block.scale) * value.detach().numpy().ravel()

    solved = solve_ivp(field, (0, 1), x.numpy().ravel(), method="DOP853", rtol=1e-13, atol=1e-13, t_eval=times)
    return torch.from_numpy(solved.y.T.reshape(len(times), *x.shape))


@pytest.fixture(scope="module")
def solved():
    """A start, and where the equation of the smooth block leads from there."""
    torch.manual_seed(0)
    x = torch.randn(4, 3, dtype=torch.float64)
    return x, reference(smooth_block("rk4", 1), x)[-1]


@pytest.mark.parametrize("scheme", fixed_schemes())
def test_measured_order_with_weights_that_vary_over_depth(scheme, solved):
    x, exact = solved
    counts = (16, 32, 64)
    errors = [gap(smooth_block(scheme, steps)(x), exact) for steps in counts]
    slopes = np.diff(np.log(errors)) / np.diff(np.log(counts))
    assert -slopes[-1] == pytest.approx(SCHEMES[scheme].order, abs=0.15)


@pytest.mark.parametrize("scheme", ["midpoint", "rk4"])
@pytest.mark.parametrize("basis", ["constant", "linear", "discontinuous"])
def test_order_survives_knots_that_steps_land_on(basis, scheme):
    """Stages read their own side, so jumps on the grid cost no accuracy."""
    x = torch.randn(4, 3, dtype=torch.float64)
    counts, size = (8, 16, 32), 5 if basis == "linear" else 4
    fine = smooth_block("rk4", 512, basis, size)(x)
    errors = [gap(smooth_block(scheme, steps, basis, size)(x), fine) for steps in counts]
    slopes = np.diff(np.log(errors)) / np.diff(np.log(counts))
    assert -slopes[-1] == pytest.approx(SCHEMES[scheme].order, abs=0.35)


@pytest.mark.parametrize(("ours", "theirs"), [("euler", "euler"), ("midpoint", "midpoint"), ("rk4_38", "rk4")])
def test_torchdiffeq_takes_the_same_steps(ours, theirs):
    block = smooth_block(ours, 5, "constant", 1, scale=1)
    x = torch.randn(4, 3, dtype=torch.float64)
    theta = block.theta(0)
    times = torch.linspace(0, 1, 6, dtype=torch.float64)
    solved = odeint(
        lambda t, y: torch.tanh(y @ theta["linear.weight"].T + theta["linear.bias"]), x, times, method=theirs
    )
    torch.testing.assert_close(block.trajectory(x), solved, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("scheme", fixed_schemes())
def test_trajectory_at_grid_points_is_the_forward_pass(scheme):
    block = smooth_block(scheme, 4)
    x = torch.randn(4, 3, dtype=torch.float64)
    whole = block.trajectory(x)
    assert whole.shape == (5, 4, 3)
    assert torch.equal(whole[0], x)
    torch.testing.assert_close(whole[-1], block(x), rtol=1e-12, atol=1e-12)  # another path may round otherwise
    mixed = block.trajectory(x, [1, 0.3, 0.5])
    assert torch.equal(mixed[0], whole[-1])
    assert torch.equal(mixed[2], whole[2])


def test_trajectory_between_grid_points_follows_the_solution():
    block = smooth_block("rk4", 40)
    x = torch.randn(4, 3, dtype=torch.float64)
    times = [0.0, 0.11, 0.503, 0.99, 1.0]
    torch.testing.assert_close(block.trajectory(x, times), reference(block, x, times), rtol=1e-4, atol=1e-5)
    with pytest.raises(ConfigError):
        block.trajectory(x, [1.5])
    with pytest.raises(ConfigError):
        block.trajectory(x, [])


def test_non_uniform_grid_and_cut_step(solved):
    x, exact = solved
    for grid in (through([0, 0.05, 0.2, 0.5, 0.75, 1]), ad.by_step(0.3)):
        coarse, fine = (gap(smooth_block("rk4", g)(x), exact) for g in (grid.refined(16), grid.refined(32)))
        assert coarse / fine == pytest.approx(16, rel=0.5)


def test_steps_and_scale_change_the_solver_not_the_solution():
    x = torch.randn(4, 3, dtype=torch.float64)
    block = smooth_block("rk4", 64)
    fine = block(x)
    ad.set_solver(block, scheme="rk4_38", steps=50)
    torch.testing.assert_close(block(x), fine, rtol=1e-5, atol=1e-6)
    assert block.scale == 2
