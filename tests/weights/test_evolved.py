"""Weights that evolve: closed forms, special cases, gradients, projection, files."""

import json
from copy import deepcopy
from fractions import Fraction
from math import exp

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad, solve_ivp
from torch import nn
from torch.func import functional_call

import anydepth as ad
from anydepth.block.form import forms_of, weights_of
from anydepth.depth.times import Instant, Side
from anydepth.errors import ConfigError, ModelFileError, UnitError
from anydepth.measure.gradients import compare_gradients
from anydepth.runs.config import read_config
from anydepth.train.optimization import penalty
from anydepth.train.training import train
from anydepth.weights.evolutions import EVOLUTIONS
from anydepth.weights.evolutions.rda import ReactionDiffusionAdvection
from anydepth.weights.evolved import Evolved
from anydepth.weights.time_kernel import TimeKernel
from command import assert_refused, run_command
from crashing import remains, train_and_crash
from small_runs import tiny

F64 = torch.float64


def conv(channels=2):
    return lambda: nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.Tanh())


def block_with(evolved, seed=0, jolt=0.3, dtype=F64, **options):
    """A block of a small smooth unit whose kernel evolves, away from q = 0."""
    torch.manual_seed(seed)
    chosen = {"scheme": "rk4", "steps": 4} | options
    block = ad.ContinuousBlock(conv(), weights={"*weight": evolved, "*": ("constant", 1)}, **chosen).to(dtype)
    with torch.no_grad():
        for parameter in block.evolutions.parameters():
            parameter += jolt * torch.randn_like(parameter)
    return block


def image(seed=1, dtype=F64):
    torch.manual_seed(seed)
    return torch.randn(2, 2, 5, 5, dtype=dtype)


ALL = [
    Evolved("none"),
    Evolved("rda"),
    Evolved("rda", {"per": "filter"}, kernel="exponential"),
    Evolved("rda", {"nonlinearity": "tanh", "form": "after"}, steps=4),
    Evolved("rda", {"nonlinearity": "tanh"}, steps=3, kernel={"name": "box", "width": 0.3}),
    Evolved("linear", {"bias": True}, apply_at=(0, 1)),
    Evolved("network", {"hidden": 4}, steps=3, scheme="euler"),
    Evolved("conv", {"hidden": 3}, steps=3),
    Evolved("conv", {"layers": 0, "mix": False}, steps=3, kernel="exponential"),
]


# The step by FFT


@pytest.mark.parametrize(("dtype", "limit"), [(torch.float32, 1e-5), (F64, 1e-10)])
@pytest.mark.parametrize("size", [31, 32])
def test_a_gaussian_diffuses_and_travels_as_the_closed_form_says(dtype, limit, size):
    tau, speed, rate, sigma, time = 1.5, 3.0, -0.4, 2.0, 1.0
    x = torch.arange(size, dtype=F64)

    def gaussian(centre, variance):
        """On a circle: the sum over all turns."""
        turns = x[:, None] - centre + size * torch.arange(-4, 5)
        return (sigma / variance**0.5) * torch.exp(-turns.square() / (2 * variance)).sum(1)

    q = ReactionDiffusionAdvection((1, 1, size)).to(dtype)
    with torch.no_grad():
        q.diffusion_root.fill_(tau**0.5)
        q.advection.fill_(speed)
        q.reaction.fill_(rate)
        found = q.flow(gaussian(10.0, sigma**2).to(dtype)[None, None], torch.tensor([time], dtype=dtype))[0, 0, 0]
    # dw/dt = v dw/dx moves a pattern towards smaller x
    expected = exp(rate * time) * gaussian(10.0 - speed * time, sigma**2 + 2 * tau * time)
    assert float((found.double() - expected).abs().max()) < limit


