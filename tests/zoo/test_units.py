"""Units and models: conformance of every registered one, and the papers' parameter counts."""

import pytest
import torch
from torch import Tensor, nn

import anydepth as ad
from anydepth.depth.bases import BASES


def example(kind, channels=8):
    return torch.randn(4, *{2: (channels,), 3: (5, channels), 4: (channels, 6, 6)}[kind.input_rank])


@pytest.mark.parametrize("name", ad.UNITS.names())
def test_unit_keeps_the_shape_and_trains_in_a_block(name):
    kind = ad.UNITS[name]
    x = example(kind)
    assert kind(8)(x).shape == x.shape
    block = ad.ContinuousBlock(lambda: kind(8), "linear", 3, steps=2)
    block(x).square().mean().backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in block.parameters())


def test_skip_init_starts_as_the_identity_and_can_leave_it():
    block = ad.ContinuousBlock(lambda: ad.units.SkipInitConv(4), "constant", 2)
    x = torch.randn(2, 4, 5, 5)
    assert torch.equal(block(x), x)
    block(x).square().sum().backward()
    assert block.unit.skip.grad.abs().sum() > 0


@pytest.mark.parametrize("normalise", [True, False])
def test_units_without_normalisation_have_no_statistics(normalise):
    unit = ad.units.PreactConv(4, normalise=normalise)
    assert bool(list(unit.buffers())) is normalise


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("name", ["preact_conv", "postact_conv", "bottleneck"])
def test_a_relu_written_in_place_is_the_plain_one(name, normalise, training, monkeypatch):
    """Outputs, gradients and gradients of gradients to the bit; the input is left alone."""
    unit = ad.UNITS[name](4, normalise=normalise).double().train(training)
    x = torch.randn(3, 4, 5, 5, dtype=torch.float64, requires_grad=True)
    before, found = x.detach().clone(), []
    for write in (Tensor.relu_, Tensor.relu):
        monkeypatch.setattr(Tensor, "relu_", write)
        y = unit(x)
        grads = torch.autograd.grad(y.square().sum(), (x, *unit.parameters()), create_graph=True)
        again = torch.autograd.grad(sum(grad.square().sum() for grad in grads), x)
        found.append([y, *grads, *again])
    assert all(map(torch.equal, *found))
    assert torch.equal(x, before)


def test_who_looks_at_a_norm_sees_its_result():
    unit, seen = ad.units.PreactConv(4).eval(), []
    unit.bn1.register_forward_hook(lambda module, given, out: seen.append((given[0], out)))
    unit(torch.randn(2, 4, 5, 5))
    assert torch.equal(seen[0][1], nn.functional.batch_norm(seen[0][0], torch.zeros(4), torch.ones(4)))
    assert seen[0][1].min() < 0


def test_stitches():
    x = torch.randn(2, 4, 8, 8)
    same = ad.Stitch(4, 4)
    assert isinstance(same.skip, nn.Identity)
    assert ad.Stitch(4, 8, stride=2)(x).shape == (2, 8, 4, 4)
    started = ad.Stitch(4, 4, skip_init=True)
    assert torch.equal(started(x), x)
    small = ad.Stitch(4, 4, scale=0.25).eval()
    residual = small.conv2(small.bn2(small.conv1(small.bn1(x).relu())).relu())
    torch.testing.assert_close(small(x), x + 0.25 * residual)


CONTINUOUS_NET = {"unit": "skip_init_conv", "first_stitch": False, "stitch_skip_init": True}
COUNTS = [
    *[(CONTINUOUS_NET | {"size": m}, n) for m, n in ((1, 170_847), (2, 268_290), (4, 463_176), (8, 852_948))],
    (CONTINUOUS_NET | {"size": 16}, 1_632_492),
    (CONTINUOUS_NET | {"size": 32}, 3_191_580),
    ({"channels": [16, 32], "size": 8}, 206_842),
    ({"channels": [16, 32], "size": 4}, 113_914),
    ({"size": 16}, 1_633_530),
    ({"size": 8}, 855_802),
]


@pytest.mark.parametrize(("config", "count"), COUNTS)
def test_parameter_counts_of_the_papers(config, count):
    assert sum(p.numel() for p in ad.build("image", **config).parameters()) == count


@pytest.mark.parametrize("basis", BASES.names())
def test_image_network_runs_on_any_basis(basis):
    model = ad.build("image", channels=[4, 8], image=[1, 8, 8], pool=2, basis=basis, size=4, steps=2)
    assert model(torch.randn(3, 1, 8, 8)).shape == (3, 10)
