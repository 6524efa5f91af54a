"""The studies of ANODEV2: their rules on figures of both sides and on noise, and what their nets share."""

import numpy as np
import pytest
import torch

from anydepth.zoo.parts import build
from anydepth_papers.experiments import anode_counts, coupled, evolving_cost, gaussians, more_steps, wave
from anydepth_papers.recipes.anodev2 import LAYOUTS

NOISE = np.array([0.3, -0.4, 0.1, -0.2, 0.2])
"""What runs of one seed share; a tenth of it in another order is their own."""


def own(count):
    return [np.roll(NOISE, i) / 10 for i in range(count)]


def words(verdicts):
    return [verdict.judgement.word for verdict in verdicts]


# coupled


def trained(**means):
    """Accuracies of five seeds by variant: 50 % unless told."""
    means = dict.fromkeys(coupled.CELLS, 50.0) | {name.replace("_", "-"): value for name, value in means.items()}
    return {
        name: [{"accuracy": value} for value in means[name] + NOISE + more]
        for name, more in zip(coupled.CELLS, own(len(coupled.CELLS)), strict=True)
    }


def coupled_words(**means):
    found = trained(**means)
    return words(coupled.verdicts_on("resnet4", found, coupled.SETTINGS["cpu"]))[:-1]


def test_variants_are_judged_by_the_sign_of_their_differences():
    assert coupled_words(config1=51, config2=50.5, neural_ode=48, separate=60) == ["holds"] * 7
    assert coupled_words(config1=49, config2=49.5, neural_ode=52)[:5] == ["does not hold"] * 5
    assert "holds" not in coupled_words()


def test_more_steps_decide_only_where_depth_pays():
    assert coupled_words(separate=54)[-1] == "undecided"
    assert coupled_words(separate=56)[-1] == "holds"
    assert coupled_words(separate=56, anode_5=53)[-1] == "does not hold"


def test_nets_that_were_not_trained_are_told():
    assert set(words(coupled.verdicts_on("alexnet", None, coupled.SETTINGS["cpu"]))) == {"not run"}
    printed = coupled.verdicts_on("resnet4", trained(), coupled.SETTINGS["cpu"])[-1]
    assert printed.judgement.word == "not run"
    assert coupled.verdicts_on("resnet4", trained(), coupled.SETTINGS["paper"])[-1].judgement.word == "does not hold"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_controls_have_the_evaluations_of_configuration_one(layout):
    settings = coupled.SETTINGS["paper"]
    nets = {}
    for variant in ("config1", *coupled.CONTROLS):
        torch.manual_seed(0)
        nets[variant] = build("anode", **coupled.config_for(layout, variant, 0, settings).model.options)
    blocks = {name: next(part for part in net.layers if hasattr(part, "evolutions")) for name, net in nets.items()}
    assert {(block.steps, block.scheme.name) for block in blocks.values()} == {(5, "euler")}
    assert not blocks["anode-5"].evolutions
    assert blocks["separate"].scale == 5
    kernel = "conv.weight" if layout == "alexnet" else "conv1.weight"
    assert blocks["separate"].functions[kernel].size == 5
    assert torch.equal(blocks["anode-5"].stored(kernel), blocks["config1"].stored(kernel))


# wave


def waves(ratio, noise=0.02, constant=0.05):
    found = {}
    for speed, name in wave.CELLS:
        error = constant if speed == wave.CONSTANT else 0.4 if name == wave.PLAIN else 0.4 * ratio
        found[speed, name] = [{"error": error * (1 + noise * (seed - 1))} for seed in range(3)]
        if name != wave.PLAIN:
            found[speed, name].reverse()
    return found


@pytest.mark.parametrize(("ratio", "noise", "word"), [(0.3, 0.02, "holds"), (0.9, 0.02, "does not hold")])
def test_a_wave_is_carried_better_with_half_the_error(ratio, noise, word):
    verdicts = wave.verdicts_on(waves(ratio, noise))
    assert words(verdicts) == [word] * 12 + ["holds"]
    assert [verdict.claim.family for verdict in verdicts].count("A") == 6


def test_a_wave_within_noise_is_undecided_and_the_control_can_fail():
    assert set(words(wave.verdicts_on(waves(0.45, 0.4)))[:-1]) == {"undecided"}
    assert words(wave.verdicts_on(waves(0.3, constant=0.39)))[-1] == "does not hold"