@pytest.mark.parametrize(("dtype", "limit"), [(torch.float32, 1e-5), (F64, 1e-10)])
def test_a_gaussian_in_the_plane(dtype, limit):
    size, tau, v = (24, 25), 0.5, (2.0, -1.0)

    def gaussian(centre, variance):
        axes = []
        for length, middle in zip(size, centre, strict=True):
            turns = torch.arange(length, dtype=F64)[:, None] - middle + length * torch.arange(-4, 5)
            axes.append(torch.exp(-turns.square() / (2 * variance)).sum(1) * (4 / variance) ** 0.5)
        return axes[0][:, None] * axes[1]

    q = ReactionDiffusionAdvection((1, 1, *size)).to(dtype)
    with torch.no_grad():
        q.diffusion_root.fill_(tau**0.5)
        q.advection.copy_(torch.tensor(v))
        found = q.flow(gaussian((12, 12), 4.0).to(dtype)[None, None], torch.ones(1, dtype=dtype))[0, 0, 0]
    assert float((found.double() - gaussian((10, 13), 4.0 + 2 * tau)).abs().max()) < limit


def test_reaction_alone_is_an_exponential():
    q = ReactionDiffusionAdvection((2, 3, 3, 3), terms=("reaction",)).double()
    nn.init.constant_(q.reaction, 0.7)
    w, times = torch.randn(2, 3, 3, 3, dtype=F64), torch.tensor([0.25, 1.0], dtype=F64)
    torch.testing.assert_close(q.flow(w, times), w * (0.7 * times).exp().view(-1, 1, 1, 1, 1), atol=1e-10, rtol=0)


@settings(max_examples=20, deadline=None)
@given(
    space=st.lists(st.integers(1, 6), min_size=1, max_size=2),
    per=st.sampled_from(["layer", "filter"]),
    seed=st.integers(0, 99),
)
def test_two_half_steps_are_one_step_and_diffusion_is_never_negative(space, per, seed):
    torch.manual_seed(seed)
    q = ReactionDiffusionAdvection((3, 2, *space), per=per).double()
    with torch.no_grad():
        for parameter in q.parameters():
            parameter.normal_()
    w = torch.randn(3, 2, *space, dtype=F64)
    one, half = torch.ones(1, dtype=F64), torch.full((1,), 0.5, dtype=F64)
    torch.testing.assert_close(q.flow(w, one)[0], q.flow(q.flow(w, half)[0], half)[0], atol=1e-9, rtol=1e-9)
    assert bool((q.diffusion >= 0).all())
    slope = (q.flow(w, torch.full((1,), 1e-6, dtype=F64))[0] - w) / 1e-6
    torch.testing.assert_close(q(w), slope, atol=1e-3, rtol=1e-3)


def test_diffusion_stays_above_zero_under_an_optimiser_that_pushes_it_down():
    q = ReactionDiffusionAdvection((1, 1, 5, 5))
    optimizer = torch.optim.SGD(q.parameters(), lr=0.5, momentum=0.9)
    for _ in range(30):
        optimizer.zero_grad()
        q.diffusion.backward()
        optimizer.step()
        assert q.diffusion >= 0


def test_the_kernel_of_every_exact_evolution_solves_its_equation():
    for name in ("rda", "linear"):
        q = EVOLUTIONS[name]((2, 1, 4)).double()
        torch.manual_seed(3)
        with torch.no_grad():
            for parameter in q.parameters():
                parameter.normal_(std=0.5)
        w = torch.randn(2, 1, 4, dtype=F64)
        slope = lambda t, y: q(torch.tensor(y).view(2, 1, 4)).detach().numpy().ravel()  # noqa: B023, E731
        exact = solve_ivp(slope, (0, 1), w.numpy().ravel(), rtol=1e-11, atol=1e-12).y[:, -1]
        np.testing.assert_allclose(q.flow(w, torch.ones(1, dtype=F64))[0].detach().numpy().ravel(), exact, atol=1e-8)


# Special cases


@pytest.mark.parametrize("evolved", [Evolved("none"), Evolved("rda", {"terms": []}), Evolved("linear")], ids=str)
def test_without_evolution_it_is_the_neural_ode_block(evolved):
    block, x = block_with(evolved, jolt=0), image()
    plain = ad.ContinuousBlock(conv(), scheme="rk4", steps=4).double()
    weights = {name: value for name, value in weights_of(block).items() if "evolutions" not in name}
    plain.load_state_dict(weights | forms_of(plain))
    torch.testing.assert_close(block(x), plain(x), atol=1e-14, rtol=0)
    if evolved.evolution == "none":
        assert torch.equal(block(x), plain(x))


