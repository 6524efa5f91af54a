"""What the image studies share: their nets, their rules, and small measures."""

import pytest
import torch

from anydepth.zoo.models.image_network import ImageNetwork
from anydepth_papers.experiments import any_depth, one_net, solvers, weights
from anydepth_papers.experiments.noise import Noisy
from anydepth_papers.judge.study import Study
from anydepth_papers.nets.image_nets import RECIPE, net_config, packed, waits_for
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


# What a study says while some nets are still being trained


def form(accuracy: float, evaluations: int) -> dict:
    right = {"accuracy": accuracy, "answers": packed([i < 10 * accuracy for i in range(1000)])}
    cost = {"evaluations": evaluations, "milliseconds": evaluations / 10, "parameters": 100}
    return {**right, **cost, "recalibrated": right, "validation": accuracy}


def net(accuracy: float, layers: int, short: float | None = None) -> dict:
    """Forms of a net in three blocks, which has an accuracy of its own when it is shorter than it was trained."""
    forms = {"as trained": form(accuracy, 3 * layers)}
    if short is not None:
        forms |= {f"euler x {n}": form(short, 3 * n) for n in one_net.BUDGETS}
    return {"forms": forms}


def nets(shallow: float, seeds: int = 3) -> one_net.Found:
    """The one net has 90 %, the same at every depth."""
    made = {one_net.ONE: (90.0, 8, 90.0), "resnet-1": (shallow, 1), "resnet-2": (88.0, 2), "resnet-4": (89.0, 4)}
    made |= {one_net.PLAIN: (90.0, 8, 60.0), one_net.STOCHASTIC: (89.0, 8, 70.0)}
    return {name: {seed: net(how[0] + seed / 10, *how[1:]) for seed in range(seeds)} for name, how in made.items()}


def words(found: one_net.Found) -> dict:
    return {key: one_net.verdict_on(found, *key, claim).judgement.word for key, claim in one_net.CLAIMS.items()}


def test_one_net_is_judged_at_every_budget_where_all_nets_are_there():
    assert set(words(nets(80.0)).values()) == {"holds"}
    assert one_net.verdict_on(nets(80.0), "specialist", 2, one_net.CLAIMS["specialist", 2]).ours.count("(seed ") == 3


def test_one_net_that_does_not_use_its_depth_decides_nothing_about_budgets():
    judged = words(nets(89.0))
    assert judged.pop(("cost", 0)) == "holds"
    assert set(judged.values()) == {"undecided"}


def test_claims_about_nets_that_are_not_trained_yet_are_not_run():
    found = nets(80.0) | {"resnet-4": {}, one_net.STOCHASTIC: {}}
    judged = words(found)
    waiting = {("specialist", 4), *((one_net.STOCHASTIC, n) for n in one_net.BUDGETS[:-1])}
    waiting |= {(f"{one_net.THESE}{kind}", n) for kind, n in waiting}
    assert {key for key, word in judged.items() if word == "not run"} == waiting
    alone = {name: seeds if name == one_net.ONE else {} for name, seeds in found.items()}
    assert set(words(alone).values()) == {"not run", "holds"}  # what training it costs is counted
    assert [row[1] for row in one_net.rows_on(alone)] == [
        "euler x 1",
        "euler x 2",
        "euler x 4",
        "as trained",
        "euler x 8",
    ]
    assert one_net.drawn(alone).axes
    one = words(nets(80.0, seeds=1))
    assert one["specialist", 2] == "undecided", "too few seeds for an interval"
    assert one[f"{one_net.THESE}specialist", 2] == "holds"


@pytest.mark.parametrize("module", [one_net, solvers, weights])
def test_without_any_net_of_the_campaign_nothing_is_run(module, tmp_path):
    found = module.run(Study("x", "cpu", {}, (0, 1, 2), tmp_path, nets=tmp_path / "nets"))
    assert {verdict.judgement.word for verdict in found.verdicts} == {"not run"}
    assert all("waiting for the campaign" in verdict.judgement.text for verdict in found.verdicts)


def test_nets_without_a_common_seed_are_waited_for():
    assert waits_for({"rk4": {0: 1}, "euler": {}}, "rk4", "euler").text.endswith("ContinuousNet (Euler)")
    assert waits_for({"rk4": {0: 1}, "euler": {1: 1}}, "rk4", "euler").text.count("ContinuousNet") == 2


@pytest.mark.parametrize(("shallow", "word"), [(80.0, "holds"), (88.0, "undecided")])
def test_an_any_depth_net_that_does_not_use_its_depth_decides_nothing_about_depth(shallow, word):
    def one(accuracy: float) -> dict:
        return {"forms": {"x": {"evaluations": 2, "validation": 1, "accuracy": accuracy}}, "blocks": 2, "training": 2}

    values = {any_depth.HATS: 90.0, any_depth.RESNETS[1]: shallow, any_depth.RESNETS[8]: 90.0}
    found = {name: {seed: one(value + seed / 10) for seed in range(3)} for name, value in values.items()}
    assert any_depth.judged_on(found, "specialist", 8)[1].word == word
    assert any_depth.judged_on(found, "cost", 0)[1].word == "holds"
