"""Adaptive integration: agreement with scipy and torchdiffeq, landing on jumps, and clean failures."""

import math
import pickle
import subprocess
import sys
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
import torchdiffeq
from scipy.integrate import solve_ivp
from torch import nn

import anydepth as ad
from anydepth.depth.schemes import SCHEMES
from anydepth.errors import ConfigError, NumericalError, ShapeError, UnitError
from anydepth.solve.adaptive import Cause, SolverError
from small_units import Dense, Smooth

ADAPTIVE = [name for name in SCHEMES if SCHEMES[name].is_adaptive]
THEIRS = {
    "heun21": "adaptive_heun",
    "fehlberg21": "fehlberg2",
    "bosh32": "bosh3",
    "dopri54": "dopri5",
    "dopri87": "dopri8",
}
TIGHT = {"heun21": 1e-6, "fehlberg21": 1e-6, "bosh32": 1e-9, "dopri54": 1e-11, "dopri87": 1e-12}
CAP = 1_000
"""Steps that are tried on hostile fields."""


def tensor(*values):
    return torch.tensor(values, dtype=torch.float64)


PROBLEMS = {
    "pendulum": (lambda t, y: torch.stack([y[1], -9.81 * torch.sin(y[0])]), tensor(2.0, 0.0), [0.0, 0.5, 1.0], ()),
    "stiff-ish van der Pol": (
        lambda t, y: torch.stack([y[1], 20 * (1 - y[0] ** 2) * y[1] - y[0]]),
        tensor(2.0, 0.0),
        [0.0, 0.4, 1.0],
        (),
    ),
    "time-dependent": (lambda t, y: torch.cos(3 * t) * y - t**2, tensor(1.0, -2.0, 0.5), [0.0, 1.0, 2.0], ()),
    "jump": (lambda t, y: torch.where(t < 1 / 3, -2.0, 3.0) * y, tensor(1.0, 2.0), [0.0, 0.25, 1.0], (1 / 3,)),
    "backward": (lambda t, y: torch.stack([y[1], -y[0] + 0.1 * t]), tensor(1.0, 0.0), [2.0, 1.0, 0.0], ()),
}


def scipy_solution(name):
    f, y0, times, jumps = PROBLEMS[name]
    found, y = [y0.numpy()], y0.numpy()
    for start, end in pairwise(times):
        inside = [b for b in jumps if min(start, end) < b < max(start, end)]
        for a, b in zip([start, *inside], [*inside, end], strict=True):
            shift = 1e-15 if inside else 0.0
            span = (a + shift * (a in inside), b - shift * (b in inside))
            run = solve_ivp(
                lambda t, y: f(tensor(t)[0], torch.from_numpy(y)).numpy(), span, y, "DOP853", rtol=1e-13, atol=1e-13
            )
            y = run.y[:, -1]
        found.append(y)
    return np.stack(found)


@pytest.mark.parametrize("method", ADAPTIVE)
@pytest.mark.parametrize("name", PROBLEMS)
def test_against_scipy_at_tight_tolerance(name, method):
    f, y0, times, jumps = PROBLEMS[name]
    tolerance = TIGHT[method]
    found = ad.odeint(f, y0, times, method=method, rtol=tolerance, atol=tolerance, breakpoints=jumps)
    np.testing.assert_allclose(found.numpy(), scipy_solution(name), rtol=3e3 * tolerance, atol=3e3 * tolerance)


@pytest.mark.parametrize("method", ADAPTIVE)
@pytest.mark.parametrize("name", PROBLEMS)
def test_against_torchdiffeq_at_the_same_tolerance(name, method):
    """Both within the tolerance's reach of the truth, at a comparable number of evaluations."""
    f, y0, times, jumps = PROBLEMS[name]
    counts = []

    def counted(t, y):
        counts[-1] += 1
        return f(t, y)

    counts.append(0)
    ours = ad.odeint(counted, y0, times, method=method, rtol=1e-5, atol=1e-7, breakpoints=jumps)
    counts.append(0)
    options = {"jump_t": tensor(*jumps)} if jumps else {}
    theirs = torchdiffeq.odeint(
        counted, y0, tensor(*times), method=THEIRS[method], rtol=1e-5, atol=1e-7, options=options
    )
    exact = scipy_solution(name)
    scale = 1 + np.abs(exact)
    assert ours.shape == theirs.shape
    assert np.abs((ours.numpy() - exact) / scale).max() < 3e-3
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=5e-3, atol=5e-3)
    assert counts[0] < 2.5 * counts[1] + 20