def test_one_step_with_a_network_is_a_hypernetwork():
    block, x = block_with(Evolved("network", steps=1, scheme="euler", apply_at=(1,)), scheme="euler", steps=1), image()
    initial, bias = block.stored("0.weight")[0], block.stored("0.bias")[0]
    made = initial + block.evolution("0.weight")(initial)
    expected = x + torch.tanh(nn.functional.conv2d(x, made, bias, padding=1))
    torch.testing.assert_close(block(x), expected, atol=1e-15, rtol=0)


def test_a_convolution_of_one_tap_is_reaction_alone():
    q = EVOLUTIONS["conv"]((3, 2, 3, 3), layers=0, kernel=1, mix=False).double()
    nn.init.constant_(q.net[0].weight, 0.7)
    w = torch.randn(3, 2, 3, 3, dtype=F64)
    found = Evolved("conv", steps=32).along(q, w, [Fraction(1)])[0]
    torch.testing.assert_close(found, w * exp(0.7), atol=1e-7, rtol=1e-7)


@pytest.mark.parametrize("space", [(5,), (3, 3), (2, 3, 2)])
def test_a_convolutional_block_takes_filters_as_images_and_starts_at_rest(space):
    w = torch.randn(4, 2, *space, dtype=F64)
    mixed, apart = (EVOLUTIONS["conv"](w.shape, hidden=3, mix=mix).double() for mix in (True, False))
    assert not mixed(w).any()
    assert not apart(w).any()
    with torch.no_grad():
        for parameter in (*mixed.parameters(), *apart.parameters()):
            parameter.normal_()
    torch.testing.assert_close(mixed(w)[1:2], mixed(w[1:2]))  # one block for all filters
    torch.testing.assert_close(apart(w)[:, 1:], apart(w[:, 1:]))  # and, without mixing, for all planes
    moved = w.clone()
    moved[:, 0] += 1
    assert torch.equal(apart(moved)[:, 1], apart(w)[:, 1])
    assert not torch.equal(mixed(moved)[:, 1], mixed(w)[:, 1])


def test_configuration_one_alternates_steps_of_both():
    """Euler for the activations, one exact step of the weights between them: eq 9."""
    block, x = block_with(Evolved("rda"), scheme="euler", steps=5), image()
    q, w, bias = block.evolution("0.weight"), block.stored("0.weight")[0], block.stored("0.bias")[0]
    step, z = torch.full((1,), 0.2, dtype=F64), x
    for _ in range(5):
        z = z + torch.tanh(nn.functional.conv2d(z, w, bias, padding=1)) / 5
        w = q.flow(w, step)[0]
    torch.testing.assert_close(block(x), z, atol=1e-12, rtol=0)


def test_configuration_two_applies_the_first_and_the_last_weights():
    block, x = block_with(Evolved("rda", apply_at=(0, 1)), scheme="euler", steps=2), image()
    q, w, bias = block.evolution("0.weight"), block.stored("0.weight")[0], block.stored("0.bias")[0]
    z = x
    for kernel in (w, q.flow(w, torch.ones(1, dtype=F64))[0]):
        z = z + torch.tanh(nn.functional.conv2d(z, kernel, bias, padding=1)) / 2
    torch.testing.assert_close(block(x), z, atol=1e-12, rtol=0)
    assert [float(b) for b in block.functions["0.weight"].breakpoints] == [0, 0.5, 1]
    left, right = (block.theta(Fraction(1, 2), side)["0.weight"] for side in (Side.LEFT, Side.RIGHT))
    assert torch.equal(left, w)
    assert not torch.equal(left, right)


@pytest.mark.parametrize("scheme", ["euler", "midpoint", "rk4"])
def test_weights_on_a_grid_converge_at_the_order_of_their_scheme(scheme):
    torch.manual_seed(0)
    q = EVOLUTIONS["network"]((1, 1, 3), hidden=5).double()
    with torch.no_grad():
        for parameter in q.parameters():
            parameter.normal_()
    w = torch.randn(1, 1, 3, dtype=F64)
    q.requires_grad_(False)
    slope = lambda t, y: q(torch.tensor(y).view(1, 1, 3)).detach().numpy().ravel()  # noqa: E731
    exact = torch.tensor(solve_ivp(slope, (0, 1), w.numpy().ravel(), rtol=1e-12, atol=1e-13).y[:, -1])
    errors = [
        float(
            (Evolved("network", steps=n, scheme=scheme).along(q, w, [Fraction(1)])[0].ravel() - exact).detach().norm()
        )
        for n in (32, 64)
    ]
    order = {"euler": 1, "midpoint": 2, "rk4": 4}[scheme]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.35)


