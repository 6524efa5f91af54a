"""Faults of single passes that must not come back: gradients, memory, drift, transforms, devices."""

import gc
import weakref
from itertools import product

import pytest
import torch
from torch import nn

import anydepth as ad
from anydepth.depth.bases import BASES
from anydepth.depth.schemes import SCHEMES, fixed_schemes
from anydepth.errors import NumericalError
from small_units import Dense, Smooth


def penalised(mode, **options):
    """Gradients of a gradient penalty, which differentiates a pass twice."""
    torch.manual_seed(0)
    block = ad.ContinuousBlock(Smooth, "linear", 3, steps=4, gradient=mode, **options).double()
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    inputs = [x, *block.parameters()]
    first = torch.autograd.grad(block(x).square().sum(), inputs, create_graph=True)
    return [*first, *torch.autograd.grad(sum(part.square().sum() for part in first), inputs)]


@pytest.mark.parametrize("segment", [1, 2])
def test_checkpoint_differentiated_twice_is_backprop(segment):
    for one, other in zip(penalised("backprop"), penalised("checkpoint", segment=segment), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("mode", ["backprop", "checkpoint", "adjoint", "kkt"])
def test_a_pass_that_is_dropped_leaves_no_cycle(mode):
    block = ad.ContinuousBlock(Smooth, "linear", 3, steps=4, gradient=mode)
    gc.collect()
    gc.disable()
    try:
        out = block(torch.randn(4, 3, requires_grad=True))
        watched = weakref.ref(out)
        del out
        assert watched() is None
    finally:
        gc.enable()


def test_many_steps_of_rk4_do_not_drift_on_the_path_for_images():
    """A field that is zero leaves x as it is; factors of 1/3 that do not add up would let it grow."""
    torch.manual_seed(0)
    block = ad.ContinuousBlock(lambda: nn.Sequential(nn.Conv2d(2, 2, 1), nn.ReLU()), steps=2000)
    nn.init.zeros_(block.unit[0].weight)
    nn.init.zeros_(block.unit[0].bias)
    x = torch.rand(1, 2, 3, 3) + 1
    with torch.no_grad():
        gap = float((block(x) - x).abs().max())
    assert block.stats.path == "image"
    assert gap < 1e-6


def test_batched_gradients_of_channels_last_images():
    block = ad.ContinuousBlock(lambda: ad.units.PreactConv(3), steps=2).eval()
    for allowed in (True, False):
        with ad.fast_paths(allowed):
            x = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last).requires_grad_()
            out = block(x)
            seeds = torch.randn(3, *out.shape)
            (many,) = torch.autograd.grad(out, x, seeds, is_grads_batched=True, retain_graph=True)
            single = [torch.autograd.grad(out, x, seed, retain_graph=True)[0] for seed in seeds]
            torch.testing.assert_close(many, torch.stack(single), rtol=1e-4, atol=1e-5)


def test_two_relus_in_a_row_differentiated_twice():
    block = ad.ContinuousBlock(
        lambda: nn.Sequential(nn.Conv2d(2, 2, 1), nn.ReLU(), nn.ReLU(), nn.Conv2d(2, 2, 1)), steps=2
    ).double()
    x = torch.randn(1, 2, 3, 3, dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(block(x).sin().sum(), x, create_graph=True)
    first.square().sum().backward()
    assert block.stats.path == "image"
    assert torch.isfinite(x.grad).all()


def test_transforms_of_a_training_block_whose_norms_are_frozen():
    block = ad.ContinuousBlock(Dense, "linear", 3, steps=2)
    block.unit.bn.eval()
    before = {name: tensor.clone() for name, tensor in block.named_buffers()}
    x = torch.randn(4, 4)
    found = torch.func.grad(lambda x: block(x).square().sum())(x)
    assert found.shape == x.shape
    assert all(torch.equal(before[name], tensor) for name, tensor in block.named_buffers())


SHAPES = {2: (5, 4), 3: (2, 3, 4), 4: (3, 4, 5, 5)}
MODES = ("backprop", "checkpoint", "adjoint", "kkt")


def on_meta(unit, basis="linear", scheme="rk4", gradient="backprop"):
    """A training pass and what surgery makes of the block, where tensors have no numbers."""
    with torch.device("meta"):
        block = ad.ContinuousBlock(lambda: unit(4), basis, 2, scheme=scheme, steps=2, gradient=gradient)
        x = torch.empty(SHAPES[unit.input_rank], requires_grad=True)
    block(x).sum().backward()
    assert x.grad.is_meta
    assert all(p.grad.is_meta for p in block.parameters() if p.grad is not None)
    return block, x


@pytest.mark.parametrize("name", ad.UNITS.names())
def test_units_run_on_the_meta_device(name):
    for gradient in MODES:
        on_meta(ad.UNITS[name], gradient=gradient)
    block, x = on_meta(ad.UNITS[name])
    ad.refine(block)
    assert ad.compress(block, basis="constant", size=2)(x).is_meta
    assert all(tensor.is_meta for tensor in block.parameters())


@pytest.mark.parametrize(("basis", "scheme"), list(product(BASES.names(), fixed_schemes())))
def test_bases_and_schemes_run_on_the_meta_device(basis, scheme):
    assert on_meta(ad.units.PreactConv, basis, scheme)[0].steps == 2


def test_no_number_is_read_back_where_none_can_be():
    """The meta device has no numbers: whoever asked for one would raise. Adaptive schemes need them."""
    assert {scheme for scheme in SCHEMES if not SCHEMES[scheme].is_adaptive} == set(fixed_schemes())
    block, _ = on_meta(ad.units.MLP)
    block.check_inputs()


def test_a_flag_on_a_device_is_read_on_request(monkeypatch):
    """As on an accelerator: the pass goes on, and asking refuses once."""
    block = ad.ContinuousBlock(Smooth)
    monkeypatch.setattr("anydepth.solve.tensors.check_finite", lambda *_: None)
    block._finite._flags[torch.device("cpu")] = torch.tensor(False)
    with pytest.raises(NumericalError, match="not finite"):
        block.check_inputs()
    block.check_inputs()


def test_an_input_that_is_not_finite_is_refused_on_a_cpu():
    block = ad.ContinuousBlock(Smooth)
    with pytest.raises(NumericalError, match="non-finite"):
        block(torch.full((2, 3), float("nan")))
