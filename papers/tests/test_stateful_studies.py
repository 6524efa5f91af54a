"""The studies of Stateful ODE-Nets: what they measure, and that they judge what they say."""

from types import SimpleNamespace

import pytest
import torch
from torch.func import functional_call

from anydepth.surgery.blocks import blocks_of
from anydepth.surgery.resize import compress
from anydepth.surgery.summary import summary
from anydepth.zoo.models.image_network import ImageNetwork
from anydepth.zoo.models.tagger import Tagger
from anydepth_papers.experiments import EXPERIMENTS, compression, derivatives, mnist, tagging
from anydepth_papers.nets import mnist_nets
from anydepth_papers.nets.image_nets import packed
from anydepth_papers.nets.stateful_nets import LATER
from anydepth_papers.studies import form_tables as forms
from anydepth_papers.studies import tagged


def test_differences_over_depth_of_known_functions():
    line = torch.linspace(1, 2, derivatives.STEPS)[:, None].expand(-1, 3)
    size = float(line.square().mean().sqrt())
    assert derivatives.roughness([line], 1) == pytest.approx(derivatives.STEPS / (derivatives.STEPS - 1) / size)
    assert derivatives.roughness([line], 2) == pytest.approx(0, abs=1e-4)
    assert derivatives.roughness([torch.ones(8, 2), torch.ones(8, 5)], 1) == 0
    noise = torch.randn(8, 100_000, generator=torch.Generator().manual_seed(0))
    assert derivatives.roughness([noise], 1) == pytest.approx(2**0.5 * 8, rel=0.02)
    assert derivatives.roughness([noise], 2) == pytest.approx(6**0.5 * 64, rel=0.02)


def test_the_field_is_what_euler_steps_along():
    shape = {"basis": "constant", "size": 8, "steps": 8, "scheme": "euler"}
    model = ImageNetwork(channels=(3,), image=(1, 8, 8), pool=4, **shape).double().eval()
    images = torch.randn(2, 1, 8, 8, dtype=torch.float64)
    (field,) = derivatives.fields_of(model, images)
    with torch.no_grad():
        start = model.stitches[0](model.stem(images))
        assert torch.allclose(start + field.mean(0), model.blocks[0](start))
    assert [tuple(kernel.shape) for kernel in derivatives.kernels_of(model)] == [(8, 3, 3, 3, 3)] * 2


def seen(right, again=None):
    def one(answers):
        return {"accuracy": 100 * sum(answers) / len(answers), "answers": packed(answers), "evaluations": 3}

    return one(right) | {"recalibrated": one(again or right), "milliseconds": 0.5, "parameters": 10}


def net(trained, half, again=None):
    return {"as trained": seen(trained), "half": seen(half, again)}


GOOD, BAD = [True] * 1000, [True] * 600 + [False] * 400


def test_what_a_net_loses_is_compared_with_what_another_loses():
    keeps, loses = net(GOOD, GOOD), net(GOOD, BAD)
    assert forms.loses_less(keeps, "half", loses, "half").holds is True
    assert forms.loses_less(loses, "half", keeps, "half").holds is False
    assert forms.loses_less(loses, "half", loses, "half").holds is None
    mended = net(GOOD, BAD, again=GOOD)
    assert forms.loses_less(keeps, "half", mended, "half", again=True).holds is None, "recalibrated, it loses nothing"
    weak = net(BAD, BAD)
    assert forms.loses_less(weak, "half", loses, "half").holds is True, "losses count, not accuracies"


def test_claims_about_nets_hold_where_they_hold_for_every_net():
    keeps, loses = net(GOOD, GOOD), net(GOOD, BAD)

    def rule(one):
        return forms.no_worse(one, "half", "as trained", 1)

    assert forms.each([keeps, keeps], rule).holds is True
    assert forms.each([keeps, loses], rule).holds is False
    assert forms.each([keeps], rule).kind == "instance, no worse than 1"
    assert forms.better(loses, ["as trained"], ["half"]).holds is True


def test_a_net_that_does_not_use_its_depth_decides_nothing():
    deep, shallow = {0: {"forms": net(GOOD, GOOD)}}, {0: {"forms": net(BAD, BAD)}}
    assert forms.depth_of({"deep": deep, "flat": shallow}, "deep", "flat") is None
    assert forms.depth_of({"deep": deep, "flat": deep}, "deep", "flat").word == "undecided"
    assert forms.depth_of({"deep": deep, "flat": {}}, "deep", "flat").word == "not run"


def test_rows_give_both_accuracies_the_cost_and_the_extremes_over_seeds():
    cells = forms.row("a net", "half", [net(GOOD, BAD, again=GOOD), net(GOOD, GOOD)])
    assert cells == ("a net", "half", "80.00 (60.00 to 100.00)", "100.00", 3, 0.5, 10, 2)
    assert len(cells) == len(forms.COLUMNS)