# The kernel in time


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize(("name", "width"), [("exponential", 0.4), ("exponential", 0.02), ("box", 0.3), ("box", 2.0)])
def test_averages_in_time_are_the_integral(name, width, normalised):
    kernel = TimeKernel(name, width, normalised)
    times = [Fraction(0), Fraction(1, 7), Fraction(1, 2), Fraction(1)]
    nodes, matrix = kernel.averages(times, [Fraction(i, 10) for i in range(11)])
    found = matrix @ np.array([np.cos(3 * float(node)) for node in nodes])
    value = (lambda s: exp(-s / width) / width) if name == "exponential" else (lambda s: (s <= width) / width)
    for time, got in zip(map(float, times), found, strict=True):
        low = max(0.0, time - width) if name == "box" else max(0.0, time - 40 * width)
        expected = quad(lambda s, t=time: value(t - s) * np.cos(3 * s), low, time, limit=200)[0] if time else 0.0
        whole = quad(value, 0, min(time, width) if name == "box" else time, limit=200)[0] if time else 0.0
        if normalised:
            expected = expected / whole if time else 1.0
        assert got == pytest.approx(expected, abs=1e-6)


def test_a_kernel_in_time_reads_the_past_alone():
    block = block_with(Evolved("rda", kernel=TimeKernel("box", 0.25)))
    assert not block.theta(0)["0.weight"].any()
    w = block.evolution("0.weight").flow(block.stored("0.weight")[0], torch.linspace(0.5, 0.75, 2001, dtype=F64))
    torch.testing.assert_close(block.theta(Fraction(3, 4))["0.weight"], w.mean(0), atol=1e-4, rtol=1e-4)


# Gradients


def gradients(block, x, mode, segment=1):
    block.set_gradient(mode, segment)
    block.zero_grad()
    block(x).square().sum().backward()
    return torch.cat([p.grad.flatten() for p in block.parameters()])


@pytest.mark.parametrize("evolved", ALL, ids=str)
def test_checkpointed_gradients_are_those_of_autograd(evolved):
    """Block by block, as in ANODE, to the bit; step by step, up to the order of sums."""
    block, x = block_with(evolved, scheme="midpoint", steps=3), image()
    plain = gradients(block, x, "backprop")
    assert torch.equal(plain, gradients(block, x, "checkpoint", 3))
    torch.testing.assert_close(gradients(block, x, "checkpoint", 1), plain, atol=1e-13, rtol=1e-13)


@pytest.mark.parametrize(("scheme", "order"), [("euler", 1), ("midpoint", 2), ("heun", 2), ("rk4", 4), ("rk4_38", 4)])
def test_kkt_gradients_converge_at_the_order_of_the_scheme(scheme, order):
    errors = []
    for steps in (8, 16):
        block, x = block_with(Evolved("rda"), scheme=scheme, steps=steps), image()
        plain = gradients(block, x, "backprop")
        errors.append(float((gradients(block, x, "kkt") - plain).norm() / plain.norm()))
    assert np.log2(errors[0] / errors[1]) > order - 0.35
    assert errors[1] < {1: 0.1, 2: 5e-3, 4: 1e-6}[order]


@pytest.mark.parametrize("evolved", ALL[1:], ids=str)
@pytest.mark.parametrize("mode", ["kkt", "adjoint"])
def test_adjoint_gradients_reach_the_parameters_of_every_evolution(mode, evolved):
    block, x = block_with(evolved), image()
    plain = gradients(block, x, "backprop")
    assert float((gradients(block, x, mode) - plain).norm() / plain.norm()) < 1e-3


