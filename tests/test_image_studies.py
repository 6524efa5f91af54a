"""What the image studies share: their nets, their rules, and small measures."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anydepth.reproduce.experiments.compression import sizes_of
from anydepth.reproduce.experiments.full_scale import CASES, parameters_of
from anydepth.reproduce.experiments.noise import Noisy
from anydepth.reproduce.experiments.weights import kernels_of, roughness
from anydepth.reproduce.judging import differences, is_above, spread
from anydepth.reproduce.nets import RECIPE, SETTINGS, final_steps, net_config
from anydepth.surgery.blocks import blocks_of
from anydepth.surgery.resize import compress, refine
from anydepth.surgery.summary import summary
from anydepth.zoo.models.image import ImageNetwork

POINTS = st.lists(st.floats(-100, 100), min_size=2, max_size=6)


@given(POINTS)
def test_a_comparison_and_its_converse_are_never_both_decided_the_same_way(points):
    there, back = is_above(points), is_above([-point for point in points])
    assert (there, back) in {(True, False), (False, True), (None, None)}


def test_comparisons_are_decided_beyond_two_standard_errors():
    assert is_above([1.0, 1.1, 0.9]) is True
    assert is_above([-1.0, -1.1, -0.9]) is False
    assert is_above([1.0, -1.0, 0.5]) is None
    assert is_above([5.0]) is None, "one seed has no spread"
    assert differences([3, 2], [1, 1]) == [2, 1]
    assert spread([1, 3]) == "2.00 (1.00 to 3.00)"
    assert spread([1.001, 1.002]) == "1.00"


@pytest.mark.parametrize("scale", SETTINGS)
@pytest.mark.parametrize("name", RECIPE)
def test_nets_differ_by_their_names_and_seeds(name, scale):
    settings = SETTINGS[scale]
    config = net_config(name, 3, settings)
    assert config.seed == 3
    assert config.model.options["scheme"] == ("rk4" if name.endswith("rk4") else "euler")
    assert config.model.options["basis"] == ("linear" if name.startswith("hats") else "constant")
    assert bool(config.refine.at) == (name != "resnet")
    others = [net_config(other, 3, settings) for other in RECIPE if other != name]
    assert config not in others


def test_all_nets_of_a_scale_end_with_the_same_steps():
    for name in RECIPE:
        config = net_config(name, 0, SETTINGS["smoke"])
        steps = config.model.options["steps"] * 2 ** len(config.refine.at)
        assert steps == final_steps(SETTINGS["smoke"])


def test_roughness_of_known_functions():
    assert roughness([torch.ones(4, 3)]) == 0
    assert roughness([torch.tensor([[1.0], [-1.0], [1.0]])]) == 4
    one, two = torch.randn(5, 2, 3), torch.randn(5, 4)
    assert roughness([3 * one, 3 * two]) == pytest.approx(roughness([one, two]))


def test_kernels_are_those_of_all_convolutions_in_blocks():
    model = ImageNetwork(channels=(2, 3), image=(1, 8, 8), pool=2, size=3)
    assert [tuple(kernel.shape) for kernel in kernels_of(model)] == [(3, c, c, 3, 3) for c in (2, 2, 3, 3)]


@pytest.mark.parametrize(("basis", "sizes"), [("constant", 6), ("linear", 5), ("discontinuous", 4)])
def test_a_net_can_be_compressed_to_every_size_of_the_study(basis, sizes):
    model = ImageNetwork(channels=(2,), image=(1, 8, 8), pool=2, basis="linear", size=9, steps=1)
    assert len(sizes_of(basis, 9)) == sizes
    for size in sizes_of(basis, 9):
        block = next(iter(blocks_of(compress(model, basis, size)).values()))
        assert block.size == size


def test_noise_is_the_same_for_every_model_and_none_at_strength_zero():
    x = torch.randn(4, 1, 8, 8)
    noisy = [Noisy(torch.nn.Identity(), 0.5)(x) for _ in range(2)]
    assert torch.equal(noisy[0], noisy[1])
    assert not torch.equal(noisy[0], x)
    assert torch.equal(Noisy(torch.nn.Identity(), 0.0)(x), x)


@pytest.mark.parametrize("case", [case for case in CASES if case.recipe in ("stateful-mnist", "stateful-cifar10-deep")])
def test_parameters_are_counted_without_growing_the_net(case):
    options = {"image": (1, 28, 28)} if case.config.data.name == "mnist" else {}
    model = ImageNetwork(**options, **case.config.model.options)
    for _ in case.config.refine.at:
        refine(model)
    assert parameters_of(case) == summary(compress(model, **case.form) if case.form else model).parameters


def test_cases_are_judged_by_the_paper_and_only_when_they_were_run():
    plain, ceiling = (next(case for case in CASES if case.is_ceiling is wanted) for wanted in (False, True))
    assert plain.judge([]) is None
    assert [plain.judge([plain.paper + points]) for points in (-1, 0, 1)] == [False, True, True]
    assert [ceiling.judge([ceiling.paper + points]) for points in (-1, 0, 1)] == [True, True, False]