def test_errors_follow_the_tolerance():
    f, y0, times, _ = PROBLEMS["pendulum"]
    exact = scipy_solution("pendulum")
    errors = [np.abs(ad.odeint(f, y0, times, rtol=r, atol=r).numpy() - exact).max() for r in (1e-4, 1e-6, 1e-8)]
    assert errors[0] > 10 * errors[1] > 100 * errors[2]


def test_tuples_and_fixed_methods():
    def f(t, state):
        q, p = state
        return p, -q

    q, p = ad.odeint(f, (tensor(1.0), tensor(0.0)), [0, math.pi / 2], method="rk4", steps=200)
    assert q.shape == (2, 1)
    torch.testing.assert_close(torch.cat([q[-1], p[-1]]), tensor(0.0, -1.0), rtol=0, atol=1e-8)
    back = ad.odeint(f, (q[-1], p[-1]), [math.pi / 2, 0], method="rk4", steps=200)
    torch.testing.assert_close(back[0][-1], tensor(1.0), rtol=0, atol=1e-8)


@pytest.mark.parametrize("gradient", ["backprop", "checkpoint"])
@pytest.mark.parametrize("method", [*ADAPTIVE, "rk4"])
def test_gradients_through_odeint(method, gradient):
    """d/da of exp(a t) at 1 is exp(a)."""
    a = torch.tensor([0.7], dtype=torch.float64, requires_grad=True)
    limits = {"steps": 50} if method == "rk4" else {"rtol": 1e-7, "atol": 1e-9}
    y = ad.odeint(lambda t, y: a * y, tensor(1.0), [0, 1], method=method, gradient=gradient, **limits)
    y[-1].sum().backward()
    assert float(a.grad) == pytest.approx(math.exp(0.7), rel=1e-4)


# In a block


def solve(basis, size, scheme="dopri54", **limits):
    torch.manual_seed(2)
    return ad.ContinuousBlock(Smooth, basis, size, scheme=scheme, scale=2, **limits).double()


@pytest.mark.parametrize("scheme", ADAPTIVE)
@pytest.mark.parametrize(("basis", "size"), [("constant", 3), ("linear", 4), ("discontinuous", 6), ("legendre", 4)])
def test_adaptive_block_agrees_with_a_fine_fixed_one(basis, size, scheme):
    x = torch.randn(4, 3, dtype=torch.float64)
    block = solve(basis, size, scheme, rtol=1e-5 if scheme == "heun21" else 1e-7, atol=1e-8)
    fine = ad.set_solver(solve(basis, size), scheme="rk4", steps=96)
    torch.testing.assert_close(block(x), fine(x), rtol=2e-5, atol=2e-5)
    assert block.stats.accepted > 0
    assert block.nfe == block.stats.evaluations > block.stats.accepted


def test_steps_land_on_every_jump_and_read_their_own_side():
    seen = []

    class Spy(nn.Module):
        def __init__(self):
            super().__init__()
            self.level = nn.Parameter(torch.randn(()))

        def forward(self, t, x):
            seen.append((float(t), float(self.level.detach())))
            return self.level.expand_as(x)

    block = ad.ContinuousBlock(Spy, "constant", 3, scheme="dopri54", time=True).double()
    with torch.no_grad():
        block.unit.level.copy_(torch.tensor([1.0, 2.0, 3.0]))
    out = block(torch.zeros(1, 1, dtype=torch.float64))
    assert float(out.detach()) == pytest.approx(2.0, abs=1e-12)
    third = float(Fraction(1, 3))
    assert {level for t, level in seen if t == third} == {1.0, 2.0}
    assert all(level == 1.0 + math.floor(3 * t) for t, level in seen if t not in (third, float(Fraction(2, 3)), 1.0))
    assert block.stats.rejected == 0