@pytest.mark.parametrize("title", [title for title, *_ in LATER])
@pytest.mark.parametrize("scale", ["smoke", "paper"])
def test_nets_for_later_are_declared_for_every_scale(title, scale):
    model, grows = next((make(), grows) for name, _, make, grows in LATER if name == title)
    config = forms.later_config(title, 3, scale)
    assert config.seed == 3
    assert bool(config.refine.at) == grows
    same = {"basis", "size", "steps", "scheme", "scale"}
    assert {key: config.model.options[key] for key in same} == {key: model.options[key] for key in same}


@pytest.mark.parametrize(("basis", "sizes"), [("constant", [1, 2, 3]), ("linear", [2, 3]), ("discontinuous", [2])])
def test_a_net_can_be_compressed_to_every_size_of_the_study(basis, sizes):
    model = ImageNetwork(channels=(2,), image=(1, 8, 8), pool=2, basis="linear", size=5, steps=1)
    assert compression.sizes_of(basis, 3) == sizes
    for size in sizes:
        assert next(iter(blocks_of(compress(model, basis, size)).values())).size == size


def test_a_tagger_is_looked_at_in_every_form_with_no_more_steps_than_functions():
    found = tagged.forms_of(Tagger(words=5, classes=3, width=4, size=4))
    assert {"constant, K = 4, N = 4", "linear, K = 2, N = 4", "discontinuous, K = 2, N = 4"} <= set(found)
    assert {"constant, K = 4, N = 1", "constant, K = 2, N = 2", "constant, K = 1, N = 1"} <= set(found)
    assert "constant, K = 1, N = 2" not in found


def test_a_tagger_that_does_not_use_its_depth_decides_nothing_about_depth():
    config = tagging.shallow_config("cpu", 3)
    assert (config.seed, config.refine.at, config.training) == (3, (), tagging.config_for("cpu", 3).training)

    def found(shallow):
        forms = {
            name: {"accuracy": 95.0, "right": [9, 10] * 50} for name in tagged.forms_of(Tagger(5, 3, width=4, size=4))
        }
        changes = {"neighbours": 1.0, "pairs": 4.0}
        return [
            {"forms": forms, "words": [10] * 100, "counting": [5] * 100, "sizes": [4, 4], "changes": changes} | shallow
        ]

    deep, flat = (tagging.verdicts_on(found({"shallow": {"accuracy": a}})) for a in (80.0, 90.0))
    assert {deep[i].judgement.word for i, key in enumerate(tagging.CLAIMS) if key in ("half", "attention")} == {"holds"}
    changed = [key for key, a, b in zip(tagging.CLAIMS, deep, flat, strict=True) if a.judgement != b.judgement]
    assert changed == [key for key in tagging.CLAIMS if key not in tagging.NO_DEPTH]
    assert {v.judgement.word for v in flat if "depth 1" in v.judgement.text} == {"undecided"}


def test_all_claims_on_mnist_but_accuracy_and_time_need_a_net_that_uses_its_depth():
    forms_of = {"as trained": seen(GOOD), "half of K and N": seen(GOOD)}
    found = {mnist.GROWN: {0: {"forms": forms_of}}, mnist.FLAT: {0: {"forms": {"as trained": seen(GOOD)}}}}
    study = SimpleNamespace(scale="cpu")
    assert mnist.judged_on(study, found, "half")[1].word == "undecided"
    assert mnist.judged_on(study, found | {mnist.FLAT: {0: {"forms": {"as trained": seen(BAD)}}}}, "half")[1].holds


def test_a_resnet_without_some_units_is_what_is_left_of_it():
    shape = {"basis": "constant", "size": 8, "steps": 8, "scheme": "euler", "scale": 8.0}
    model = ImageNetwork(channels=(3,), image=(1, 8, 8), pool=4, **shape).double().eval()
    short, block = mnist_nets.skipped(model, 4), model.blocks[0]
    with torch.no_grad():
        start = x = torch.randn(2, 3, 8, 8, dtype=torch.float64)
        for unit in (0, 2, 5, 7):
            x = x + functional_call(block.unit, block.theta((2 * unit + 1) / 16), (x,))
        assert torch.allclose(short.double().blocks[0](start), x)
    assert summary(short).parameters < summary(model).parameters


def test_all_nets_on_mnist_train_alike_and_only_the_continuous_one_grows():
    settings = EXPERIMENTS["mnist"].settings["cpu"]
    configs = {name: mnist_nets.config_for(name, 1, "cpu", settings) for name in mnist.NAMES}
    assert len({str((c.data, c.optimizer, c.schedule, c.training, c.seed)) for c in configs.values()}) == 1
    assert [name for name, config in configs.items() if config.refine.at] == [mnist_nets.GROWN]
    sizes = {name: configs[name].model.options["size"] for name in mnist_nets.UNITS}
    assert sizes == mnist_nets.UNITS


def test_a_short_training_can_confirm_the_papers_accuracy_but_not_refute_it():
    good, bad = ({"as trained": seen([True] * right + [False] * (10_000 - right))} for right in (9960, 9800))
    words = [
        mnist.accuracy_on(SimpleNamespace(scale=scale), [net])[1].word
        for scale in ("cpu", "paper")
        for net in (good, bad)
    ]
    assert words == ["holds", "undecided", "holds", "does not hold"]
