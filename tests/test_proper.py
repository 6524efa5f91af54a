"""Proper ODEs: the published fields, several seeds at once, and the studies' rules."""

import numpy as np
import pytest
import torch
from torch import nn

import anydepth as ad
from anydepth.data.sources.landscape import true_field
from anydepth.depth.schemes import fixed_schemes
from anydepth.errors import ConfigError
from anydepth.fast.linear import chain_of
from anydepth.fast.linear_program import toeplitz
from anydepth.recipes import RECIPES
from anydepth.reproduce.ensemble import FAILED, Ensemble, trained_together
from anydepth.reproduce.experiment import Claim
from anydepth.reproduce.experiments.proper_adaption import CONTROLS, IN_FULL, SETTINGS
from anydepth.reproduce.experiments.proper_fields import jacobian, mlp, zeros
from anydepth.reproduce.experiments.proper_grid import _same_around, critical_steps, succeeded
from anydepth.reproduce.experiments.proper_rates import SETTINGS as RATED
from anydepth.reproduce.experiments.proper_rates import best_rates, is_due_to_rate, is_independent, means_of
from anydepth.reproduce.flows import FACTORS, accuracy_on, examine, is_proper
from anydepth.reproduce.study import Study
from anydepth.reproduce.table_one import MOST_ACCURATE, UNVARIED, best_run, verdicts_on, without_oscillation
from anydepth.train.evaluate import evaluate
from anydepth.train.loop import train
from anydepth.train.override import override
from anydepth.train.prepare import prepare
from anydepth.train.runs import dataset_of
from anydepth.zoo.together import Together

FIELDS = {"mlp": {"hidden": 6}, "vector_conv_field": {"hidden": 5}, "tanh_net": {"hidden": 4}}


# The published fields

COUNTS = {
    "conv_field 1-96-96-1": (ad.units.ConvField(1, 96), 96 * 2 + 96 * 96 * 9 + 96 + 97),
    "conv_field 3-128-128-3": (ad.units.ConvField(3, 128), 128 * 4 + 128 * 128 * 9 + 128 + 3 * 129),
    "vector_conv_field 1-32-32-1": (ad.units.VectorConvField(2, 32), 32 * 2 + 32 * 32 * 3 + 32 + 33),
    "mlp 2-48-48-2": (ad.units.MLP(2, 48, 2), 48 * 3 + 48 * 49 + 2 * 49),
}


@pytest.mark.parametrize("name", COUNTS)
def test_parameters_of_the_published_fields(name):
    unit, count = COUNTS[name]
    assert sum(p.numel() for p in unit.parameters()) == count
    assert all(not p.any() for name, p in unit.named_parameters() if name.endswith("bias"))


def test_a_flow_on_images_classifies_the_flattened_state():
    model = ad.build("flow", image=[2, 5, 4], classes=3, unit="conv_field", options={"hidden": 4}, scheme="euler")
    unit = ad.units.ConvField(2, 4)
    unit.load_state_dict(model.block.theta(0))
    x = torch.randn(3, 2, 5, 4)
    torch.testing.assert_close(model(x), model.classifier((x + unit(x)).flatten(1)))
    for wrong in ([2, 5], [0, 5, 4]):
        with pytest.raises(ConfigError, match="image"):
            ad.build("flow", image=wrong, classes=3, unit="conv_field")


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_a_convolution_is_its_matrix(d):
    conv = nn.Conv1d(2, 3, 3, padding=1, bias=False).double()
    x = torch.randn(5, 2, d, dtype=torch.float64)
    by_matrix = x.mT.flatten(1) @ toeplitz(conv.weight, d).T
    torch.testing.assert_close(by_matrix.view(5, d, 3).mT, conv(x))


@pytest.mark.parametrize("d", [1, 2, 4, 5])
def test_a_small_convolutional_field_takes_the_cheap_path_and_agrees(d):
    class Opaque(ad.units.VectorConvField):
        """The same unit under another class, which takes the general path."""

    blocks = []
    for make in (ad.units.VectorConvField, Opaque):
        torch.manual_seed(0)
        blocks.append(ad.ContinuousBlock(lambda make=make: make(d, 3), "linear", 3, scheme="rk4", steps=4).double())
    assert (chain_of(blocks[0].unit) is not None) == (d <= 4)
    x = torch.randn(6, d, dtype=torch.float64)
    outputs = [block(x) for block in blocks]
    torch.testing.assert_close(*outputs)
    for out in outputs:
        out.square().sum().backward()
    for one, other in zip(blocks[0].parameters(), blocks[1].parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)


