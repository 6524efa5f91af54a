"""The networks of ANODEV2: parameter counts, equal starts, what is refused."""

import pytest
import torch
from torch import nn

import anydepth as ad
from anydepth.errors import ConfigError
from anydepth.recipes import RECIPES
from anydepth.zoo.parts import build
from anydepth_papers.recipes.anodev2 import LAYOUTS, PRINTED_NORMS, VARIANTS, config

COUNTS = {"resnet4": 7_706, "resnet10": 44_186, "alexnet": 1_756_682}
PRINTED = {
    ("resnet4", "neural-ode"): (7_962, 7.96),
    ("resnet4", "anode"): (7_962, 7.96),
    ("resnet4", "config2"): (7_994, 7.99),
    ("resnet10", "neural-ode"): (44_954, 44.95),
    ("resnet10", "anode"): (44_954, 44.95),
    ("resnet10", "config2"): (45_050, 45.05),
}
"""Parameters, and what Table 3 prints of them in thousands."""


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: build("anode", basis="linear", weights={"*": ["constant", 1]}), "either weights"),
        (lambda: build("anode", layout="vgg"), "layout"),
        (lambda: build("anode", blocks=[1]), "places from 0 to 0"),
        (lambda: build("anode", layout="resnet10", blocks=[]), "places from 0 to 2"),
        (lambda: build("anode", layout="resnet10", blocks=1), "expected a list"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(make, says):
    with pytest.raises(ConfigError, match=says) as caught:
        make()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_parameters_of_the_papers_networks(layout):
    counts = {
        v: sum(p.numel() for p in build("anode", **config(layout, v).model.options).parameters()) for v in VARIANTS
    }
    assert counts["baseline"] == COUNTS[layout]
    kernels = {"resnet4": 2, "resnet10": 6, "alexnet": 1}[layout]
    assert counts["config2"] - counts["anode"] == 4 * kernels
    norms = {"resnet4": 64, "resnet10": 256, "alexnet": 128}[layout]
    assert counts["anode"] - counts["baseline"] == norms
    assert counts["config1"] - counts["baseline"] == 4 * norms + 4 * kernels


@pytest.mark.parametrize(("layout", "variant"), PRINTED)
def test_the_printed_recipes_have_the_printed_parameters(layout, variant):
    options = RECIPES[f"anodev2-{layout}-{variant}-printed"]().model.options
    count, printed = PRINTED[layout, variant]
    found = sum(p.numel() for p in build("anode", **options).parameters())
    assert found == count
    assert f"{found / 1000:.2f}" == f"{printed:.2f}"


def test_the_printed_structure_uses_two_of_its_norms():
    torch.manual_seed(0)
    model = build("anode", **config("resnet4", "config2", is_printed=True).model.options)
    block = model.layers[3]
    assert block.functions["bn1.weight"].size == PRINTED_NORMS
    model(torch.randn(2, 3, 32, 32)).square().sum().backward()
    used = block.stored("bn1.weight").grad.abs().sum(1) > 0
    assert used.tolist() == [True, False, True, False, False]
    assert block.evolution("conv1.weight").reaction.shape == (16,)


def test_blocks_that_are_not_chosen_are_residual_units():
    model = build("anode", **config("resnet10", "config2", is_printed=True).model.options)
    blocks = [layer for layer in model.layers if isinstance(layer, ad.ContinuousBlock)]
    assert [(block.steps, len(block.evolutions) > 0) for block in blocks] == [(1, False), (2, True), (2, True)]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_variants_of_one_seed_begin_with_the_same_weights(layout):
    nets = []
    for variant in VARIANTS:
        torch.manual_seed(7)
        nets.append(build("anode", **config(layout, variant).model.options))
    kernels = [[p for name, p in net.named_parameters() if "conv" in name and "evolutions" not in name] for net in nets]
    for others in kernels[1:]:
        assert all(torch.equal(a, b) for a, b in zip(kernels[0], others, strict=True))
    x = torch.randn(1, 3, 32, 32)
    assert len({tuple(net.layers[0](x).flatten()[:9].tolist()) for net in nets}) == 1
    assert all(torch.equal(list(nets[0].parameters())[-1], list(net.parameters())[-1]) for net in nets)


def test_the_baseline_is_a_plain_resnet():
    torch.manual_seed(0)
    model = build("anode", **config("resnet4", "baseline").model.options).eval()
    x = torch.randn(2, 3, 32, 32)
    y = model.layers[:3](x)
    t = model.layers[3].theta(0)
    inner = y
    for i in (1, 2):
        inner = nn.functional.conv2d(inner, t[f"conv{i}.weight"], padding=1)
        keys = ("running_mean", "running_var", "weight", "bias")
        inner = nn.functional.batch_norm(inner, *(t[f"bn{i}.{key}"] for key in keys)).relu()
    expected = model.classifier(nn.functional.avg_pool2d(y + inner, 8).flatten(1))
    torch.testing.assert_close(model(x), expected, atol=1e-5, rtol=1e-5)
