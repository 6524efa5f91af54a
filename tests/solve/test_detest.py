"""The solvers on the field's own problems: fixed schemes by steps, adaptive ones by tolerance, scipy as the oracle."""

from math import log2

import pytest
import torch
import torchdiffeq

import anydepth as ad
from anydepth.depth.bases import BASES
from anydepth.depth.schemes import SCHEMES
from detest import END, PROBLEMS, by_scipy, error

FIXED = [name for name in SCHEMES if not SCHEMES[name].is_adaptive]
ADAPTIVE = [name for name in SCHEMES if SCHEMES[name].is_adaptive]
STEPS = {1: 64, 2: 48, 3: 24, 4: 16, 5: 12}
"""By order: enough for the leading term of the error, too few for rounding."""


def at(name, end, **options):
    problem = PROBLEMS[name]
    return ad.odeint(problem.field, problem.y0(), [0.0, end], **options)[-1]


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("scheme", FIXED)
def test_fixed_schemes_have_their_order_on_every_problem(scheme, name):
    """Halving the step divides the error by 2 to the order, or by more where the leading term vanishes."""
    end, order = PROBLEMS[name].short, SCHEMES[scheme].order
    steps = STEPS[order]
    coarse, fine = (error(name, at(name, end, method=scheme, steps=n), end) for n in (steps, 2 * steps))
    assert coarse < 0.05
    assert fine < 1e-12 or log2(coarse / fine) > order - 0.35, (coarse, fine)


TOLERANCES = {2: 1e-3, 3: 1e-4, 5: 1e-6, 8: 1e-9}
"""By order."""
_FACTOR = 30
"""Of the peer's error: controllers differ in norm and safety, and on orbits errors grow with the square of time."""


def by_peer(scheme, name, tolerance, end):
    """The same tableau or, where scipy has none of it, one of that order; torchdiffeq's for Fehlberg's pair.

    That pair estimates the error of its first-order result, h^2 / 512, and goes on with the second-order one, of error
    h^3 / 24: at loose tolerances the estimate is far too small, whoever computes it.
    """
    if scheme == "fehlberg21":
        times = torch.tensor([0.0, end], dtype=torch.float64)
        field, y0 = PROBLEMS[name].field, PROBLEMS[name].y0()
        return torchdiffeq.odeint(field, y0, times, method="fehlberg2", rtol=tolerance, atol=tolerance)[-1]
    order = SCHEMES[scheme].order
    return by_scipy(name, end, "RK23" if order <= 3 else "RK45" if order <= 5 else "DOP853", tolerance)[0]


def check_tolerance(scheme, name, tolerance, end):
    found = error(name, at(name, end, method=scheme, rtol=tolerance, atol=tolerance), end)
    peer = error(name, by_peer(scheme, name, tolerance, end), end)
    assert found <= _FACTOR * max(peer, tolerance), (found, peer)
    return found


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("scheme", ADAPTIVE)
def test_adaptive_schemes_keep_tolerances_as_scipy_does(scheme, name):
    check_tolerance(scheme, name, TOLERANCES[SCHEMES[scheme].order], 2.0)


@pytest.mark.soak
@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("scheme", ADAPTIVE)
def test_adaptive_schemes_keep_every_tolerance_to_the_end(scheme, name):
    loose = TOLERANCES[SCHEMES[scheme].order] * (0.01 if scheme == "fehlberg21" else 1.0)
    found = [check_tolerance(scheme, name, loose * factor, END) for factor in (1.0, 0.1, 0.01)]
    assert found[-1] <= max(found[0], 0.1 * loose)


@pytest.mark.soak
@pytest.mark.parametrize("name", PROBLEMS)
def test_dopri_is_torchdiffeqs_with_as_few_evaluations(name):
    """The same tableau: errors of the same size from about as many steps."""
    problem, calls = PROBLEMS[name], [0]

    def counted(t, y):
        calls[0] += 1
        return problem.field(t, y)

    times = torch.tensor([0.0, END], dtype=torch.float64)
    theirs = torchdiffeq.odeint(counted, problem.y0(), times, method="dopri5", rtol=1e-6, atol=1e-6)[-1]
    their_calls, calls[0] = calls[0], 0
    ours = ad.odeint(counted, problem.y0(), times, method="dopri54", rtol=1e-6, atol=1e-6)[-1]
    assert error(name, ours, END) <= _FACTOR * max(error(name, theirs, END), 1e-6)
    assert calls[0] <= 2 * their_calls + 20


@pytest.mark.parametrize("scheme", FIXED)
@pytest.mark.parametrize("basis", BASES.names())
def test_schemes_have_their_order_with_weights_over_depth_of_every_basis(basis, scheme):
    """dx/dt = tanh(W(t) x + b(t)): steps end at the knots of the basis, so that its kinks and jumps cost nothing."""
    order = SCHEMES[scheme].order
    block = ad.ContinuousBlock(
        lambda: torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh()), basis=basis, size=4, scheme=scheme, steps=1
    ).double()
    cells = len(block.functions["0.weight"].basis.breakpoints) - 1
    steps = cells * -(-STEPS[order] // cells)
    x = torch.randn(5, 3, dtype=torch.float64)

    def answers(name, count):
        ad.set_solver(block, scheme=name, steps=count)
        with torch.no_grad():
            return block(x)

    exact = answers("rk4", 240)  # of every number of cells a multiple
    coarse, fine = (float((answers(scheme, n) - exact).abs().max()) for n in (steps, 2 * steps))
    assert fine < 1e-11 or log2(coarse / fine) > order - 0.35, (coarse, fine)
