"""Every example with its own steps: as if it were alone."""

import numpy as np
import pytest
import torch

import anydepth as ad
from anydepth.depth.schemes import SCHEMES
from anydepth.depth.times import exact
from anydepth.solve.adaptive import Adaptive, Tolerance
from anydepth.solve.odeint import FunctionField, FunctionRows
from anydepth.solve.per_example import PerExample

ADAPTIVE = [name for name in SCHEMES if SCHEMES[name].is_adaptive]
DOUBLE = torch.float64


def pendulum(t, y, rate=None):
    speed = torch.ones(len(y), 1, dtype=y.dtype) if rate is None else rate
    time = t.reshape(-1, 1)
    return torch.stack([y[:, 1], -(speed[:, 0] ** 2) * torch.sin(y[:, 0])], 1) + 0.1 * torch.sin(3 * time)


def some(count=5, seed=0):
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(count, 2, generator=draw, dtype=DOUBLE), 1 + 9 * torch.rand(
        count, 1, generator=draw, dtype=DOUBLE
    )


@pytest.mark.parametrize("method", ADAPTIVE)
@pytest.mark.parametrize("times", [(0.0, 1.0), (0.0, 0.3, 2.0), (1.0, 0.25, -0.5)])
def test_answers_and_evaluations_are_those_of_each_alone(method, times):
    y0, rate = some(3)
    limits = (1e-3, 1e-4) if SCHEMES[method].order < 3 else (1e-5, 1e-7)
    tolerance = Tolerance(*limits, per_example=True)

    marks, jumps = tuple(map(exact, times)), (exact(0.5),)
    together = FunctionField(pendulum, False, (y0,), jumps, (rate,))
    run = PerExample(FunctionRows(together), SCHEMES[method], tolerance, "odeint")
    found = torch.stack([state[0] for state in run.states((y0,), marks)])
    for i in range(len(y0)):
        one = FunctionField(pendulum, False, (y0[i : i + 1],), jumps, (rate[i : i + 1],))
        alone = Adaptive(one, SCHEMES[method], Tolerance(*limits), "odeint")
        wanted = torch.stack([state[0] for state in alone.states((y0[i : i + 1],), marks)])
        torch.testing.assert_close(found[:, i : i + 1], wanted, rtol=1e-9, atol=1e-11)
        assert int(run.spent.evaluations[i]) == alone.stats.evaluations
        assert int(run.spent.accepted[i]) == alone.stats.accepted
        assert int(run.spent.rejected[i]) == alone.stats.rejected


def test_a_stiff_example_does_not_slow_the_others():
    rates = torch.ones(128, 1, dtype=DOUBLE)
    rates[7] = 300.0
    y0, called = torch.ones(128, 1, dtype=DOUBLE), []

    def decay(t, y, rate):
        called.append(len(y))
        return -rate * (y - torch.cos(t.reshape(-1, 1)))

    together = ad.odeint(decay, y0, (0, 1), rtol=1e-5, atol=1e-7, per_example=True, args=(rates,))
    work = sum(called)
    called.clear()
    ad.odeint(decay, y0[:1], (0, 1), rtol=1e-5, atol=1e-7, per_example=True, args=(rates[:1],))
    gentle = sum(called)
    called.clear()
    ad.odeint(decay, y0[:1], (0, 1), rtol=1e-5, atol=1e-7, per_example=True, args=(rates[7:8],))
    stiff = sum(called)
    assert work == 127 * gentle + stiff
    assert stiff > 10 * gentle
    exact = ad.odeint(decay, y0, (0, 1), rtol=1e-11, atol=1e-12, args=(rates,))
    assert (together - exact).abs().max() < 1e-3


def test_gradients():
    y0, rate = some(2)

    def solve(y, r):
        return ad.odeint(pendulum, y, (0, 0.05), rtol=1e-9, atol=1e-11, per_example=True, args=(r,))

    assert torch.autograd.gradcheck(solve, (y0.requires_grad_(), rate.requires_grad_()), eps=1e-4, atol=1e-5)