def test_beta_of_the_optimality_conditions_gives_the_same_gradient():
    """Eq 7c to 7e solved as they stand: beta backward in time from gamma, then the integral of (dq/dp)^T beta."""
    rate = 0.6
    unit = lambda: nn.Sequential(nn.Conv1d(1, 1, 3, padding=1, bias=False), nn.Tanh())  # noqa: E731
    torch.manual_seed(0)
    block = ad.ContinuousBlock(unit, weights={"*": Evolved("rda", {"terms": ["reaction"]})}, steps=200).double()
    nn.init.constant_(block.evolution("0.weight").reaction, rate)
    x, w0 = torch.randn(1, 1, 6, dtype=F64), block.stored("0.weight")[0].detach()
    z = torch.cat([x, block.trajectory(x, [Fraction(i, 200) for i in range(1, 201)]).detach().squeeze(1)])

    def f(state, kernel):
        return torch.tanh(nn.functional.conv1d(state, kernel, padding=1))

    alpha, gammas = -2 * z[-1:], []
    for n in range(200, 0, -1):  # the costate, by the trapezoidal rule through known states
        for index, share in ((n, 0.0), (n - 1, 1.0)):
            kernel = (w0 * exp(rate * index / 200)).requires_grad_()
            state = z[index : index + 1].clone().requires_grad_()
            on_state, on_kernel = torch.autograd.grad(f(state, kernel), (state, kernel), alpha)
            if share == 0:
                gammas.append(on_kernel)
                first, predicted = on_state, alpha + on_state / 200
                alpha, before = predicted, alpha
            else:
                alpha = before + (first + on_state) / 400
    kernel, state = w0.clone().requires_grad_(), z[:1]
    gammas.append(torch.autograd.grad(f(state, kernel), kernel, alpha)[0])
    path = torch.stack(gammas[::-1])  # gamma at 0, 1/200, ..., 1
    beta, total = torch.zeros_like(w0), 0.0
    for n in range(200, 0, -1):  # -dbeta/dt - rho beta - gamma = 0, beta(1) = 0
        ahead = torch.linalg.vecdot(beta.ravel(), w0.ravel() * exp(rate * n / 200))
        beta = (beta * (1 + rate / 400) + (path[n] + path[n - 1]) / 400) / (1 - rate / 400)
        total += float(ahead + torch.linalg.vecdot(beta.ravel(), w0.ravel() * exp(rate * (n - 1) / 200))) / 400
    block.set_gradient("kkt")
    block(x).square().sum().backward()
    torch.testing.assert_close(block.stored("0.weight").grad[0], -beta, rtol=1e-3, atol=1e-4)
    assert float(block.evolution("0.weight").reaction.grad) == pytest.approx(-total, rel=1e-3)


def test_the_reverse_time_adjoint_fails_where_the_way_back_is_unstable_and_kkt_does_not():
    """States that come together cannot be told apart on the way back: rounding grows by exp(40) (ANODE, sec 3)."""

    class Forgetful(nn.Module):
        """The first number goes to a goal, fast; the second adds up the first."""

        def __init__(self):
            super().__init__()
            self.goal, self.weight = nn.Parameter(torch.tensor(1.0)), nn.Parameter(torch.tensor(0.5))

        def forward(self, x):
            first = x[:, :1]
            return torch.cat([self.goal - first, self.weight * torch.tanh(first) / 40], dim=1)

    block = ad.ContinuousBlock(Forgetful, scheme="rk4", steps=120, scale=40).double()
    x, found = torch.tensor([[2.0, 0.0], [-3.0, 0.0]], dtype=F64), {}
    for mode in ("backprop", "adjoint", "kkt", "checkpoint"):
        block.set_gradient(mode)
        block.zero_grad()
        block(x)[:, 1].sum().backward()
        found[mode] = torch.stack([p.grad.sum() for p in block.parameters()])
    error = {
        mode: float((value - found["backprop"]).norm() / found["backprop"].norm()) for mode, value in found.items()
    }
    assert error["checkpoint"] < 1e-14
    assert error["kkt"] < 1e-3
    assert error["adjoint"] > max(0.05, 50 * error["kkt"])


def test_kkt_needs_fixed_steps():
    block = block_with(Evolved("rda"), scheme="dopri54", steps=None)
    block.set_gradient("kkt")
    with pytest.raises(ConfigError, match="fixed steps"):
        block(image())


# A function of depth like any other


