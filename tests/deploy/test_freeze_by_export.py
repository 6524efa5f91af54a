"""Freezing what torch.fx cannot trace: by torch.export, from inputs."""

import pytest
import torch
from torch import nn

import anydepth as ad
from anydepth.errors import UnitError
from stacks import Loop, Pair, spread, stage


class Sized(nn.Module):
    """A forward pass that counts, which a symbolic tracer cannot follow."""

    def __init__(self, width=3):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        for _ in range(len(x.shape)):
            x = self.linear(x).tanh()
        return x


def test_a_unit_that_torch_fx_cannot_trace_is_exported_from_inputs():
    model = nn.Sequential(nn.Linear(3, 3), ad.ContinuousBlock(Sized, "linear", 3, steps=2)).double()
    with pytest.raises(UnitError, match=r"freeze\(model, inputs\)"):
        ad.freeze(model)
    frozen = ad.freeze(model, torch.randn(4, 3, dtype=torch.float64))
    for count in (2, 7):
        x = torch.randn(count, 3, dtype=torch.float64)
        torch.testing.assert_close(frozen(x), model.eval()(x), rtol=1e-12, atol=1e-12)
    assert not any(parameter.requires_grad for parameter in frozen.parameters())
    assert "ContinuousBlock" not in str(frozen)


def test_a_tuple_state_from_outside():
    block = ad.from_layers(spread(nn.Sequential(*(Pair() for _ in range(3)))))
    state = tuple(torch.randn(4, 3, dtype=torch.float64) for _ in range(2))
    with pytest.raises(UnitError, match="inputs"):
        ad.freeze(block)
    frozen = ad.freeze(block, (state,))
    other = tuple(torch.randn(5, 3, dtype=torch.float64) for _ in range(2))
    for found, expected in zip(frozen(other), block(other), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_keywords_tuples_and_masks_of_a_loop_over_layers():
    model = ad.set_solver(ad.from_layers(spread(Loop())), scheme="midpoint", steps=3).eval()
    x, mask = torch.randn(4, 5, dtype=torch.float64), torch.ones(4, 1, dtype=torch.float64)
    frozen = ad.freeze(model, {"x": x, "mask": mask})
    torch.testing.assert_close(frozen(x=x[:2], mask=0.5 * mask[:2]), model(x[:2], 0.5 * mask[:2]), rtol=1e-12, atol=0)


def test_what_fx_can_trace_stays_a_graph_of_layers():
    model = nn.Sequential(nn.Conv2d(2, 4, 3), ad.ContinuousBlock(lambda: ad.units.PreactConv(4), steps=2))
    x = torch.randn(2, 2, 6, 6)
    assert str(ad.freeze(model, x).graph) == str(ad.freeze(model).graph)


def test_a_step_that_is_a_layer_is_frozen_as_the_layer_alone():
    layers = spread(stage(4, 4, 3, stride=1)).eval()
    frozen = ad.freeze(nn.Sequential(ad.from_layers(layers)))
    x = torch.randn(2, 4, 5, 5, dtype=torch.float64)
    torch.testing.assert_close(frozen(x), layers(x), rtol=1e-12, atol=1e-12)
    assert "sub" not in str(frozen.graph)


def test_what_neither_can_follow_is_refused_in_one_line():
    class Branching(nn.Linear):
        def forward(self, x):
            return super().forward(x) if float(x.sum()) > 0 else x

    model = nn.Sequential(ad.ContinuousBlock(lambda: Branching(3, 3), steps=1))
    with pytest.raises(UnitError, match="branch on values"):
        ad.freeze(model, torch.randn(2, 3))