@pytest.mark.parametrize("method", ["heun21", "bosh32", "dopri54"])
def test_gradients_are_those_of_each_alone(method):
    y0, rate = (part.requires_grad_() for part in some(3))
    settings = {"method": method, "rtol": 1e-3, "atol": 1e-4}
    together = ad.odeint(pendulum, y0, (0, 0.3, 1), **settings, per_example=True, args=(rate,))
    found = torch.autograd.grad(together.square().sum(), (y0, rate))
    alone = [ad.odeint(pendulum, y0[i : i + 1], (0, 0.3, 1), **settings, args=(rate[i : i + 1],)) for i in range(3)]
    wanted = torch.autograd.grad(torch.cat(alone, 1).square().sum(), (y0, rate))
    for mine, its in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, its, rtol=1e-9, atol=1e-11)


def test_a_trial_that_is_not_finite_spoils_no_gradient():
    """The first trial of the second example leaves the domain of the root."""
    y0 = torch.tensor([[1.0], [1e-3]], dtype=DOUBLE, requires_grad=True)

    def falling(t, y):
        return -torch.sqrt(y) - 0.0 * t.reshape(-1, 1)

    found = ad.odeint(falling, y0, (0, 0.06), rtol=1e-6, atol=1e-8, per_example=True)
    (slope,) = torch.autograd.grad(found[-1].sum(), y0)
    root = y0.detach().sqrt()
    torch.testing.assert_close(found[-1].detach(), (root - 0.03) ** 2, rtol=1e-4, atol=1e-7)
    torch.testing.assert_close(slope, 1 - 0.03 / root, rtol=1e-2, atol=1e-3)


def test_tuples_and_breakpoints():
    """One part jumps at 1/3; both sides are read where they should be."""
    y0 = (torch.zeros(4, 1, dtype=DOUBLE), torch.ones(4, 3, dtype=DOUBLE) * torch.arange(1, 5, dtype=DOUBLE)[:, None])

    def f(t, y):
        jump = torch.where(t < 1 / 3, 1.0, -2.0).double().reshape(-1, 1)
        return jump * torch.ones_like(y[0]), -y[1]

    x, z = ad.odeint(f, y0, (0, 1), rtol=1e-8, atol=1e-10, breakpoints=("1/3",), per_example=True)
    torch.testing.assert_close(x[-1], torch.full_like(x[-1], 1 / 3 - 4 / 3), atol=1e-9, rtol=0)
    torch.testing.assert_close(z[-1], y0[1] * np.exp(-1.0), atol=1e-7, rtol=0)


def test_refusals():
    y0, rate = some()
    with pytest.raises(ad.ConfigError, match="adaptive method, got 'rk4'"):
        ad.odeint(pendulum, y0, (0, 1), method="rk4", per_example=True)
    with pytest.raises(ad.ConfigError, match="backprop"):
        ad.odeint(pendulum, y0, (0, 1), per_example=True, gradient="checkpoint")
    with pytest.raises(ad.ConfigError, match="a row for each of the 5 examples"):
        ad.odeint(pendulum, y0, (0, 1), per_example=True, args=(rate[:3],))
    with pytest.raises(ad.ShapeError, match="first axis"):
        ad.odeint(lambda t, y: y, torch.tensor(1.0), (0, 1), per_example=True)
    with pytest.raises(ad.SolverError, match=r"example 3, stopped at t = .*step cap"):
        ad.odeint(
            lambda t, y, r: -r * y,
            y0[:, :1],
            (0, 1),
            max_steps=50,
            per_example=True,
            args=(torch.tensor([1, 1, 1, 1e5, 1], dtype=DOUBLE)[:, None],),
        )
    with pytest.raises(ad.SolverError, match=r"example 0, .*not finite"):
        ad.odeint(lambda t, y: torch.where(t.reshape(-1, 1) > 0.5, torch.nan, y), y0[:2], (0, 1), per_example=True)


def test_no_examples():
    found = ad.odeint(lambda t, y: -y, torch.zeros(0, 3), (0, 0.5, 1), per_example=True)
    assert found.shape == (3, 0, 3)
