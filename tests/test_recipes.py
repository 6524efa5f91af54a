"""Every recipe is valid, and grows to the papers' parameter counts."""

import pytest
import torch

from anydepth.data.facts import Facts
from anydepth.nn.block import ContinuousBlock
from anydepth.nn.roles import unfilled
from anydepth.nn.units import PreactConv
from anydepth.recipes import RECIPES
from anydepth.surgery.summary import summary
from anydepth.train.growth import grow
from anydepth.train.prepare import make_model

SHAPES = {
    "digits": ((1, 8, 8), 10),
    "mnist": ((1, 28, 28), 10),
    "cifar10": ((3, 32, 32), 10),
    "cifar100": ((3, 32, 32), 100),
    "tiny-imagenet": ((3, 64, 64), 200),
}


def facts_for(config):
    shape, classes = SHAPES[config.data.name]
    ones = (1.0,) * shape[0]
    labels = tuple(map(str, range(classes)))
    return Facts(task="classify", kind="images", shape=shape, labels=labels, mean=ones, std=ones)


def grown(name):
    config = RECIPES[name]()
    model = make_model(config, facts_for(config))
    for level in range(len(config.refine.at)):
        grow(model, config.refine, level, None)
    return model


COUNTS = {
    "continuousnet-cifar10": 3_191_580,
    "continuousnet-cifar10-fixed": 3_191_580,
    "continuousnet-cifar100": 13_584_702,
    "stateful-cifar10-shallow": 206_842,
}
"""What the papers report, exactly."""


@pytest.mark.parametrize("name", RECIPES.names())
def test_every_recipe_builds_and_grows_to_its_end(name):
    model = grown(name)
    config = RECIPES[name]()
    assert config.refine.at == () or summary(model).rows[0].form.solver.endswith(f"x {2 ** len(config.refine.at)}")
    if name in COUNTS:
        assert summary(model).parameters == COUNTS[name]
    shape, classes = SHAPES[config.data.name]
    if "cifar100" not in name and "tiny" not in name:
        with torch.no_grad():
            assert model.eval()(torch.zeros(1, *shape)).shape == (1, classes)


def test_an_unfilled_block_takes_the_memory_of_one_function():
    with unfilled():
        block = ContinuousBlock(lambda: PreactConv(16), "linear", 64)
    weight = block.unit.conv1.weight
    assert weight.shape == (64, 16, 16, 3, 3)
    assert weight.untyped_storage().nbytes() == 4 * weight[0].numel()
