"""Layers with skip connections: one warning, and the way out."""

import warnings

import pytest
import torch
from torch import nn

import anydepth as ad
from anydepth.errors import AnydepthWarning, ConfigError
from small_units import Smooth


class Residual(Smooth):
    def forward(self, x):
        return x + super().forward(x)


class Activated(Smooth):
    def forward(self, x):
        out = super().forward(x)
        out = out + x
        return out.relu()


@pytest.mark.parametrize("gradient", ["backprop", "checkpoint", "adjoint"])
@pytest.mark.parametrize("unit", [Residual, Activated])
def test_a_unit_that_adds_its_input_back_gets_one_warning(unit, gradient):
    model = nn.Sequential(nn.Linear(3, 3), ad.ContinuousBlock(unit, steps=2, gradient=gradient))

    def train():
        for _ in range(3):
            model(torch.randn(2, 3)).sum().backward()

    with pytest.warns(AnydepthWarning, match=r"ad\.branch\(layer\)") as told:
        train()
    assert len(told) == 1


@pytest.mark.parametrize("name", ad.UNITS.names())
def test_no_registered_unit_gets_the_warning(name):
    unit = ad.UNITS[name]
    block = ad.ContinuousBlock(lambda: unit(4), steps=1)
    shape = {2: (5, 4), 3: (2, 3, 4), 4: (3, 4, 5, 5)}[unit.input_rank]
    with warnings.catch_warnings(), ad.fast_paths(False):
        warnings.simplefilter("error")
        block(torch.randn(shape, requires_grad=True)).sum().backward()


def test_the_branch_of_a_layer_with_one_euler_step_is_the_layer():
    torch.manual_seed(0)
    layer = Residual().double()
    block = ad.ContinuousBlock(lambda: ad.branch(layer), scheme="euler", steps=1)
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(block(x), layer(x))
    with pytest.raises(ConfigError, match="branch takes"):
        ad.branch(lambda x: x)