def test_nfe_counts_every_evaluation():
    calls = []

    class Counted(Smooth):
        def forward(self, x):
            calls.append(1)
            return super().forward(x)

    for scheme in ADAPTIVE:
        calls.clear()
        block = ad.ContinuousBlock(Counted, "linear", 3, scheme=scheme, rtol=1e-5, atol=1e-7)
        block(torch.randn(2, 3))
        assert block.nfe == len(calls)


def test_trajectory_of_an_adaptive_block():
    x = torch.randn(4, 3, dtype=torch.float64)
    block = solve("linear", 3, rtol=1e-9, atol=1e-10)
    fine = ad.set_solver(solve("linear", 3), scheme="rk4", steps=100)
    times = [0, 0.13, 0.5, 1]
    torch.testing.assert_close(block.trajectory(x, times), fine.trajectory(x, times), rtol=1e-6, atol=1e-7)
    assert torch.equal(block.trajectory(x, [0])[0], x)
    with pytest.raises(ConfigError, match="no grid"):
        block.trajectory(x)


@pytest.mark.parametrize("gradient", ["backprop", "checkpoint"])
def test_state_is_fitted_from_accepted_steps_only(gradient):
    """Start far too wide, so that steps are rejected; every sample is a state on the accepted path."""
    torch.manual_seed(0)
    block = ad.ContinuousBlock(Dense, "linear", 3, scheme="bosh32", rtol=1e-3, atol=1e-4, scale=2, gradient=gradient)
    x = torch.randn(32, 4)
    rejected, samples = 0, []
    commit = block._commit
    with pytest.MonkeyPatch.context() as patch:
        noted = lambda given, outcome: samples.append(len(outcome.samples["bn.running_mean"].instants))  # noqa: E731
        patch.setattr(block, "_commit", lambda *pair: (noted(*pair), commit(*pair)))
        for _ in range(60):
            block(x).sum().backward()
            rejected += block.stats.rejected
            # three new evaluations a step, and one more at the start and behind the knot
            assert samples[-1] == 3 * block.stats.accepted + 2
    assert rejected > 0
    fine = ad.set_solver(block, scheme="rk4", steps=64)
    trained = fine(x)
    torch.testing.assert_close(fine.eval()(x), trained, rtol=0.05, atol=0.05)
    assert int(block.unit.bn.num_batches_tracked) == 61


def test_switching_between_fixed_and_adaptive(tmp_path):
    block = ad.ContinuousBlock(Smooth, "linear", 3, scheme="rk4", steps=4)
    ad.set_solver(block, scheme="dopri54", rtol=1e-6)
    assert (block.steps, block.solver.tolerance.rtol, block.solver.tolerance.atol) == (None, 1e-6, 1e-6)
    assert "dopri54" in str(ad.summary(block))
    ad.save(block, tmp_path)
    again = ad.load(tmp_path, into=ad.ContinuousBlock(Smooth))
    assert again.solver == block.solver
    ad.refine(block)
    assert block.size == 5
    assert block.steps is None
    with pytest.raises(ConfigError, match="needs a number of steps"):
        ad.set_solver(block, scheme="rk4")
    with pytest.raises(ConfigError, match="fixed steps, got rtol"):
        ad.set_solver(ad.ContinuousBlock(Smooth), rtol=1e-3)
    ad.set_solver(block, scheme="rk4", steps=3)
    assert block.steps == 3


@pytest.mark.parametrize("functional", [False, True])
@pytest.mark.parametrize("options", [{"scheme": "dopri54"}, {"scheme": "rk4", "gradient": "adjoint"}])
def test_active_dropout_is_refused_in_training_only(options, functional):
    class Drops(Smooth):
        def __init__(self):
            super().__init__()
            self.drop = nn.Identity() if functional else nn.Dropout(0.5)

        def forward(self, x):
            x = self.drop(super().forward(x))
            return nn.functional.dropout(x, 0.5, self.training) if functional else x

    block = ad.ContinuousBlock(Drops, **options)
    with pytest.raises(UnitError, match="dropout"):
        block(torch.randn(2, 3))
    block.eval()(torch.randn(2, 3))


