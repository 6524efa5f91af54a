"""Checkpointing on the path for images: the gradients of back-propagation to the bit, and less that is kept."""

import pytest
import torch

import anydepth as ad


def block_of(gradient, segment=1, scheme="rk4"):
    torch.manual_seed(0)
    make = lambda: ad.units.PreactConv(4)  # noqa: E731
    return ad.ContinuousBlock(make, "linear", 3, scheme=scheme, steps=4, gradient=gradient, segment=segment)


def trained(block, x, mode=True):
    """Output, gradients and state after a training step."""
    block.train(mode)
    x = x.clone().requires_grad_()
    out = block(x)
    out.square().sum().backward()
    parameters = {name: parameter.grad for name, parameter in block.named_parameters()}
    return {"out": out.detach(), "x": x.grad, **parameters, **{f"state {n}": b for n, b in block.named_buffers()}}


@pytest.mark.parametrize("scheme", ["euler", "rk4", "rk4_38"])
@pytest.mark.parametrize("mode", [True, False])
def test_all_is_as_with_backprop_to_the_bit(scheme, mode):
    x = torch.randn(3, 4, 6, 6)
    block = block_of("checkpoint", scheme=scheme)
    found, expected = trained(block, x, mode), trained(block_of("backprop", scheme=scheme), x, mode)
    assert block.stats.path == "image"
    assert all(torch.equal(found[name], value) for name, value in expected.items())


def test_little_is_kept():
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.data_ptr()) or t, lambda t: t):
        x = torch.randn(3, 4, 6, 6, requires_grad=True)
        sizes = {}
        for mode in ("backprop", "checkpoint"):
            kept.clear()
            block_of(mode)(x)
            sizes[mode] = len(set(kept))
    assert 2 * sizes["checkpoint"] < sizes["backprop"]


def test_gradients_of_gradients():
    block, x = block_of("checkpoint").double().eval(), torch.randn(1, 4, 3, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(block, x)
    assert block.stats.path == "image"


def test_longer_segments_take_the_general_path():
    block = block_of("checkpoint", segment=2)
    block(torch.randn(2, 4, 3, 3))
    assert "segment" in block.stats.refused["image"]
