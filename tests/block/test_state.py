"""State: running statistics as functions of depth."""

import copy
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import nn

import anydepth as ad
from anydepth.depth import transfer
from anydepth.depth.bases import BASES
from anydepth.depth.schemes import fixed_schemes
from anydepth.depth.times import Instant
from anydepth.errors import UnitError
from small_units import Dense, sizes_of


def buffers(model):
    return {name: tensor.clone() for name, tensor in model.named_buffers()}


def same(a, b):
    return all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("name", BASES.names())
def test_eval_changes_no_buffer_and_training_changes_all_once(name):
    block = ad.ContinuousBlock(Dense, name, 4, steps=4)
    x = torch.randn(16, 4)
    before = buffers(block.eval())
    block(x)
    block.trajectory(x)
    assert same(before, buffers(block))
    block.train().trajectory(x)
    assert same(before, buffers(block))
    block(x)
    after = buffers(block)
    assert not any(torch.equal(before[name], after[name]) for name in before)
    assert int(after["unit.bn.num_batches_tracked"]) == 1


@pytest.mark.parametrize("scheme", fixed_schemes())
def test_every_evaluation_takes_one_momentum_step_from_the_same_state(scheme):
    """With one cell, the new mean is the old one moved once towards the mean of all stages' means."""
    means = []

    class Spy(Dense):
        def forward(self, x):
            means.append(x.detach().mean(0))
            return super().forward(x)

    block = ad.ContinuousBlock(Spy, "constant", 1, scheme=scheme, steps=3)
    block(torch.randn(16, 4) + 5)
    expected = 0.1 * torch.stack(means).mean(0)
    torch.testing.assert_close(block.unit.bn.running_mean[0], expected, rtol=1e-5, atol=1e-6)


def test_cumulative_average_uses_the_counter():
    class Cumulative(Dense):
        def __init__(self):
            super().__init__()
            self.bn.momentum = None

    block = ad.ContinuousBlock(Cumulative, "constant", 2, scheme="euler", steps=2)
    xs = [torch.randn(16, 4) + i for i in range(3)]
    for x in xs:
        block(x)
    expected = torch.stack([x.mean(0) for x in xs]).mean(0)
    torch.testing.assert_close(block.unit.bn.running_mean[0], expected, rtol=1e-5, atol=1e-6)
    assert int(block.unit.bn.num_batches_tracked) == 3


def test_frozen_normalisation_stays_to_the_bit():
    block = ad.ContinuousBlock(Dense, "legendre", 5, steps=4)
    for _ in range(3):
        block(torch.randn(16, 4))
    before = buffers(block)
    block.unit.bn.eval()
    for _ in range(5):
        block(torch.randn(16, 4))
    assert same(before, buffers(block))


def digit_like_net(basis, size, scheme="rk4", steps=4):
    torch.manual_seed(3)
    block = ad.ContinuousBlock(lambda: Dense(12), basis, size, scheme=scheme, steps=steps)
    return nn.Sequential(nn.Linear(6, 12), block, nn.Linear(12, 3))


def toy_data(count=512):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(count, 6, generator=generator)
    return x, ((x[:, 0] * x[:, 1] > 0).long() + (x[:, 2] > 0.5).long())


def train(model, steps=150, lr=0.1):
    x, y = toy_data()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    model.train()
    for i in range(steps):
        batch = slice(64 * (i % 8), 64 * (i % 8) + 64)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
        optimizer.step()
    return model


def losses(model):
    """Mean loss over the training batches in train mode and in eval mode, state untouched."""
    x, y = toy_data()
    model = copy.deepcopy(model)
    totals = []
    for mode in (True, False):
        model.train(mode)
        with torch.no_grad():
            batches = [nn.functional.cross_entropy(model(x[i : i + 64]), y[i : i + 64]) for i in range(0, 512, 64)]
        totals.append(float(torch.stack(batches).mean()))
    return totals


@pytest.mark.parametrize("scheme", ["euler", "rk4"])
@pytest.mark.parametrize("name", BASES.names())
def test_eval_loss_follows_train_loss(name, scheme):
    in_train, in_eval = losses(train(digit_like_net(name, 4, scheme)))
    assert in_train < 0.6, "the net must have learnt something"
    assert abs(in_eval - in_train) <= 0.15 * in_train + 0.02