# more-steps


def steps(control=80.0, **means):
    """Accuracies of five seeds: 60 % unless told."""
    told = dict.fromkeys(more_steps.CELLS, 60.0) | {more_steps.CONTROL: control}
    told |= {(kernels, *solver): value for kernels, values in means.items() for solver, value in values.items()}
    noise = own(len(more_steps.CELLS))
    return {cell: list(told[cell] + NOISE + more) for cell, more in zip(more_steps.CELLS, noise, strict=True)}


def test_steps_help_or_not():
    gains = {more_steps.FIVE: 63.0, more_steps.RK4: 63.0}
    assert words(more_steps.verdicts_of(steps(evolve=gains))) == ["holds"] * 4
    assert words(more_steps.verdicts_of(steps(stay=gains)))[:2] == ["does not hold"] * 2
    losses = {more_steps.FIVE: 57.0, more_steps.RK4: 57.0}
    assert words(more_steps.verdicts_of(steps(evolve=losses)))[2:] == ["does not hold"] * 2
    assert words(more_steps.verdicts_of(steps(control=64.0, evolve=gains))) == ["undecided"] * 4


def test_the_control_is_a_plain_resnet():
    options = more_steps.config_for(more_steps.CONTROL, 0, more_steps.SETTINGS["paper"]).model.options
    assert (options["scale"], options["steps"], options["init"]) == (5, 5, "independent")
    assert {choice["size"] for choice in options["weights"].values()} == {5}


# Counts, costs, Gaussians


def test_the_counts_are_the_printed_ones():
    counts = {layout: anode_counts.counts_of(layout) for layout in LAYOUTS}
    found = {name: anode_counts.judged(name, counts)[1].word for name in anode_counts.CLAIMS}
    assert {name for name, word in found.items() if word == "undecided"} == {"config1", "alexnet"}
    assert {word for name, word in found.items() if name not in anode_counts.UNKNOWN} == {"holds"}
    assert counts["resnet4"]["anode"]["printed"] == 7_962
    counts["resnet4"]["anode"]["printed"] += 10
    assert anode_counts.judged("anode resnet4", counts)[1].word == "does not hold"
    counts["resnet4"]["config2"]["flops"] += 1
    assert anode_counts.judged("sizes", counts)[1].word == "does not hold"


def costs(two, one, block):
    base = {"baseline": (100, 10), "anode": (200, 20), "anode-5": (500, 50)}
    evolving = {"config2": (200 * two, 20), "config1": (500 * one, 10 * block)}
    each = {name: {"step": step, "block": time} for name, (step, time) in (base | evolving).items()}
    return [
        {name: {key: value * (1 + 0.01 * ((i + k) % 3)) for key, value in times.items()}}
        | {other: dict(rest) for other, rest in each.items() if other != name}
        for i in range(5)
        for k, (name, times) in enumerate(each.items())
        if k == i
    ]


def test_costs_are_judged_on_both_sides():
    assert words(evolving_cost.verdicts_of(costs(1.01, 1.02, 5.1))) == ["holds"] * 4
    assert words(evolving_cost.verdicts_of(costs(1.3, 1.3, 9.0))) == ["does not hold"] * 3 + ["holds"]


def test_the_nets_whose_costs_are_compared_differ_in_evolving_alone():
    nets = {name: evolving_cost.network(name, "resnet4", 0) for name in evolving_cost.SIDES}
    blocks = {name: net.layers[3] for name, net in nets.items()}
    assert [blocks[name].steps for name in evolving_cost.SIDES] == [1, 2, 2, 5, 5]
    assert [bool(blocks[name].evolutions) for name in evolving_cost.SIDES] == [False, False, True, False, True]


@pytest.mark.parametrize("size", [31, 32])
def test_gaussians_follow_the_closed_form_at_all_times(size):
    found = {size: gaussians.errors_of(size)}
    assert {gaussians.verdict_on(name, claim, found).judgement.word for name, claim in gaussians.CLAIMS.items()} == {
        "holds"
    }
    found[size]["advection"]["float64"] = 1e-9
    assert gaussians.verdict_on("advection", gaussians.CLAIMS["advection"], found).judgement.word == "does not hold"
