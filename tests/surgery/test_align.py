"""Hidden units in another order: the same function, neighbours that are more alike."""

import pytest
import torch
from torch import nn

import anydepth as ad
from anydepth.errors import ConfigError
from anydepth.surgery.align import align, hidden_of
from anydepth.train.depth_penalties import roughness
from anydepth.zoo.units.encoder import Encoder
from anydepth.zoo.units.preact_conv import PreactConv
from small_units import Dense


class Residual(nn.Module):
    def __init__(self, unit):
        super().__init__()
        self.unit = unit

    def forward(self, x):
        return x + self.unit(x)


def perceptron():
    return nn.Sequential(nn.Linear(4, 9), nn.BatchNorm1d(9), nn.Tanh(), nn.Linear(9, 4))


CASES = {
    "perceptron": (perceptron, torch.randn(7, 4).double()),
    "convolutions": (lambda: PreactConv(6), torch.randn(3, 6, 5, 5).double()),
    "encoder": (lambda: Encoder(8, 2, 12), torch.randn(3, 5, 8).double()),
    "transformer": (
        lambda: nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True),
        torch.randn(3, 5, 8).double(),
    ),
}


def block_of(name, layers=5):
    torch.manual_seed(0)
    make, x = CASES[name]
    settings = {"scheme": "euler", "steps": layers, "scale": layers}
    if name == "transformer":
        return ad.from_layers([make() for _ in range(layers)]).double(), x
    block = ad.ContinuousBlock(make, "constant", layers, **settings).double()
    block(x)  # so that statistics differ
    return block, x


@pytest.mark.parametrize("name", CASES)
def test_no_output_changes(name):
    block, x = block_of(name)
    modes = {}
    for mode in (True, False):
        modes[mode] = ad.fast_paths(False)
        block.train(mode)
        with ad.fast_paths(False):
            before = block(x).detach()
            state = {key: value.clone() for key, value in block.state_dict().items()}
            rough = roughness(block).item()
            align(block)
            assert (block(x) - before).abs().max() <= 1e-12 * before.abs().max()
            assert roughness(block).item() <= rough
            block.load_state_dict(state)


@pytest.mark.parametrize("name", CASES)
def test_layers_that_differ_in_order_alone_become_the_same(name):
    make, _ = CASES[name]
    torch.manual_seed(0)
    settings = {"scheme": "euler", "steps": 4, "scale": 4, "init": "shared"}
    if name == "transformer":
        first = make()
        layers = [make() for _ in range(4)]
        for layer in layers:
            layer.load_state_dict(first.state_dict())
        block = ad.from_layers(layers).double()
    else:
        block = ad.ContinuousBlock(make, "constant", 4, **settings).double()
    original = {key: value.clone() for key, value in block.state_dict().items()}
    (group,) = hidden_of(block.unit)
    with torch.no_grad():
        for layer in range(1, 4):
            count = block.lifted[next(iter(group))].shape[0]
            order = torch.randperm(count)
            for tensor, axis in group.items():
                row = block.stored(tensor)[layer]
                row.copy_(row.index_select(axis, order))
    align(block)
    assert all(torch.equal(value, original[key]) for key, value in block.state_dict().items())


def test_units_of_ones_own_are_aligned_by_what_is_told():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1, self.fc2 = nn.Linear(4, 8), nn.Linear(8, 4)

        def forward(self, x):
            return self.fc2(torch.sin(self.fc1(x)))

    block, x = ad.ContinuousBlock(Own, "constant", 4, scheme="euler").double(), torch.randn(5, 4).double()
    before, rough = block(x).detach(), roughness(block).item()
    align(block)
    assert roughness(block).item() == rough, "nothing is known of it"
    align(block, [{"fc1.weight": 0, "fc1.bias": 0, "fc2.weight": 1}])
    assert roughness(block).item() < rough
    torch.testing.assert_close(block(x), before, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("hidden", "told"),
    [
        ([{"linear.wait": 0}], "no tensor 'linear.wait'"),
        ([{"linear.weight": 2}], "no axis 2"),
        ([{"linear.weight": 0, "linear.bias": 0, "bn.weight": 1}], "no axis 1"),
    ],
)
def test_groups_that_do_not_fit_are_refused(hidden, told):
    with pytest.raises(ConfigError, match=told):
        align(ad.ContinuousBlock(lambda: Dense(4), "constant", 3), hidden)


def test_functions_that_are_not_one_constant_per_layer_are_left_alone():
    block = ad.ContinuousBlock(perceptron, "linear", 3)
    before = {key: value.clone() for key, value in block.state_dict().items()}
    align(block)
    assert all(torch.equal(value, before[key]) for key, value in block.state_dict().items())