@pytest.mark.parametrize("evolved", ALL, ids=str)
@pytest.mark.parametrize(("basis", "size"), [("linear", 17), ("legendre", 7)])
def test_evolved_weights_project_onto_a_basis(evolved, basis, size):
    if evolved.apply_at is not None:
        basis, size = "constant", 2
    block, x = block_with(evolved), image()
    small = ad.compress(block, basis=basis, size=size)
    assert not small.evolutions
    with torch.no_grad():
        assert float((small(x) - block(x)).norm() / block(x).norm()) < 0.02
    change = ad.history(small)[""][-1]
    inner = [Instant(Fraction(i, 40)) for i in range(1, 40)]
    gaps, norms = 0.0, 0.0
    for instant in inner:
        new, old = (net.theta(instant.time)["0.weight"].detach() for net in (small, block))
        gaps, norms = gaps + float((new - old).square().sum()), norms + float(old.square().sum())
    assert change.errors["0.weight"] == pytest.approx((gaps / norms) ** 0.5, rel=0.5, abs=1e-6)
    plain = ad.freeze(small)
    torch.testing.assert_close(plain(x), small.eval()(x), atol=1e-10, rtol=0)


def test_solvers_change_and_the_function_stays():
    block, x = block_with(Evolved("network", steps=3)), image()
    before = block.theta(Fraction(1, 3))["0.weight"]
    fine = ad.set_solver(deepcopy(block), scheme="rk4", steps=64)
    assert torch.equal(before, fine.theta(Fraction(1, 3))["0.weight"])
    assert ((fine(x) - block(x)).norm() / block(x).norm()).item() < 1e-3
    adaptive = ad.set_solver(deepcopy(block), scheme="dopri54", rtol=1e-7, atol=1e-9)
    torch.testing.assert_close(adaptive(x), fine(x), atol=1e-5, rtol=1e-5)
    refined = ad.refine(deepcopy(block))
    assert refined.steps == 8
    assert refined.functions["0.weight"] == block.functions["0.weight"]


@pytest.mark.parametrize("evolved", ALL, ids=str)
def test_saved_and_loaded_it_is_the_same(evolved, tmp_path):
    block, x = block_with(evolved), image()
    ad.save(block, tmp_path)
    other = block_with(evolved, seed=5)
    assert torch.equal(ad.load(tmp_path, into=other)(x), block(x))
    plain = ad.ContinuousBlock(conv(), scheme="rk4", steps=4).double()
    assert torch.equal(ad.load(tmp_path, into=plain)(x), block(x))
    assert plain.functions == block.functions
    small = ad.compress(block, basis="linear", size=3)
    ad.save(small, tmp_path / "small")
    assert torch.equal(ad.load(tmp_path / "small", into=block)(x), small(x))


class Rotation(nn.Module):
    """A user's own q."""

    def __init__(self):
        super().__init__()
        self.rate = nn.Parameter(torch.tensor(0.5))

    def forward(self, w):
        return self.rate * w.flip(-1)


def test_any_module_evolves_weights(tmp_path):
    evolved = Evolved(lambda shape: Rotation())
    block, x = block_with(evolved), image()
    w, rate = block.stored("0.weight")[0], block.evolution("0.weight").net.rate
    expected = w * torch.cosh(rate) + w.flip(-1) * torch.sinh(rate)
    torch.testing.assert_close(block.theta(1)["0.weight"], expected, atol=1e-5, rtol=1e-5)
    ad.save(block, tmp_path)
    other = ad.ContinuousBlock(conv(), weights={"*weight": evolved, "*": ("constant", 1)}, steps=4).double()
    assert torch.equal(ad.load(tmp_path, into=other)(x), block(x))
    plain = ad.ContinuousBlock(conv(), scheme="rk4", steps=4).double()
    with pytest.raises(ModelFileError, match="is not registered"):
        ad.load(tmp_path, into=plain)


def test_a_model_is_called_with_other_parameters():
    block, x = block_with(Evolved("rda")), image()
    other = {name: value + 0.1 for name, value in block.named_parameters()}
    moved = deepcopy(block)
    moved.load_state_dict(other | forms_of(moved))
    torch.testing.assert_close(functional_call(block, other, (x,)), moved(x))


