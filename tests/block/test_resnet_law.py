"""Euler with piecewise constants, size = steps = scale, *is* a ResNet; and other equivalences."""

import pytest
import torch
from torch import nn

import anydepth as ad
from cases import slow_but
from small_units import Dense, Smooth

ROUNDING = 2e-6
"""Weights, outputs and gradients are bit-identical; variances pass through a logarithm, two roundings a step."""


class Stack(nn.Module):
    """A hand-written residual network."""

    def __init__(self, make, depth):
        super().__init__()
        self.units = nn.ModuleList(make() for _ in range(depth))

    def forward(self, x):
        for unit in self.units:
            x = x + unit(x)
        return x

    def gather(self, name, get=lambda tensor: tensor):
        return torch.stack([get(dict([*u.named_parameters(), *u.named_buffers()])[name]) for u in self.units])


def pair(make, depth):
    torch.manual_seed(depth)
    stack = Stack(make, depth)
    torch.manual_seed(depth)
    return stack, ad.ContinuousBlock(make, "constant", depth, scheme="euler", steps=depth, scale=depth)


def assert_same(stack, block):
    for name in block.lifted:
        stored = block.stored(name)
        if name.endswith("running_var"):
            torch.testing.assert_close(stored.exp(), stack.gather(name), rtol=ROUNDING, atol=0)
        else:
            assert torch.equal(stored, stack.gather(name)), name


def train(model, x, target, steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, weight_decay=1e-3)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), target).backward()
        optimizer.step()


LONG = (1, 2, 3, 7, 8, 16, 49)
"""Depths that are trained for longer: every step that ends in the same bits starts the next one from there."""


@pytest.mark.parametrize(
    ("depth", "steps"), slow_but([(d, 20 if d in LONG else 3) for d in range(1, 65)], [(d, 20) for d in range(1, 65)])
)
def test_dense_stack_after_some_steps(depth, steps):
    stack, block = pair(lambda: Dense(3), depth)
    x, target = torch.randn(8, 3), torch.randn(8, 3)
    assert torch.equal(block(x), stack(x))
    train(stack, x, target, steps)
    train(block, x, target, steps)
    assert_same(stack, block)
    torch.testing.assert_close(block.eval()(x), stack.eval()(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("depth", "steps"),
    slow_but([(1, 20), (2, 20), (7, 20), (9, 20), (12, 3), (49, 3), (64, 3)], [(12, 20), (49, 20), (64, 20)]),
)
def test_preactivation_conv_stack_after_some_steps(depth, steps):
    stack, block = pair(lambda: ad.units.PreactConv(2), depth)
    x, target = torch.randn(3, 2, 4, 4), torch.randn(3, 2, 4, 4)
    one, other = stack(x), block(x)
    assert torch.equal(one, other)
    one.square().mean().backward()
    other.square().mean().backward()
    for name, part in block.unit.named_parameters():
        assert torch.equal(part.grad, stack.gather(name, lambda tensor: tensor.grad)), name
    train(stack, x, target, steps)
    train(block, x, target, steps)
    assert_same(stack, block)


@pytest.mark.parametrize("unit", ad.UNITS.names())
def test_every_unit_in_a_stack(unit):
    kind = ad.UNITS[unit]
    stack, block = pair(lambda: kind(8), 3)
    x = torch.randn(4, *{2: (8,), 3: (5, 8), 4: (8, 4, 4)}[kind.input_rank])
    out, wanted = block(x), stack(x)
    if block.stats.path == "native":  # sums of another order: some units in the last place
        torch.testing.assert_close(out, wanted, rtol=1e-5, atol=1e-5)
        with ad.fast_paths(False):
            out = block(x)
    assert torch.equal(out, wanted)
    assert_same(stack, block)


class WithTime(nn.Module):
    """A linear layer that gets t as one more feature."""

    def __init__(self, width=3):
        super().__init__()
        self.linear = nn.Linear(width + 1, width)

    def forward(self, t, x):
        return torch.tanh(self.linear(torch.cat([x, t.expand(len(x), 1)], dim=1)))


@pytest.mark.parametrize("scheme", ["euler", "rk4"])
def test_concatenating_t_is_a_constant_weight_and_a_linear_bias(scheme):
    """Stateful ODE-Nets App. B: W [x, t] + b = W_x x + (b + w_t t)."""
    timed = ad.ContinuousBlock(WithTime, size=1, scheme=scheme, steps=5, time=True).double()
    mixed = ad.ContinuousBlock(
        Smooth, weights={"*weight": ("constant", 1), "*bias": ("linear", 2)}, scheme=scheme, steps=5
    ).double()
    with torch.no_grad():
        weight, bias = timed.unit.linear.weight[0], timed.unit.linear.bias[0]
        mixed.unit.linear.weight[0] = weight[:, :3]
        mixed.unit.linear.bias[0], mixed.unit.linear.bias[1] = bias, bias + weight[:, 3]
    x = torch.randn(6, 3, dtype=torch.float64)
    torch.testing.assert_close(timed(x), mixed(x), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("scheme", ["euler", "midpoint", "rk4_38"])
def test_stacked_blocks_are_piecewise_constants(scheme):
    """Three Neural ODEs in a row, each over a third of the depth."""
    one = ad.ContinuousBlock(Smooth, "constant", 3, scheme=scheme, steps=6, scale=3).double()
    x = y = torch.randn(6, 3, dtype=torch.float64)
    for k in range(3):
        part = ad.ContinuousBlock(Smooth, "constant", 1, scheme=scheme, steps=2, scale=1).double()
        for name, tensor in one.unit.named_parameters():
            dict(part.unit.named_parameters())[name].data.copy_(tensor[k : k + 1])
        y = part(y)
    torch.testing.assert_close(one(x), y, rtol=1e-14, atol=1e-15)
