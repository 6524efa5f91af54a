"""Every recipe is valid, and grows to the papers' parameter counts."""

import json

import pytest
import torch

from anydepth.block.block import ContinuousBlock
from anydepth.block.roles import unfilled
from anydepth.data.facts import Facts
from anydepth.recipes import RECIPES
from anydepth.surgery.summary import summary
from anydepth.train.growth import grow
from anydepth.train.prepare import make_model
from anydepth.zoo.models.image_network import ImageNetwork
from anydepth.zoo.units import PreactConv
from command import run_command

SHAPES = {
    "digits": ((1, 8, 8), 10),
    "mnist": ((1, 28, 28), 10),
    "cifar10": ((3, 32, 32), 10),
    "cifar100": ((3, 32, 32), 100),
    "tiny-imagenet": ((3, 64, 64), 200),
    "imagefolder": ((3, 32, 32), 5),
    "csv": ((7,), 3),
    "npz": ((16, 2), 3),
    "spheres": ((2,), 2),
    "landscape": ((2,), 3),
    "ud-english-gum": ((), 46),
    "ud-german-hdt": ((), 57),
}
KINDS = {0: "sentences", 1: "vectors", 2: "series", 3: "images"}


def facts_for(config):
    shape, classes = SHAPES[config.data.name]
    shape = (config.data.options["d"],) if "d" in config.data.options else shape
    kind, labels = KINDS[len(shape)], tuple(map(str, range(classes)))
    channels = {"images": shape[:1], "series": shape[1:]}.get(kind, (0,))[0]
    ones = (1.0,) * channels
    words = ("<pad>", "<unknown>", "a") if kind == "sentences" else ()
    task = "tag" if words else "classify"
    return Facts(task=task, kind=kind, shape=shape, labels=labels, mean=ones, std=ones, words=words)


def inputs_for(facts):
    if facts.kind == "sentences":
        return torch.ones(1, 2, dtype=torch.long), torch.ones(1, 2, dtype=torch.bool)
    return (torch.zeros(1, *facts.shape),)


def grown(name):
    config = RECIPES[name]()
    model = make_model(config, facts_for(config))
    for level in range(len(config.refine.at)):
        grow(model, config.refine, level, None)
    return model


COUNTS = {
    "continuousnet-cifar10": 3_191_580,
    "continuousnet-cifar10-euler": 3_191_580,
    "continuousnet-cifar10-fixed": 3_191_580,
    "continuousnet-cifar100": 13_584_702,
    "continuousnet-cifar100-euler": 13_584_702,
    "stateful-cifar10-shallow": 206_842,
    "stateful-cifar10-deep-fixed": 1_633_530,
    "stateful-cifar100": 15_201_572,
}
"""What the papers report, exactly or as far as they print it."""


@pytest.mark.parametrize("name", RECIPES.names())
def test_every_recipe_builds_and_grows_to_its_end(name):
    model = grown(name)
    config = RECIPES[name]()
    assert config.refine.at == () or summary(model).rows[0].form.solver.endswith(f"x {2 ** len(config.refine.at)}")
    if name in COUNTS:
        assert summary(model).parameters == COUNTS[name]
    if "cifar100" not in name and "tiny" not in name:
        facts = facts_for(config)
        with torch.no_grad():
            assert model.eval()(*inputs_for(facts)).shape[-1] == len(facts.labels)


