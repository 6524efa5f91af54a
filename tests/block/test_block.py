"""The contract of ContinuousBlock as a PyTorch module."""

import copy
import io

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import anydepth as ad
from anydepth.depth.bases import BASES
from anydepth.errors import AnydepthWarning, ConfigError, UnitError
from small_units import Dense, Smooth, sizes_of


def test_keys_are_the_units_own_with_a_leading_axis():
    block = ad.ContinuousBlock(Dense, "linear", 5, steps=4)
    shapes = {name: tuple(tensor.shape) for name, tensor in block.state_dict().items() if name != "_extra_state"}
    plain = {f"unit.{name}": tuple(tensor.shape) for name, tensor in Dense().state_dict().items()}
    assert shapes == {k: v if k.endswith("tracked") else (5, *v) for k, v in plain.items()}


@pytest.mark.parametrize("name", BASES.names())
def test_loading_another_size_resizes_first(name):
    sizes = sizes_of(name)
    large = ad.ContinuousBlock(Dense, name, sizes[-1], scheme="euler", steps=4)
    small = ad.ContinuousBlock(Dense, name, sizes[1], scheme="euler", steps=4)
    x = torch.randn(8, 4)
    large(x)
    result = small.load_state_dict(large.state_dict())
    assert not result.missing_keys
    assert small.size == large.size
    assert torch.equal(small.eval()(x), large.eval()(x))


def test_loading_a_wrong_shape_is_pytorchs_own_error():
    block = ad.ContinuousBlock(Dense, "constant", 3)
    bad = block.state_dict() | {"unit.linear.weight": torch.zeros(3, 5, 5)}
    with pytest.raises(RuntimeError, match="size mismatch"):
        block.load_state_dict(bad)


def test_deepcopy_pickle_and_torch_save():
    block = ad.ContinuousBlock(Dense, "bspline", 5, steps=3)
    x = torch.randn(8, 4)
    twin = copy.deepcopy(block)
    assert torch.equal(block(x), twin(x))
    with torch.no_grad():
        twin.unit.linear.weight.zero_()
    assert not torch.equal(block.eval()(x), twin.eval()(x))
    file = io.BytesIO()
    torch.save(block, file)
    file.seek(0)
    again = torch.load(file, weights_only=False)
    assert torch.equal(block.eval()(x), again.eval()(x))


def test_double_half_and_device_moves():
    x = torch.randn(8, 4)
    block = ad.ContinuousBlock(Dense, "legendre", 3, steps=3).eval()
    single, double = block(x), copy.deepcopy(block).double()(x.double())
    assert double.dtype == torch.float64
    torch.testing.assert_close(single.double(), double, rtol=1e-5, atol=1e-6)
    low = copy.deepcopy(block).bfloat16()(x.bfloat16())
    assert low.dtype == torch.bfloat16
    torch.testing.assert_close(low.float(), single, rtol=0.1, atol=0.1)
    moved = copy.deepcopy(block).to("meta")
    assert all(tensor.is_meta for tensor in (*moved.parameters(), *moved.buffers()))
    assert not moved.state_dict()["_extra_state"].is_meta


def test_low_precision_accumulates_in_float32():
    """1024 steps of 1/1024 in bfloat16 would stall at the first rounding."""

    class One(nn.Module):
        def forward(self, x):
            return torch.ones_like(x)

    out = ad.ContinuousBlock(One, scheme="euler", steps=1024)(torch.full((2, 2), 4.0, dtype=torch.bfloat16))
    assert out.dtype == torch.bfloat16
    assert torch.equal(out, torch.full((2, 2), 5.0, dtype=torch.bfloat16))