# Failures

HOSTILE = {
    "blow-up in finite time": (lambda t, y: y**2, {Cause.UNDERFLOW, Cause.NON_FINITE, Cause.STEP_CAP}),
    "nan after one half": (lambda t, y: torch.where(t > 0.5, float("nan"), 1.0) * y, {Cause.NON_FINITE}),
    "nan at once": (lambda t, y: y * float("nan"), {Cause.NON_FINITE}),
    "infinite": (lambda t, y: y / 0, {Cause.NON_FINITE}),
    "stiff": (lambda t, y: -1e12 * (y - torch.cos(t)), {Cause.STEP_CAP, Cause.UNDERFLOW}),
    "singular": (lambda t, y: 1 / (0.5 - t) * torch.ones_like(y), {Cause.UNDERFLOW, Cause.NON_FINITE, Cause.STEP_CAP}),
    "noise": (lambda t, y: torch.sin(1e9 * t) * 1e3 + y, {Cause.STEP_CAP, Cause.UNDERFLOW}),
    "square root of negatives": (lambda t, y: -torch.sqrt(y) - 5, {Cause.NON_FINITE}),
    "explosive": (lambda t, y: torch.exp(y), {Cause.UNDERFLOW, Cause.NON_FINITE, Cause.STEP_CAP}),
    "overflow": (lambda t, y: 1e300 * y, {Cause.UNDERFLOW, Cause.NON_FINITE, Cause.STEP_CAP}),
}


@pytest.mark.parametrize("method", ADAPTIVE)
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_fields_end_with_a_typed_failure(name, method):
    f, causes = HOSTILE[name]
    with pytest.raises(SolverError) as caught:
        ad.odeint(f, tensor(3.0, 4.0), [0, 1], method=method, rtol=1e-6, atol=1e-8, max_steps=CAP)
    error = caught.value
    assert error.cause in causes
    assert 0 <= error.time <= 1
    assert error.stats.accepted + error.stats.rejected <= CAP
    assert "\n" not in str(error)
    assert error.exit_code == 5


@pytest.mark.slow
def test_every_hostile_field_ends_the_same_way_under_python_o():
    code = """
import sys; sys.path[:0] = sys.argv[1:]
import anydepth as ad
from test_adaptive import HOSTILE, tensor
for name, (f, causes) in HOSTILE.items():
    try:
        ad.odeint(f, tensor(3.0, 4.0), [0, 1], rtol=1e-6, atol=1e-8, max_steps=300)
    except ad.SolverError as error:
        print(name, error.cause in causes)
"""
    here = Path(__file__).parent
    places = [str(here), str(here.parent / "support")]
    done = subprocess.run([sys.executable, "-O", "-c", code, *places], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"{name} True" for name in HOSTILE]


def test_a_tolerance_below_the_precision_is_underflow_and_zero_is_refused():
    with pytest.raises(SolverError) as caught:
        ad.odeint(lambda t, y: torch.sin(9 * y), torch.ones(8), [0, 1], rtol=1e-14, atol=0.0, max_steps=2000)
    assert caught.value.cause in (Cause.UNDERFLOW, Cause.STEP_CAP)
    with pytest.raises(ConfigError, match="both 0"):
        ad.odeint(lambda t, y: y, tensor(1.0), [0, 1], rtol=0, atol=0)