# Several at once


@pytest.mark.parametrize("unit", FIELDS)
@pytest.mark.parametrize("scheme", fixed_schemes())
@pytest.mark.parametrize("basis", ["constant", "linear"])
def test_nets_together_give_what_each_gives_alone(unit, scheme, basis):
    made = {"features": 3, "classes": 2, "unit": unit, "options": FIELDS[unit], "scheme": scheme, "steps": 3}
    nets = [ad.build("flow", **made, basis=basis, size=2).double() for _ in range(3)]
    x = torch.randn(3, 7, 3, dtype=torch.float64)
    together = Together(nets)
    outputs = together(x)
    outputs.square().sum().backward()
    for i, net in enumerate(nets):
        torch.testing.assert_close(outputs[i], net(x[i]), rtol=1e-12, atol=1e-12)
        net(x[i]).square().sum().backward()
    with torch.no_grad():
        for stacked in together.parameters():
            stacked -= stacked.grad
        for net in nets:
            for parameter in net.parameters():
                parameter -= parameter.grad
    for net, apart in zip(nets, together.apart(), strict=True):
        assert apart.state_dict().keys() == net.state_dict().keys()
        for name, tensor in net.state_dict().items():
            torch.testing.assert_close(apart.state_dict()[name], tensor, rtol=1e-11, atol=1e-11)


def test_what_cannot_run_together_is_refused():
    fixed = ad.build("flow", classes=2, scheme="euler", steps=2)
    others = {
        "chain": ad.build("flow", image=[1, 4, 4], classes=2, unit="conv_field", scheme="euler"),
        "fixed steps": ad.build("flow", classes=2, scheme="dopri54"),
    }
    for reason, net in others.items():
        with pytest.raises(ConfigError, match=reason):
            Together([net])
    with pytest.raises(ConfigError, match="one config"):
        Together([fixed, ad.build("flow", classes=2, scheme="euler", steps=3)])


def configs(name, *settings, seeds=3):
    options = ["data.options.train=100", "data.options.test=50", "training.batch=32"]
    base = override(RECIPES[f"proper-{name}"](), [*options, "model.options.steps=3", "training.steps=8", *settings])
    return [override(base, [f"seed={seed}"]) for seed in range(seeds)]


OPTIMIZERS = {
    "adam": [],
    "decay and a schedule": ["optimizer.weight_decay=0.1", "schedule.warmup=3", "training.label_smoothing=0.1"],
}


