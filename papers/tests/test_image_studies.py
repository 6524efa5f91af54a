"""What the image studies share: their nets, their rules, and small measures."""

import pytest
import torch

from anydepth.zoo.models.image_network import ImageNetwork
from anydepth_papers.experiments.noise import Noisy
from anydepth_papers.nets.image_nets import RECIPE, net_config
from anydepth_papers.studies.roughness import kernels_of, roughness

SCHEME = {"rk4": "rk4", "hats-rk4": "rk4", "hats-midpoint": "midpoint"}
"""Of nets that are not trained with Euler."""
GROWN = ("rk4", "hats-rk4", "hats-midpoint")


@pytest.mark.parametrize("scale", ["smoke", "paper"])
@pytest.mark.parametrize("name", RECIPE)
def test_nets_differ_by_their_names_and_seeds(name, scale):
    config = net_config(name, 3, scale)
    assert config.seed == 3
    assert config.model.options["basis"] == ("linear" if name.startswith("hats") else "constant")
    assert bool(config.refine.at) == (name in GROWN), "nets with Euler are not refined"
    assert config.model.options["scheme"] == SCHEME.get(name, "euler")
    others = [net_config(other, 3, scale) for other in RECIPE if other != name]
    assert config not in others


def test_all_nets_of_the_smoke_scale_end_with_the_same_steps():
    for name in set(RECIPE) - {"resnet-1"}:
        config = net_config(name, 0, "smoke")
        assert config.model.options["steps"] * 2 ** len(config.refine.at) == 4


def test_roughness_of_known_functions():
    assert roughness([torch.ones(4, 3)]) == 0
    assert roughness([torch.tensor([[1.0], [-1.0], [1.0]])]) == 4
    one, two = torch.randn(5, 2, 3), torch.randn(5, 4)
    assert roughness([3 * one, 3 * two]) == pytest.approx(roughness([one, two]))


def test_kernels_are_those_of_all_convolutions_in_blocks():
    model = ImageNetwork(channels=(2, 3), image=(1, 8, 8), pool=2, size=3)
    assert [tuple(kernel.shape) for kernel in kernels_of(model)] == [(3, c, c, 3, 3) for c in (2, 2, 3, 3)]


def test_noise_is_the_same_for_every_model_and_none_at_strength_zero():
    x = torch.randn(4, 1, 8, 8)
    noisy = [Noisy(torch.nn.Identity(), 0.5)(x) for _ in range(2)]
    assert torch.equal(noisy[0], noisy[1])
    assert not torch.equal(noisy[0], x)
    assert torch.equal(Noisy(torch.nn.Identity(), 0.0)(x), x)