def test_autocast_never_rounds_theta():
    seen = []

    class Spy(Smooth):
        def forward(self, x):
            seen.append((self.linear.weight.dtype, self.linear.weight.detach().clone()))
            return super().forward(x)

    block = ad.ContinuousBlock(Spy, "linear", 3, scheme="euler", steps=3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = block(torch.randn(5, 3))
    assert out.dtype == torch.float32
    assert all(dtype == torch.float32 for dtype, _ in seen)
    torch.testing.assert_close(seen[1][1], block.theta("1/3")["linear.weight"], rtol=1e-6, atol=1e-7)


def test_requires_grad_and_freezing():
    block = ad.ContinuousBlock(Dense, "linear", 3).requires_grad_(False)
    assert not any(p.requires_grad for p in block.parameters())
    x = torch.randn(4, 4, requires_grad=True)
    block(x).sum().backward()
    assert x.grad is not None
    ad.refine(block)
    assert not any(p.requires_grad for p in block.parameters())


def test_context_arguments_reach_every_evaluation_with_gradients():
    class Masked(Smooth):
        def forward(self, x, mask, gain=1.0):
            return super().forward(x) * mask * gain

    block = ad.ContinuousBlock(Masked, steps=2)
    mask = torch.tensor([1.0, 0.0, 1.0], requires_grad=True)
    x = torch.randn(4, 3)
    out = block(x, mask, gain=2.0)
    assert torch.equal(out[:, 1], x[:, 1])
    out.sum().backward()
    assert mask.grad is not None
    assert mask.grad.abs().sum() > 0
    assert torch.equal(block.trajectory(x, [1], mask, gain=2.0)[0], out)


def test_time_is_passed_first_and_only_when_asked_for():
    times = []

    class Clock(nn.Module):
        def forward(self, t, x):
            times.append(float(t))
            return 2 * t * torch.ones_like(x)

    out = ad.ContinuousBlock(Clock, scheme="rk4", steps=2, time=True)(torch.zeros(1, 1))
    assert times == [0, 0.25, 0.25, 0.5, 0.5, 0.75, 0.75, 1]
    assert float(out) == pytest.approx(1.0)


def test_tuple_states_oscillate():
    class Oscillator(nn.Module):
        def forward(self, state):
            q, p = state
            return p, -q

    block = ad.ContinuousBlock(Oscillator, steps=20)
    q, p = block((torch.ones(3, 1), torch.zeros(3, 2)[:, :1]))
    torch.testing.assert_close(q, torch.full((3, 1), 1.0).cos(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(p, -torch.full((3, 1), 1.0).sin(), rtol=1e-5, atol=1e-6)
    path = block.trajectory((torch.ones(3, 1), torch.zeros(3, 1)), [0, 1])
    assert [part.shape for part in path] == [(2, 3, 1), (2, 3, 1)]


def test_nfe_counts_evaluations():
    calls = []

    class Counted(Smooth):
        def forward(self, x):
            calls.append(1)
            return super().forward(x)

    block = ad.ContinuousBlock(Counted, scheme="rk4", steps=3)
    block(torch.randn(2, 3))
    assert block.nfe == len(calls) == 12


def test_weights_by_pattern_first_match_counts():
    block = ad.ContinuousBlock(
        Dense,
        weights={
            "linear.bias": ("legendre", 3),
            "bn.*": ad.make_basis("linear", knots=[0, 0.3, 1]),
            "*": ("constant", 2),
        },
    )
    assert {name: str(f) for name, f in block.functions.items()} == {
        "linear.weight": "constant:2",
        "linear.bias": "legendre:3",
        "bn.weight": "linear:3",
        "bn.bias": "linear:3",
        "bn.running_mean": "linear:3",
        "bn.running_var": "linear:3",
    }
    assert block.steps == 3
    block(torch.randn(4, 4)).sum().backward()


@pytest.mark.parametrize("name", BASES.names())
@given(index=st.integers(0, 6))
def test_the_function_is_initialised_not_the_coefficients(name, index):
    """At its control points, theta is what the factory drew, independently."""
    sizes = sizes_of(name)
    size = sizes[index % len(sizes)]
    torch.manual_seed(index)
    block = ad.ContinuousBlock(Smooth, name, size).double()
    torch.manual_seed(index)
    drawn = [Smooth().linear.weight.double() for _ in range(size)]
    points = ad.BASES[name](size).control_points
    for point, weight in zip(points, drawn, strict=True):
        torch.testing.assert_close(block.theta(point.time, point.side)["linear.weight"], weight, rtol=1e-4, atol=1e-5)


def test_shared_init_is_constant_over_depth():
    block = ad.ContinuousBlock(Smooth, "bspline", 6, init="shared")
    first, last = block.theta(0)["linear.weight"], block.theta(1)["linear.weight"]
    torch.testing.assert_close(first, last)
    assert ad.ContinuousBlock(Smooth(), "linear", 3, init="shared").size == 3


def test_units_that_tie_weights():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(3, 3)
            self.b = nn.Linear(3, 3)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x).tanh())

    block = ad.ContinuousBlock(Tied, "linear", 3)
    assert block.unit.a.weight is block.unit.b.weight
    ad.refine(block)
    assert block.unit.a.weight is block.unit.b.weight
    assert block.unit.a.weight.shape == (5, 3, 3)
    block(torch.randn(4, 3)).sum().backward()


def test_inference_mode_then_training():
    """Matrices made under inference mode must serve autograd afterwards."""
    block = ad.ContinuousBlock(Dense, "linear", 3).eval()
    x = torch.randn(4, 4)
    with torch.inference_mode():
        block(x)
    block.train()(x).sum().backward()
    assert block.unit.linear.weight.grad is not None


def test_gradients_are_those_of_finite_differences():
    block = ad.ContinuousBlock(Smooth, "bspline", 4, scheme="rk4_38", steps=2).double()
    x = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    names = [name for name, _ in block.named_parameters()]

    def run(x, *tensors):
        return torch.func.functional_call(block, dict(zip(names, tensors, strict=True)), (x,))

    assert torch.autograd.gradcheck(run, (x, *block.parameters()))


def test_a_unit_without_tensors_and_printing():
    class Decay(nn.Module):
        def forward(self, x):
            return -x

    block = ad.ContinuousBlock(Decay, steps=10)
    torch.testing.assert_close(block(torch.ones(2, 2)), torch.full((2, 2), -1.0).exp(), rtol=1e-5, atol=1e-6)
    assert "rk4" in repr(block)
    assert "(the rest)" in str(ad.summary(nn.Sequential(nn.Linear(2, 2), block)))


def test_adaptive_schemes_have_no_steps():
    with pytest.raises(ConfigError, match="adaptive"):
        ad.ContinuousBlock(Smooth, scheme="dopri54", steps=4)


def test_a_memory_format_for_images_passes_lifted_kernels_by():
    block = ad.ContinuousBlock(lambda: ad.units.PreactConv(4), "linear", 3, steps=2)
    x = torch.randn(2, 4, 6, 6)
    before = block.eval()(x)
    moved = block.to(memory_format=torch.channels_last)
    torch.testing.assert_close(moved(x.to(memory_format=torch.channels_last)), before)
    assert moved.double().unit.conv1.weight.dtype == torch.float64


def test_time_comes_in_the_precision_of_x():
    class Clock(nn.Module):
        def forward(self, t, x):
            return torch.cat([x[:, 1:], t.expand(len(x), 1)], dim=1)

    block = ad.ContinuousBlock(Clock, time=True)
    assert block(torch.zeros(2, 3, dtype=torch.bfloat16)).dtype == torch.bfloat16


def test_loading_into_given_knots_does_not_lose_them():
    block = ad.ContinuousBlock(Dense, ad.make_basis("linear", knots=[0, 0.1, 1]))
    grown = ad.refine(copy.deepcopy(block))
    assert str(grown.functions["linear.weight"].basis.knots) != "()"
    told = {name: tensor for name, tensor in grown.state_dict().items() if name != "_extra_state"}
    with pytest.raises(RuntimeError, match="size mismatch"), pytest.warns(AnydepthWarning):
        block.load_state_dict(told)
    with pytest.raises(ConfigError, match="no rule"):
        ad.compress(grown, size=2)
    assert ad.compress(grown, basis="linear", size=2).size == 2


def test_a_unit_that_overwrites_its_input_is_refused():
    block = ad.ContinuousBlock(lambda: nn.Sequential(nn.ReLU(inplace=True), nn.Linear(3, 3)))
    with pytest.raises(UnitError, match="in place"):
        block(torch.randn(2, 3))


def test_times_as_a_tensor_and_scale_as_a_numpy_number():
    block = ad.ContinuousBlock(Smooth, steps=4, scale=np.float32(2))
    x = torch.randn(2, 3)
    torch.testing.assert_close(block.trajectory(x, torch.tensor([0.0, 0.25, 1.0]))[2], block(x))