class Masked(nn.Module):
    """A q with a tensor that is no parameter, and with dropout."""

    def __init__(self):
        super().__init__()
        self.rate, self.mask, self.dropout = nn.Parameter(torch.tensor(0.5)), torch.ones(3), nn.Dropout(0.5)

    def forward(self, w):
        return self.rate * self.dropout(self.mask * w)


def test_a_users_evolution_is_a_fixed_function():
    block, x = block_with(Evolved(lambda shape: Masked())), image()
    assert torch.equal(block(x), block(x))


@pytest.mark.parametrize("evolved", ALL, ids=str)
def test_every_evolution_takes_narrow_numbers(evolved):
    block = block_with(evolved, dtype=torch.bfloat16)
    assert block(image(dtype=torch.bfloat16)).isfinite().all()


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.keys, self.values = nn.Parameter(torch.randn(3, 3)), nn.Parameter(torch.randn(3, 3))

    def forward(self, x):
        return torch.softmax(x @ self.keys, -1) @ self.values


def test_names_of_tensors_may_be_those_of_a_dict():
    block = ad.ContinuousBlock(Attention, weights={"*": Evolved("linear")})
    assert block.evolution("keys") is not block.evolution("values")


class UsedTwice(nn.Module):
    def __init__(self, weights):
        super().__init__()
        self.a = self.b = ad.ContinuousBlock(lambda: nn.Linear(3, 3), weights=weights, scheme="euler", steps=2)

    def forward(self, x):
        return self.b(self.a(x))


def test_a_block_under_two_names_is_loaded(tmp_path):
    weights, x = {"weight": Evolved("linear"), "*": ("constant", 2)}, torch.randn(4, 3)
    model = UsedTwice(weights)
    small = ad.compress(model, basis="constant", size=2)
    for name, saved in {"evolved": model, "plain": small}.items():
        ad.save(saved, tmp_path / name)
        for into in (UsedTwice(weights), ad.compress(UsedTwice(weights), basis="constant", size=2)):
            assert torch.equal(ad.load(tmp_path / name, into=into)(x), saved(x))


def test_dropout_is_refused_by_kkt_and_repeated_by_the_comparison():
    noisy = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
    block = ad.ContinuousBlock(lambda: deepcopy(noisy), gradient="kkt")
    with pytest.raises(UnitError, match="random numbers"):
        block(torch.randn(2, 3)).sum().backward()
    model = nn.Sequential(nn.Dropout(0.5), ad.ContinuousBlock(lambda: nn.Linear(3, 3), steps=2))
    x = torch.randn(4, 3, dtype=F64)
    rows = compare_gradients(model, lambda net: net(x).square().sum(), ["backprop", "checkpoint"], [1])
    assert all(row.error < 1e-12 for row in rows)