@pytest.mark.parametrize("name", ["spheres", "landscape"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_each_seed_ends_as_its_training_alone_does(name, optimizer, tmp_path):
    made = configs(name, "training.precision=float64", *OPTIMIZERS[optimizer])
    study = Study("x", "smoke", None, (0, 1, 2), tmp_path / "study")
    runs = trained_together(study, name, made)
    for config, run in zip(made, runs, strict=True):
        alone = train(config, tmp_path / f"alone-{config.seed}")
        for key, tensor in alone.model().state_dict().items():
            torch.testing.assert_close(run.model().state_dict()[key], tensor, rtol=1e-10, atol=1e-10)
        last = [lines.metrics()[-1] for lines in (alone, run)]
        assert last[0]["test_accuracy"] == last[1]["test_accuracy"]
        assert last[0]["nfe"] == last[1]["nfe"]


def test_trained_together_they_are_runs_like_any_other(tmp_path):
    made = configs("landscape")
    study = Study("x", "smoke", None, (0, 1, 2), tmp_path / "study")
    runs = trained_together(study, "landscape", made)
    before = {run.folder: run.model_hash() for run in runs}
    again = trained_together(study, "landscape", configs("landscape", seeds=4))
    assert {run.folder: run.model_hash() for run in again[:3]} == before
    assert study.trained("landscape", made[1]).folder == runs[1].folder
    assert runs[1].is_over
    model, test = runs[0].model(), runs[0].dataset(None).part("test")
    ad.set_solver(model, scheme="rk4", steps=5)
    assert evaluate(model, test, runs[0].facts).nfe == 20
    assert ad.check(model, [torch.randn(8, 2)]).table


def test_a_seed_that_fails_does_not_stop_the_others(tmp_path):
    made = configs("landscape")
    prepared = [prepare(config, dataset_of(config, None)) for config in made]
    with torch.no_grad():
        prepared[1].model.classifier.bias.fill_(float("nan"))
    ensemble = Ensemble(prepared)
    found = ensemble.fit()
    assert [model is None for model in found] == [False, True, False]
    assert ensemble.failed == {1: 0}
    alone = train(made[2], tmp_path / "alone").model()
    for key, tensor in alone.state_dict().items():
        torch.testing.assert_close(found[2].state_dict()[key], tensor, rtol=1e-4, atol=1e-5)


def test_a_run_that_is_not_to_be_tested_is_only_validated(tmp_path, monkeypatch):
    made = configs("landscape", "data.validation=20", "evaluation.test=false")
    study = Study("x", "smoke", None, (0, 1, 2), tmp_path / "study")
    monkeypatch.setattr("anydepth.reproduce.ensemble.Remembered._test", None)
    (first, *_) = trained_together(study, "landscape", made)
    (line,) = first.metrics()
    assert first.is_over
    assert line["validation_accuracy"] == accuracy_on(study, first, "validation")
    alone = train(made[0], tmp_path / "alone").metrics()[-1]
    assert line.keys() - {"seconds"} <= alone.keys()
    assert line["validation_accuracy"] == alone["validation_accuracy"]
    assert accuracy_on(study, None, "validation") is None


def test_a_run_that_was_half_written_is_trained_again(tmp_path):
    study = Study("x", "cpu", None, (0, 1), tmp_path / "x")
    pair = configs("landscape", seeds=2)
    trained_together(study, "net", pair)
    folder = study.folder_of("net", pair[1])
    model = (folder / "model.safetensors").read_bytes()
    (folder / "metrics.jsonl").unlink()
    runs = trained_together(study, "net", pair)
    assert runs[1].is_over
    assert (folder / "model.safetensors").read_bytes() == model


def test_a_failed_training_is_remembered(tmp_path):
    made = configs("landscape", "optimizer.lr=1e6", "model.options.scale=1e6", seeds=2)
    study = Study("x", "smoke", None, (0, 1), tmp_path / "study")
    assert trained_together(study, "wild", made) == [None, None]
    assert all((study.folder_of("wild", config) / FAILED).exists() for config in made)
    assert trained_together(study, "wild", made) == [None, None]


@pytest.mark.parametrize("setting", ["training.clip=1", "training.ema=0.9", "refine.at=[2]", "control.name=paper"])
def test_what_cannot_be_trained_together_is_refused(setting):
    made = configs("landscape", *(["refine.unit=step"] if "refine" in setting else []), setting, seeds=2)
    prepared = [prepare(config, dataset_of(config, None)) for config in made]
    with pytest.raises(ConfigError, match=setting.partition("=")[0].removesuffix(".name")):
        Ensemble(prepared)
    with pytest.raises(ConfigError, match="seeds alone"):
        Ensemble([prepared[0], prepare(override(made[0], ["training.batch=16"]), dataset_of(made[0], None))])


# The rules of the studies


def test_a_net_is_examined_with_the_published_steps_and_solvers(tmp_path):
    study = Study("x", "smoke", None, (0,), tmp_path / "study")
    (run,) = trained_together(study, "landscape", configs("landscape", "model.options.steps=4", seeds=1))
    found = examine(study, run)
    asked = [(test["scheme"], test["factor"], test["steps"]) for test in found["tests"]]
    steps = dict(zip(FACTORS, (8, 6, 4, 3, 2), strict=True))
    assert asked == [(s, factor, steps[factor]) for s in ("euler", "midpoint", "rk4") for factor in FACTORS]
    itself = next(test for test in found["tests"] if (test["scheme"], test["factor"]) == ("euler", 1))
    assert itself["agreement"] == 100
    assert itself["accuracy"] == found["accuracy"] == run.metrics()[-1]["test_accuracy"]
    assert examine(study, None) is None


def net(change):
    tests = [{"factor": 0.5, "accuracy": 80.0 - change}, {"factor": 2.0, "accuracy": 0.0}]
    return {"accuracy": 80.0, "tests": tests}


def test_a_net_is_proper_if_no_finer_solver_changes_its_accuracy():
    assert is_proper(net(10.0))
    assert is_proper(net(-10.0))
    assert not is_proper(net(10.5))
    assert not is_proper(net(-10.5))


def test_the_critical_steps_of_a_seed():
    good, bad = net(0.0), net(30.0)
    assert critical_steps({1: [bad], 2: [good], 4: [bad], 8: [good], 16: [good]}, 0) == 8
    assert critical_steps({1: [bad], 2: [good], 4: [None], 8: [good]}, 0) == 2
    assert critical_steps({1: [good], 2: [bad]}, 0) is None
    assert critical_steps({1: [None], 2: [None]}, 0) is None


def test_accuracy_on_both_sides_of_the_critical_step_is_compared_seed_by_seed():
    """Far from it, and for seeds without one, nothing is compared."""

    def cell(*accuracies):
        return [{"accuracy": accuracy} for accuracy in accuracies]

    cells = {1: cell(100.0, 100.0), 4: cell(80.0, 60.0), 8: cell(82.0, 60.0), 16: cell(81.0, 50.0), 128: cell(0.0, 0.0)}
    near = _same_around("x", cells, [16, None])
    assert near.holds
    assert "0.0" in near.ours
    assert "1 of 2 seeds" in near.ours
    assert not _same_around("x", cells, [16, 16]).holds
    assert _same_around("x", cells, [None, None]).holds is None
    assert _same_around("x", cells, [1, None]).holds is None, "no net is coarser"


def test_seeds_that_learnt_too_little_do_not_count():
    nets = [{"accuracy": accuracy} for accuracy in (100.0, 76.0, 74.0)]
    assert succeeded({"euler": {1: [*nets, None]}}, 50.0) == {"euler": {1: [*nets[:2], None, None]}}


def accurate(*accuracies):
    return [None if accuracy is None else {"accuracy": accuracy} for accuracy in accuracies]


def test_rates_are_chosen_by_their_means_with_failures_as_the_commonest_class():
    validated = {
        0.1: {1: accurate(90.0, 90.0), 2: accurate(70.0, 70.0), 4: accurate(None, None)},
        0.2: {1: accurate(90.0, 90.0), 2: accurate(99.0, None), 4: accurate(None, 41.0)},
    }
    means = means_of(validated, 40.0)
    assert means == {0.1: {1: 90.0, 2: 70.0, 4: 40.0}, 0.2: {1: 90.0, 2: 69.5, 4: 40.5}}
    assert best_rates(means) == {1: 0.1, 2: 0.1, 4: 0.2}, "of equals the first"


def test_independence_of_the_step_is_judged_by_means_without_failed_seeds():
    chosen = {1: 0.1, 2: 0.2, 4: 0.2}
    near = is_independent("x", {1: accurate(95.0, None), 2: accurate(84.0, 86.0), 4: accurate(88.0, 88.0)}, chosen, 0.2)
    assert near.holds
    assert "from 85.0 % (2 steps) to 95.0 % (1 step); from 85.0 % (2 steps) to 88.0 % (4 steps)" in near.ours
    assert "2 of 3" in near.ours
    assert not is_independent("x", {1: accurate(96.0), 2: accurate(85.0), 4: accurate(85.0)}, chosen, 0.2).holds
    assert is_independent("x", {1: accurate(96.0), 2: accurate(85.0), 4: accurate(None)}, chosen, 0.2).holds is None


def test_a_trend_is_due_to_the_rate_if_choosing_takes_half_of_it_away():
    means = {0.1: {1: 90.0, 2: 70.0}, 0.2: {1: 60.0, 2: 80.0}}
    assert is_due_to_rate("x", 0.1, {1: 0.1, 2: 0.2}, means, means).holds
    means[0.2][2] = 79.0
    verdict = is_due_to_rate("x", 0.1, {1: 0.1, 2: 0.2}, means, {0.1: {1: 90.0, 2: 75.0}, 0.2: {}})
    assert not verdict.holds
    assert "20.0 and 11.0 points; without failed seeds 15.0 and 0.0" in verdict.ours


@pytest.mark.parametrize("scale", RATED)
def test_the_published_rate_is_among_those_to_choose_from_and_no_training_is_tested(scale):
    settings = RATED[scale]
    assert settings.published in settings.rates
    assert not settings.task.config(0).evaluation.test
    assert settings.task.config(0).data.validation


def searched(steps, *nets):
    """Nets of a grid search: accuracies, those of improper nets negative."""
    return [
        None if net is None else {"accuracy": abs(net), "proper": net > 0, "nfe": steps, "best": 90.0} for net in nets
    ]


def grid(**runs):
    return {int(steps[1:]): searched(int(steps[1:]), *nets) for steps, nets in runs.items()}


RUNS = {
    "all proper, the highest mean": (grid(_1=(-99.0, 99.0), _2=(80.0, 84.0), _4=(83.0, 83.0), _8=(70.0, 70.0)), 4),
    "failed nets tell nothing": (grid(_2=(90.0, None), _4=(85.0, 85.0)), 2),
    "fewer than half left": (grid(_2=(99.0, None, None), _4=(85.0, 85.0, 85.0)), 4),
    "most seeds, then most steps": (grid(_2=(90.0, 90.0, -90.0), _4=(70.0, -70.0, 70.0), _8=(99.0, -9.0, -9.0)), 4),
    "nothing proper": (grid(_2=(-90.0,), _4=(None,)), None),
}


@pytest.mark.parametrize("name", RUNS)
def test_the_most_accurate_run_of_a_grid(name):
    cells, steps = RUNS[name]
    assert best_run(cells) == ([None] if steps is None else cells[steps])


def adapted(*accuracies, nfe=50.0, changes=0):
    told = {"proper": True, "agreement": 99.0, "change": 1.0, "late changes": changes, "nfe": nfe, "steps": [(1, 64)]}
    return [None if accuracy is None else told | {"accuracy": accuracy} for accuracy in accuracies]


def compared(best, ours):
    return {
        "grid": searched(32, 88.0, 88.0, 88.0),
        MOST_ACCURATE: searched(64, *best),
        "paper": adapted(80.0, 80.0, 80.0, nfe=100.0, changes=9),
        "steady": adapted(*ours),
    }


def test_steady_is_compared_with_the_most_accurate_run_seed_by_seed():
    claim = Claim("x", "y")
    verdict = without_oscillation(claim, compared((80.0, 85.0, 90.0), (79.0, 84.0, 89.0)))
    assert verdict.holds, "one point is allowed"
    assert "-1.00 points (standard error 0.00) from the most accurate run of the grid, 64 steps (" in verdict.ours
    assert "-6.00 (-11.00 to -1.00) points (standard error 2.89) from the best proper net of each seed" in verdict.ours
    assert "would not pass" in verdict.ours, "two standard errors are 5.77"
    assert not without_oscillation(claim, compared((80.0, 85.0, 90.0), (78.5, 83.5, 88.5))).holds
    assert without_oscillation(claim, compared((80.0, 85.0, 90.0), (74.0, 84.0, 90.0))).holds, "two standard errors"
    assert not without_oscillation(claim, compared((80.0, 85.0, 90.0), (None, 90.0, 90.0))).holds
    assert not without_oscillation(claim, compared((None, None, None), (90.0, 90.0, 90.0))).holds


def test_a_run_that_is_not_whole_is_said_to_be_so():
    verdict = without_oscillation(Claim("x", "y"), compared((80.0, None, -90.0), (80.0, 70.0, 90.0)))
    assert verdict.holds
    assert "64 steps, for the 2 of 3 seeds whose training succeeded, proper for 1 of 2 seeds" in verdict.ours


def test_a_controller_that_is_not_run_is_not_judged():
    found = compared((80.0, 85.0, 90.0), (80.0, 85.0, 90.0))
    few, all_of_them = (verdicts_on("spheres", "x", one) for one in (found, found | {UNVARIED: adapted(1.0, 2.0, 3.0)}))
    assert [v.claim for v in all_of_them[:-1]] == [v.claim for v in few]
    assert "vary" in all_of_them[-1].claim.sentence
    assert all(settings.controllers == tuple(CONTROLS) for settings in SETTINGS.values())
    assert all(UNVARIED not in settings.controllers for settings in IN_FULL.values())


def test_the_true_field_has_its_sinks_at_the_minima():
    found = zeros(true_field)
    stable = (np.linalg.eigvals(jacobian(true_field, found)).real < 0).all(1)
    np.testing.assert_allclose(np.sort(found[stable][:, 0]), [-0.850, 0.269, 1.839], atol=1e-3)
    np.testing.assert_allclose(found[:, 1], 0, atol=1e-8)
    assert len(found) == 5


def test_a_field_from_its_weights_is_that_of_the_unit():
    unit = ad.units.MLP(2, 7, 2).double()
    x = torch.randn(5, 2, dtype=torch.float64)
    layers = [value.tolist() for value in unit.state_dict().values()]
    np.testing.assert_allclose(mlp(layers)(x.numpy()), unit(x).detach().numpy(), rtol=1e-12)