def test_projected_variances_are_positive_and_outputs_finite_for_every_basis_and_size():
    model = train(digit_like_net("constant", 8, steps=8))
    x, _ = toy_data()
    for name in BASES.names():
        for size in sizes_of(name, 8):
            small = ad.compress(model, basis=name, size=size).eval()
            for t in torch.linspace(0, 1, 50).tolist():
                assert (small[1].theta(t)["bn.running_var"] > 0).all()
            assert torch.isfinite(small(x)).all()


@pytest.mark.parametrize("name", BASES.names())
def test_a_dead_channel_does_no_harm(name):
    class HalfDead(Dense):
        def forward(self, x):
            alive = torch.ones(x.shape[1])
            alive[0] = 0
            return self.linear(self.bn(x * alive).relu()) * alive

    torch.manual_seed(0)
    block = ad.ContinuousBlock(HalfDead, name, 4, steps=4)
    for _ in range(150):
        block(torch.randn(32, 4))
    x = torch.randn(64, 4)
    assert all(torch.isfinite(tensor).all() for tensor in block.buffers())
    in_train = block(x)
    torch.testing.assert_close(block.eval()(x), in_train, rtol=0.2, atol=0.2)
    assert torch.isfinite(ad.refine(block)(x)).all()


class Tracker(nn.Module):
    """Keeps a running norm of x, in a buffer of its own."""

    def __init__(self, replaces=False):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.replaces = replaces
        self.register_buffer("level", torch.ones(()))

    def forward(self, x):
        if self.training:
            new = 0.9 * self.level + 0.1 * x.detach().norm(dim=1).mean()
            if self.replaces:
                self.level = new
            else:
                self.level.copy_(new)
        return self.linear(x) / self.level


@pytest.mark.parametrize("replaces", [False, True])
@pytest.mark.parametrize("role", ["state", "positive"])
def test_named_buffers_become_state(role, replaces):
    block = ad.ContinuousBlock(lambda: Tracker(replaces), "linear", 3, **{role: ("level",)})
    before = block.theta(0.5)["level"].clone()
    for _ in range(20):
        block(10 * torch.randn(8, 3))
    assert block.stored("level").shape == (3,)
    assert block.theta(0.5)["level"] > 2 * before


@pytest.mark.parametrize("replaces", [False, True])
def test_an_unknown_buffer_that_training_changes_is_refused_and_unharmed(replaces):
    block = ad.ContinuousBlock(lambda: Tracker(replaces), "linear", 3)
    with pytest.raises(UnitError, match=r"state=\('level',\)"):
        block(torch.randn(8, 3))
    assert float(block.unit.level) == 1.0
    block.eval()(torch.randn(8, 3))


def test_constant_buffers_are_shared_and_not_lifted():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)
            self.register_buffer("gain", torch.full((3,), 2.0))

        def forward(self, x):
            return self.linear(x) * self.gain

    block = ad.ContinuousBlock(Scaled, "linear", 5)
    assert block.state_dict()["unit.gain"].shape == (3,)
    block(torch.randn(4, 3)).sum().backward()
    with torch.inference_mode():
        block(torch.randn(4, 3))


def test_gradients_do_not_depend_on_passes_in_between():
    """Rows never alias the block's buffers: a later training pass leaves an earlier graph intact."""
    x = torch.randn(16, 4, dtype=torch.float64)
    grads = []
    for interrupted in (False, True):
        torch.manual_seed(0)
        block = ad.ContinuousBlock(Dense, "constant", 3).double().eval()
        out = block(x).square().sum()
        if interrupted:
            block.train()(x + 1)
        out.backward()
        grads.append(block.unit.linear.weight.grad)
    assert torch.equal(*grads)


class Alternating(nn.Module):
    """Batch norm of inputs whose variance jumps by four orders of magnitude between depths."""

    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(()))
        self.bn = nn.BatchNorm1d(4)

    def forward(self, x):
        return self.bn(self.gain * x)


@pytest.mark.parametrize("name", ["linear", "legendre", "bspline"])
def test_positive_state_stays_positive_where_plain_least_squares_does_not(name):
    weights = {"gain": ("constant", 8), "bn.*": (name, 5)}
    block = ad.ContinuousBlock(Alternating, weights=weights, scheme="midpoint", steps=8)
    gains = torch.tensor([3.0, 0.03, 0.03, 0.03, 0.03, 0.03, 0.03, 3.0])
    with torch.no_grad():
        block.unit.gain.copy_(gains)
        block.unit.bn.weight.zero_()
        block.unit.bn.bias.zero_()
    for _ in range(100):
        block(torch.randn(64, 4))
    variances = [block.theta(t)["bn.running_var"] for t in torch.linspace(0, 1, 101).tolist()]
    assert all((v > 0).all() and torch.isfinite(v).all() for v in variances)
    assert torch.isfinite(block.eval()(torch.randn(8, 4))).all()
    plain = transfer.fit(ad.BASES[name](5).evaluate(block.plan.instants)).from_samples @ np.repeat(
        gains.numpy() ** 2, 2
    )
    assert (ad.BASES[name](5).evaluate([Instant(Fraction(i, 100)) for i in range(101)]) @ plain).min() < 0