def test_half_precision_and_channels_last_pass_through():
    block = block_with(Evolved("rda"), dtype=torch.bfloat16).to(memory_format=torch.channels_last)
    assert block(image(dtype=torch.bfloat16)).dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Evolved("rdb"), "unknown evolution"),
        (lambda: Evolved("rda", {"pre": "layer"}), "no option"),
        (lambda: Evolved("rda", scheme="dopri54"), "fixed steps"),
        (lambda: Evolved("rda", apply_at=()), "apply_at"),
        (lambda: Evolved("rda", apply_at=(0, 2)), "apply_at"),
        (lambda: Evolved("rda", kernel="gauss"), "kernel in time"),
        (lambda: Evolved("rda", kernel={"name": "box", "width": 0}), "width"),
        (lambda: Evolved(3), "function of a shape"),
        (lambda: Evolved(nn.Linear(3, 3)), "function of a shape"),
        (lambda: Evolved("rda", kernel={"name": "box", "width": 1e-17}), "width"),
        (lambda: ad.compress(block_with(Evolved("rda")), basis="constant"), "no size"),
        (lambda: block_with(Evolved("rda", {"per": "pixel"})), "per 'filter'"),
        (lambda: block_with(Evolved("rda", {"terms": ["waves"]})), "unknown term"),
        (lambda: block_with(Evolved("rda", {"diffusion": -1.0})), "diffusion"),
        (lambda: block_with(Evolved(lambda shape: nn.BatchNorm1d(3))), "without buffers"),
        (lambda: ad.ContinuousBlock(conv(), weights={"*": Evolved("rda")}), "spatial axes"),
        (lambda: ad.ContinuousBlock(lambda: nn.BatchNorm2d(2), weights={"*": Evolved("linear")}), "state"),
        (lambda: ad.compress(block_with(Evolved("rda")), size={"": {"*weight": 4}}), "no size"),
        (lambda: block_with(Evolved("conv", {"hidden": 0})), "hidden"),
        (lambda: block_with(Evolved("conv", {"kernel": 2})), "odd"),
        (lambda: ad.ContinuousBlock(conv(), weights={"*": Evolved("conv")}), "spatial axes"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(make, says):
    with pytest.raises(ConfigError, match=says) as caught:
        make()
    assert "\n" not in str(caught.value)


RDA = '{"conv*": {"evolution": "rda"}, "*": {"basis": "constant", "size": 2}}'


EVOLVING = (f"model.options.weights={RDA}", "model.options.scheme=euler", "model.options.steps=2")


def test_step_controllers_drive_evolving_models(tmp_path):
    control = 'control={"name": "steady", "every": 1, "examples": 20}'
    run = train(tiny(*EVOLVING, control), tmp_path / "run")
    assert [line for line in run.metrics() if line["kind"] == "control"][-1]["steps"] >= 12
    moved = [p for name, p in run.model().named_parameters() if name.endswith(("advection", "reaction"))]
    assert moved
    assert all(bool(parameter.abs().max() > 0) for parameter in moved)


def test_killed_and_resumed_an_evolving_model_is_uninterrupted_to_the_bit(tmp_path):
    config = tiny(*EVOLVING, "checkpoint_minutes=0")
    whole = remains(train(config, tmp_path / "whole").folder)
    assert train_and_crash(tmp_path / "run", config, ".json renamed", 3)
    train(config, tmp_path / "run", resume=True)
    assert remains(tmp_path / "run") == whole


def test_the_regulariser_is_that_of_the_initial_weights_and_the_coefficients():
    block = block_with(Evolved("rda"))
    initial = block.stored("0.weight").square().sum().item()
    own = sum(p.square().sum().item() for p in block.evolutions.parameters())
    assert penalty(block, 0.5, 2.0).item() == pytest.approx(0.5 * initial + 2 * own)
    assert penalty(block, 0, 0) is None
    assert penalty(ad.ContinuousBlock(conv()), 1.0, 1.0) is None
    assert penalty(block_with(Evolved("none")), 1.0, 1.0).item() > 0


@pytest.mark.parametrize("evolved", ALL, ids=str)
def test_a_description_in_a_config_gives_the_same_function(evolved):
    options = {"weights": {"*weight": evolved.describe(), "*": ["constant", 1]}}
    model = {"model": {"name": "image", "options": options}, "optimizer": {"name": "sgd", "lr": 1}}
    plain = read_config({"data": {"name": "digits"}, "training": {"epochs": 1}} | model).plain()
    block = ad.ContinuousBlock(conv(), weights=plain["model"]["options"]["weights"])
    assert block.functions["0.weight"] == evolved


def test_the_command_compares_gradients(tmp_path, capsys):
    options = f'model.options={{"channels": [4], "pool": 4, "scheme": "euler", "steps": 2, "weights": {RDA}}}'
    folder = train(tiny("training.epochs=1", options), tmp_path / "run").folder
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    done = run_command(capsys, "gradients", folder, "--batch", 8, "--finer", "1,4", "--json")
    assert done.code == 0
    rows = {(row["mode"], row["steps"]): row for row in json.loads(done.out)["rows"]}
    assert rows["checkpoint", "euler x 2"]["error"] < 1e-14
    assert rows["kkt", "euler x 8"]["error"] < rows["kkt", "euler x 2"]["error"]
    assert rows["adjoint", "euler x 2"]["evolution_error"] > 0
    assert rows["checkpoint", "euler x 8"]["kept_bytes"] < rows["backprop", "euler x 8"]["kept_bytes"]
    assert before == {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert "against autograd" in run_command(capsys, "gradients", folder, "--batch", 8, "--finer", 1).err
    assert_refused(run_command(capsys, "gradients", folder, "--modes", "magic"), 2, "magic")
    assert_refused(run_command(capsys, "gradients", folder, "--finer", "x"), 2, "--finer")