def test_failures_name_the_block_and_survive_python_o():
    code = """
import torch, anydepth as ad
from torch import nn
class Bad(nn.Module):
    def forward(self, t, x):
        return torch.where(t > 0.5, float("nan"), 1.0) * x
block = ad.ContinuousBlock(Bad, scheme="dopri54", time=True, name="blocks.2")
try:
    block(torch.ones(2, 2))
except ad.SolverError as error:
    print(error.where, error.cause.name, round(error.time, 3))
"""
    done = subprocess.run([sys.executable, "-O", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "block 'blocks.2' NON_FINITE 0.5\n"


@pytest.mark.parametrize(
    ("call", "kind", "says"),
    [
        (lambda: ad.odeint(lambda t, y: y, tensor(1.0), [0]), ConfigError, "two times"),
        (lambda: ad.odeint(lambda t, y: y, tensor(1.0), torch.ones(2, requires_grad=True)), ConfigError, "detach"),
        (lambda: ad.odeint(lambda t, y: y, tensor(1.0), [0, 1, 1]), ConfigError, "strictly"),
        (lambda: ad.odeint(lambda t, y: y, tensor(1.0), [0, 1], method="rk5"), ConfigError, "unknown scheme"),
        (lambda: ad.odeint(lambda t, y: y, tensor(1.0), [0, 1], rtol=-1), ConfigError, "rtol"),
        (lambda: ad.odeint(lambda t, y: y, tensor(1.0), [0, 1], max_steps=0), ConfigError, "max_steps"),
        (lambda: ad.odeint(lambda t, y: y, tensor(1.0), [0, 1], method="rk4", steps=0), ConfigError, "steps"),
        (lambda: ad.odeint(lambda t, y: y, tensor(1.0), [0, 1], gradient="none"), ConfigError, "gradient"),
        (lambda: ad.odeint(lambda t, y: y, tensor(1.0), [0, 1], steps=3), ConfigError, "own steps"),
        (lambda: ad.odeint(lambda t, y: y, tensor(1.0), [0, 1], method="rk4", rtol=1e-3), ConfigError, "got rtol"),
        (lambda: ad.odeint(lambda t, y: y, tensor(float("nan")), [0, 1]), NumericalError, "y0 has 1 non-finite"),
        (lambda: ad.odeint(lambda t, y: y[:0], tensor(1.0), [0, 1]), ShapeError, "expected torch.float64 (1,)"),
        (lambda: ad.odeint(lambda t, y: (y,), tensor(1.0), [0, 1]), ShapeError, "shape of y0"),
        (lambda: ad.odeint(lambda t, y: y, torch.ones(2, dtype=torch.int32), [0, 1]), ShapeError, "floating"),
    ],
)
def test_bad_calls(call, kind, says):
    with pytest.raises(kind) as caught:
        call()
    assert says in str(caught.value)


@pytest.mark.parametrize("method", ADAPTIVE)
@pytest.mark.parametrize("span", [1e-30, 1e-9, 1.0, 1e6])
def test_the_unit_of_time_does_not_matter(span, method):
    found = ad.odeint(lambda t, y: -2 / span * y, tensor(1.0, 2.0), [0, span], method=method, rtol=1e-6, atol=1e-9)
    assert float(found[-1, 0]) == pytest.approx(math.exp(-2), abs=1e-4)


def test_the_field_is_never_asked_outside_the_interval():
    seen = []

    def f(t, y):
        seen.append(float(t))
        return 0.001 * y

    for times in ([0, 0.1], [0.1, 0.0]):
        ad.odeint(f, tensor(1.0), times, rtol=1e-3, atol=1e-3)
    assert min(seen) >= 0
    assert max(seen) <= 0.1


def test_low_precision_states_accumulate_in_float32():
    found = ad.odeint(
        lambda t, y: torch.ones_like(y), torch.full((3,), 4.0).bfloat16(), [0, 1], method="euler", steps=1024
    )
    assert found.dtype == torch.bfloat16
    assert torch.equal(found[-1], torch.full((3,), 5.0).bfloat16())


def test_failures_can_be_sent_between_processes():
    with pytest.raises(SolverError) as caught:
        ad.odeint(lambda t, y: y * float("nan"), tensor(1.0), [0, 1])
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301
    assert (str(again), again.cause) == (str(caught.value), caught.value.cause)


def test_tolerances_as_numpy_numbers_are_saved(tmp_path):
    block = ad.ContinuousBlock(Smooth, scheme="dopri54", rtol=np.float32(1e-3), max_steps=np.int64(50))
    ad.save(block, tmp_path)
    assert ad.load(tmp_path, into=ad.ContinuousBlock(Smooth)).solver == block.solver