@pytest.mark.parametrize("name", ["linear", "legendre", "bspline"])
def test_projected_variances_stay_positive_where_plain_projection_does_not(name):
    block = ad.ContinuousBlock(Dense, "constant", 8)
    variances = torch.tensor([9.0, 9.0, 1e-3, 1e-3, 1e-3, 1e-3, 9.0, 9.0])
    block.unit.bn.running_var.copy_(variances.log()[:, None].expand(8, 4))
    for size in range(4, 7):
        small = ad.compress(block, basis=name, size=size)
        values = torch.stack([small.theta(t)["bn.running_var"] for t in torch.linspace(0, 1, 101).tolist()])
        assert (values > 0).all()
        assert torch.isfinite(small.eval()(torch.randn(8, 4))).all()
    basis = ad.BASES[name](6)
    plain = transfer.project(ad.BASES["constant"](8), basis) @ variances.numpy()
    assert (basis.evaluate([Instant(Fraction(i, 100)) for i in range(101)]) @ plain).min() < 0


@pytest.mark.parametrize("scheme", ["euler", "midpoint", "rk4"])
@pytest.mark.parametrize(("name", "size"), [("linear", 16), ("bspline", 12), ("legendre", 12), ("discontinuous", 12)])
def test_noise_is_not_amplified_where_the_samples_do_not_look(name, size, scheme):
    """Statistics of noise stay near the truth at every depth, and for every other solver."""
    torch.manual_seed(0)
    block = ad.ContinuousBlock(lambda: Dense(12), name, size, scheme=scheme, steps=size)
    with torch.no_grad():
        block.unit.linear.weight.zero_()
        block.unit.linear.bias.zero_()
    for _ in range(80):
        block(torch.randn(64, 12))
    for t in torch.linspace(0, 1, 41).tolist():
        variance = block.theta(t)["bn.running_var"]
        assert (variance > 0.2).all()
        assert (variance < 5).all()


def test_autocast_does_not_round_the_state():
    class Slow(nn.Module):
        def __init__(self):
            super().__init__()
            self.bn = nn.BatchNorm1d(4, momentum=0.01)

        def forward(self, x):
            return 0 * self.bn(x)

    block = ad.ContinuousBlock(Slow, "linear", 2, scheme="euler", steps=2)
    for _ in range(1500):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            block(torch.randn(64, 4) * 5 + 20)
    torch.testing.assert_close(block.theta(0)["bn.running_mean"], torch.full((4,), 20.0), rtol=0.02, atol=0)


def test_half_precision_and_a_dead_channel():
    class Dead(nn.Module):
        def __init__(self):
            super().__init__()
            self.bn = nn.BatchNorm1d(4, momentum=1.0)

        def forward(self, x):
            return self.bn(x * 0)

    block = ad.ContinuousBlock(Dead, "linear", 3, steps=3).half()
    block(torch.randn(16, 4).half())
    assert torch.isfinite(block.unit.bn.running_var).all()
    assert torch.isfinite(block.eval()(torch.randn(16, 4).half())).all()


def test_eval_touches_nothing_even_when_a_layer_trains():
    block = ad.ContinuousBlock(Dense, "constant", 1, steps=2).eval()
    block.unit.bn.train()
    before = buffers(block)
    block(torch.randn(16, 4) + 5)
    assert same(before, buffers(block))


def test_a_buffer_that_appears_in_training_is_refused():
    class Late(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("memory", None)

        def forward(self, x):
            self.memory = x.detach().mean(0)
            return x

    block = ad.ContinuousBlock(Late)
    with pytest.raises(UnitError, match="'memory'"):
        block(torch.randn(4, 3))
    assert block.unit.memory is None


def test_constants_that_are_not_numbers_are_not_changes():
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mask", torch.tensor([float("nan"), 1.0]))

        def forward(self, x):
            return x

    with torch.inference_mode():
        ad.ContinuousBlock(Masked)(torch.ones(2, 2))