CONTINUOUSNETS = {
    "continuousnet-cifar10": ("rk4", 1, (20, 40, 60, 70, 80), (16, 32, 64), 8, True),
    "continuousnet-cifar10-euler": ("euler", 32, (), (16, 32, 64), 8, True),
    "continuousnet-cifar10-fixed": ("rk4", 32, (), (16, 32, 64), 8, True),
    "continuousnet-cifar100": ("rk4", 1, (20, 50, 80), (64, 128, 256), 4, True),
    "continuousnet-cifar100-euler": ("euler", 8, (), (64, 128, 256), 4, True),
    "continuousnet-tiny-imagenet": ("midpoint", 1, (20, 50, 80), (64, 128, 256), 1, True),
    "continuousnet-tiny-imagenet-euler": ("euler", 8, (), (64, 128, 256), 1, True),
    "continuousnet-cifar10-no-skip-init": ("rk4", 1, (20, 40, 60, 70, 80), (16, 32, 64), 8, False),
    "continuousnet-cifar10-euler-no-skip-init": ("euler", 32, (), (16, 32, 64), 8, False),
    "continuousnet-cifar100-no-skip-init": ("rk4", 1, (20, 50, 80), (64, 128, 256), 4, False),
    "continuousnet-cifar100-euler-no-skip-init": ("euler", 8, (), (64, 128, 256), 4, False),
    "continuousnet-cifar100-deep-no-skip-init": ("rk4", 1, (20, 40, 60, 80), (32, 64, 128), 4, False),
    "continuousnet-cifar100-deep-euler-no-skip-init": ("euler", 16, (), (32, 64, 128), 4, False),
}
"""Scheme, size and steps at the start, refinements, channels, scale, skip-init: C sections 5.1, 5.2 and B."""


@pytest.mark.parametrize(("name", "facts"), CONTINUOUSNETS.items())
def test_continuousnets_are_the_papers(name, facts, capsys):
    scheme, size, at, channels, scale, has_skip_init = facts
    config = json.loads(run_command(capsys, "train", name, "--show-config").out)
    assert tuple(config["refine"]["at"]) == at
    assert config["data"]["name"] in name
    with unfilled():
        options = ImageNetwork(**config["model"]["options"]).config
    assert (options["scheme"], options["size"], options["steps"]) == (scheme, size, size)
    assert (tuple(options["channels"]), options["scale"]) == (channels, scale)
    assert options["stitch_scale"] == scale / (size * 2 ** len(at))
    assert (options["unit"] == "skip_init_conv", options["stitch_skip_init"]) == (has_skip_init, has_skip_init)


def test_an_unfilled_block_takes_the_memory_of_one_function():
    with unfilled():
        block = ContinuousBlock(lambda: PreactConv(16), "linear", 64)
    weight = block.unit.conv1.weight
    assert weight.shape == (64, 16, 16, 3, 3)
    assert weight.untyped_storage().nbytes() == 4 * weight[0].numel()


STATEFUL = {
    "stateful-mnist": ((20, 50, 80), 90, 5e-4, "rk4"),
    "stateful-cifar10-shallow": ((50, 110, 150), 200, 5e-4, "rk4"),
    "stateful-cifar10-deep": ((20, 40, 70, 90), 200, 5e-4, "rk4"),
    "stateful-cifar10-deep-fixed": ((), 200, 5e-4, "euler"),
    "stateful-cifar10-deep-fixed-rk4": ((), 200, 5e-4, "rk4"),
    "stateful-cifar100": ((40, 70, 90), 200, 0.0, "rk4"),
    "stateful-cifar100-fixed": ((), 200, 0.0, "euler"),
    "stateful-cifar100-fixed-rk4": ((), 200, 0.0, "rk4"),
}
"""When they refine, epochs, weight decay and scheme: Stateful ODE-Nets E.1."""


@pytest.mark.parametrize("name", STATEFUL)
def test_image_nets_of_stateful_ode_nets_train_as_the_paper_says(name):
    config, (at, epochs, decay, scheme) = RECIPES[name](), STATEFUL[name]
    assert config.refine.at == at
    assert (config.training.epochs, config.training.batch) == (epochs, 128)
    assert (config.optimizer.lr, config.optimizer.momentum, config.optimizer.weight_decay) == (0.1, 0.9, decay)
    options = config.model.options
    assert options["scheme"] == scheme
    assert options.get("scale", 1.0) == (options["steps"] if scheme == "euler" else 1.0), "no epsilon but for Euler"
