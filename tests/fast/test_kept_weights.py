"""Weights that are kept between answers: whatever changes them is seen by the next answer."""

import copy
import gc
import weakref

import pytest
import torch

import anydepth as ad


def _block() -> ad.ContinuousBlock:
    torch.manual_seed(0)
    block = ad.ContinuousBlock(lambda: ad.units.PreactConv(4), "linear", 3, scheme="rk4", steps=2)
    block(torch.randn(2, 4, 5, 5))
    return block.eval()


def _agrees(block: ad.ContinuousBlock, x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        found = block(x)
        assert block.stats.path == "image"
        with ad.fast_paths(False):
            torch.testing.assert_close(found, block(x), rtol=1e-4, atol=1e-5)
    return found


def _step(block):
    for parameter in block.parameters():
        parameter.grad = torch.ones_like(parameter)
    torch.optim.SGD(block.parameters(), lr=0.01).step()


def _train(block):
    block.train()(torch.randn(2, 4, 5, 5) * 3)
    block.eval()


def _load(block):
    block.load_state_dict({n: t if "extra" in n else t * 1.1 for n, t in block.state_dict().items()})


def _point_elsewhere(block):
    for parameter in block.parameters():
        parameter.data = parameter.data * 1.1


@pytest.mark.parametrize(
    "change", [_step, _train, _load, _point_elsewhere, lambda b: ad.refine(b), lambda b: ad.set_solver(b, steps=3)]
)
def test_a_change_is_seen(change):
    block, x = _block(), torch.randn(1, 4, 5, 5)
    for last in (False, True):
        like = x.to(memory_format=torch.channels_last) if last else x
        _agrees(block, like)
        _agrees(block, like)
    change(block)
    _agrees(block, x)


def test_modes_formats_and_copies_do_not_meet():
    block, x = _block(), torch.randn(1, 4, 5, 5)
    with torch.inference_mode():
        block(x)
    before = _agrees(block, x)
    twin = copy.deepcopy(block)
    _step(twin)
    _agrees(twin, x)
    torch.testing.assert_close(_agrees(block, x), before, rtol=0, atol=0)
    block(x).sum().backward()
    assert block.get_parameter("unit.conv1.weight").grad is not None
    unit = weakref.ref(twin.unit)
    del twin
    gc.collect()
    assert unit() is None
