"""Proper ODEs: the published fields, several seeds at once, and the studies' rules."""

import numpy as np
import pytest
import torch
from torch import nn

import anydepth as ad
from anydepth.depth.schemes import fixed_schemes
from anydepth.errors import ConfigError
from anydepth.fast.native.slots import toeplitz
from anydepth.measure.evaluation import evaluate
from anydepth.recipes import RECIPES
from anydepth.runs.folder import dataset_of
from anydepth.runs.override import override
from anydepth.train.prepare import prepare
from anydepth.train.training import train
from anydepth_papers.data.landscape import true_field
from anydepth_papers.experiments import proper_crossings, proper_history
from anydepth_papers.experiments.proper_constants import PUBLISHED, TINY, begins_well, costs_more, is_robust
from anydepth_papers.experiments.proper_fields import jacobian, mlp, zeros
from anydepth_papers.experiments.proper_rates import SETTINGS as RATED
from anydepth_papers.experiments.proper_rates import best_rates, filled, is_due_to_rate, is_independent, means_of
from anydepth_papers.experiments.proper_tolerances import _verdicts as tolerance_verdicts
from anydepth_papers.judge.study import Study
from anydepth_papers.nets.ensemble import FAILED, Ensemble, trained_together
from anydepth_papers.nets.flows import FACTORS, LANDSCAPE, PAPER, SMOKE, accuracy_on, examine, is_proper
from anydepth_papers.nets.together import Together
from anydepth_papers.studies.adaption_settings import CONTROLS, IN_FULL, ON_IMAGES, SETTINGS
from anydepth_papers.studies.grid_rules import (
    critical_steps,
    criticals,
    is_continuous,
    is_larger,
    is_same_around,
    is_tied,
    is_where,
    succeeded,
    trends,
)
from anydepth_papers.studies.table_one import MOST_ACCURATE, UNVARIED, best_run, verdicts_on

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


APPENDIX = {
    "mnist": ("conv_field", 96, "sgd", 1e-2, 256, 7020),
    "cifar10": ("conv_field", 128, "adam", 1e-3, 256, 7800),
    "spheres": ("vector_conv_field", 32, "adam", 1e-4, 128, 10_000),
    "landscape": ("mlp", 48, "adam", 5e-4, 128, 30_000),
}
"""App. A of Ott et al. 2020."""


@pytest.mark.parametrize("name", APPENDIX)
def test_recipes_are_those_of_the_appendix(name):
    config = RECIPES[f"proper-{name}"]()
    options, training = config.model.options, config.training
    field, optimizer = (options["unit"], options["options"]["hidden"]), (config.optimizer.name, config.optimizer.lr)
    assert (*field, *optimizer, training.batch, training.steps) == APPENDIX[name]
    assert getattr(config.optimizer, "momentum", 0) == config.optimizer.weight_decay == config.data.validation == 0
    assert (config.schedule.name, config.model.gradient, config.data.limit) == ("constant", "backprop", None)
    assert not config.data.crop
    assert not config.data.flip


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
    by_matrix = x.flatten(1) @ toeplitz(conv.weight, d, conv.padding[0]).T
    torch.testing.assert_close(by_matrix.view(5, 3, d), conv(x))


@pytest.mark.parametrize("d", [1, 2, 4, 5])
def test_a_small_convolutional_field_takes_the_cheap_path_and_agrees(d):
    torch.manual_seed(0)
    block = ad.ContinuousBlock(lambda: ad.units.VectorConvField(d, 3), "linear", 3, scheme="rk4", steps=4).double()
    x = torch.randn(6, d, dtype=torch.float64)
    found = {}
    for is_fast in (True, False):
        block.zero_grad()
        with ad.fast_paths(is_fast):
            out = block(x)
        assert (block.stats.path == "native") == (is_fast and d <= 4)
        out.square().sum().backward()
        found[is_fast] = [out.detach(), *(parameter.grad for parameter in block.parameters())]
    for one, other in zip(*found.values(), strict=True):
        torch.testing.assert_close(one, other)


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
    monkeypatch.setattr("anydepth_papers.nets.ensemble.Remembered._test", None)
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


def word(verdict):
    return verdict.judgement.word


def cells(**changes):
    """Cells by steps, of nets whose accuracy changes so much."""
    return {int(steps[1:]): [net(change) for change in some] for steps, some in changes.items()}


def test_few_steps_tie_and_many_do_not():
    grid = cells(_1=(50.0, 60.0, 45.0), _64=(1.0, 2.0, 0.5))
    assert word(is_tied("x", grid)) == "holds"
    assert word(is_continuous("x", grid, criticals(grid))) == "holds"
    assert "64, 64, 64" in is_continuous("x", grid, criticals(grid)).ours
    other = cells(_1=(1.0, 2.0, 0.5), _64=(50.0, 60.0, 45.0))
    assert word(is_tied("x", other)) == word(is_continuous("x", other, criticals(other))) == "does not hold"
    noisy = cells(_1=(2.0, 60.0, 5.0), _64=(2.0, 30.0, 5.0))
    assert word(is_tied("x", noisy)) == word(is_continuous("x", noisy, criticals(noisy))) == "undecided"
    assert word(is_tied("x", {1: [None, None, None]})) == "undecided"


def test_critical_steps_are_compared_in_octaves():
    assert word(is_where("x", 64, 128, [64, 64, 128, 128, 64], 128)) == "holds"
    assert word(is_where("x", 64, 128, [4, 4, 8, 4, 4], 128)) == "does not hold"
    assert word(is_where("x", 64, 128, [32, 128, None, 16, 64], 128)) == "undecided"
    assert word(is_larger("x", [64, 32, 64, None, 64], [4, 4, 8, 8, 4], 64)) == "holds"
    assert word(is_larger("x", [4, 4, 8, 4], [64, 32, 64, 64], 64)) == "does not hold"
    assert word(is_larger("x", [8, 8, 8, 8], [8, 4, 16, None], 8)) == "undecided"
    assert word(is_larger("x", [8, 8], [None, None], 8)) == "undecided"
    assert word(is_larger("x", [64] * 5, [4, 4, 4, None, None], 64)) == "undecided", "a seed without one is no evidence"


def test_accuracy_on_both_sides_of_the_critical_step_is_compared_seed_by_seed():
    """Far from it, and for seeds without one, nothing is compared."""
    grid = {1: [100.0] * 3, 4: [80.0, 70.0, 60.0], 8: [82.0, 72.0, 62.0], 16: [81.0, 71.0, 61.1], 128: [0.0] * 3}
    grid = {steps: accurate(*some) for steps, some in grid.items()}
    around = is_same_around("x", grid, [16, 16, 16])
    assert word(around) == "holds"
    assert "3 of 3 seeds" in around.ours
    worse = grid | {16: accurate(70.0, 60.5, 50.0)}
    assert word(is_same_around("x", worse, [16, 16, 16])) == "does not hold"
    assert word(is_same_around("x", grid, [16, None, None])) == "undecided"
    assert "0 of 3" in is_same_around("x", grid, [1, None, None]).ours, "no net is coarser"


def test_a_trend_is_over_the_whole_grid():
    grid = {1: accurate(90.0, 50.0, None), 2: accurate(88.0, 60.0, 70.0), 4: accurate(86.0, None, 70.0)}
    assert trends(grid) == pytest.approx([-4.0])


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


def test_independence_of_the_step_is_judged_by_trends_without_failed_seeds():
    chosen = {1: 0.1, 2: 0.2, 4: 0.2}
    flat = {
        1: accurate(88.0, 85.0, 86.0, None),
        2: accurate(86.0, 86.0, 86.0, 86.0),
        4: accurate(86.5, 86.0, 85.0, 87.0),
    }
    verdict = is_independent(flat, chosen, 0.2)
    assert word(verdict) == "holds"
    assert "2 of 3" in verdict.ours
    steep = {1: accurate(98.0, 97.0, 96.0), 2: accurate(80.0, 81.0, 82.0), 4: accurate(70.0, 70.5, 71.0)}
    assert word(is_independent(steep, chosen, 0.2)) == "does not hold"
    assert word(is_independent({1: accurate(None), 2: accurate(85.0), 4: accurate(None)}, chosen, 0.2)) == "undecided"


def test_a_trend_is_due_to_the_rate_if_choosing_takes_half_of_it_away():
    steep = {1: accurate(90.0, 91.0, 92.0), 2: accurate(70.0, 70.5, 71.0)}
    flat = {1: accurate(90.0, 91.0, 92.0), 2: accurate(88.0, 89.5, 90.0)}
    chosen = {1: 0.1, 2: 0.2}
    assert word(is_due_to_rate(0.1, chosen, {0.1: steep, 0.2: flat})) == "holds"
    assert word(is_due_to_rate(0.1, chosen, {0.1: steep, 0.2: steep})) == "does not hold"
    assert filled({0.1: {1: [None, {"accuracy": 1.0}]}}, 40.0) == {0.1: {1: accurate(40.0, 1.0)}}


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


def compared(best, ours, paper=None):
    return {
        "grid": searched(32, *[88.0] * len(ours)),
        MOST_ACCURATE: searched(64, *best),
        "paper": paper or adapted(*[80.0] * len(ours), nfe=100.0, changes=9),
        "steady": adapted(*ours),
    }


def judged(found, name="landscape", is_published=False, least=0.0):
    """Words of the verdicts by what their claims are about."""
    verdicts = verdicts_on(name, "x", found, is_published, least)
    return {verdict.claim.sentence: word(verdict) for verdict in verdicts}


def about(found, words, **options):
    return next(verdict for sentence, verdict in judged(found, **options).items() if words in sentence)


FIVE = (80.0, 85.0, 90.0, 82.0, 88.0)


@pytest.mark.parametrize(
    ("gaps", "verdict"),
    [
        ((0.0, 0.2, -0.1, 0.0, 0.1), "holds"),
        ((-3.0, -3.1, -2.9, -3.0, -3.2), "does not hold"),
        ((-13.1, -2.8, 0.9, -3.5, -1.0), "undecided"),  # -3.9 points, standard error 2.5
    ],
)
def test_steady_is_at_most_a_point_below_the_most_accurate_run(gaps, verdict):
    found = compared(FIVE, [best + gap for best, gap in zip(FIVE, gaps, strict=True)])
    assert about(found, "point less accurate than the grid's most accurate") == verdict


def test_steady_is_judged_claim_by_claim():
    found = compared(FIVE, FIVE)
    assert about(found, "fewer than 3 times") == "holds"
    assert about(found, "trained by `steady` end as proper") == "undecided", "5 of 5 may be 48 %"
    assert about(found | {"steady": adapted(*FIVE, changes=9)}, "fewer than 3 times") == "does not hold"
    dear = found | {"steady": adapted(*FIVE, nfe=95.0)}
    assert about(dear, "fewer than 3 times") == "does not hold"
    tied = [one | {"agreement": 80.0} for one in adapted(*FIVE)]
    assert about(found | {"steady": tied}, "trained by `steady` end as proper") == "does not hold"


def test_algorithm_1_is_compared_with_the_coarsest_proper_net():
    found = compared(FIVE, FIVE, adapted(88.0, 88.1, 87.9, 88.0, 88.2, nfe=30.0, changes=9))
    assert about(found, "Algorithm 1 needs at most") == "holds"
    assert about(found, "changes more than 5 times") == "holds"
    assert about(compared(FIVE, FIVE), "Algorithm 1 needs at most") == "does not hold", "3 times the evaluations"
    four = adapted(88.0, 88.0, 88.0, 88.0, 88.0)
    four[0] = four[0] | {"proper": False}
    assert about(compared(FIVE, FIVE, four), "trained by Algorithm 1 end as proper") == "undecided"


def test_accuracies_on_spheres_are_compared_in_the_median_and_failed_seeds_are_not_counted_as_odes():
    """One seed that failed decides nothing."""
    paper = adapted(98.9, 99.0, 98.8, 50.0, 98.9, nfe=100.0)
    found = compared((99.0, 99.2, 99.1, 99.3, 99.0), (99.0, 99.1, 99.2, 99.3, 99.1), paper)
    assert about(found, "point less accurate than", name="spheres") == "holds"
    verdicts = {v.claim.sentence: v for v in verdicts_on("spheres", "x", found, True, 75.0)}
    assert "4 of 4" in next(v for s, v in verdicts.items() if "trained by Algorithm 1 end" in s).ours
    printed = next(v for s, v in verdicts.items() if "accuracy of Algorithm 1" in s)
    assert word(printed) == "holds"
    assert "1 of 5 seeds failed" in printed.ours
    assert word(next(v for s, v in verdicts.items() if "evaluations of Algorithm 1 are" in s)) == "holds"


def test_a_run_that_is_not_whole_is_said_to_be_so():
    found = compared((80.0, None, -90.0), (80.0, 70.0, 90.0))
    told = next(
        v.ours for v in verdicts_on("landscape", "x", found, False, 0.0) if "most accurate proper" in v.claim.sentence
    )
    assert "64 steps, for the 2 of 3 seeds whose training succeeded, proper for 1 of 2 seeds" in told


def test_a_controller_that_is_not_run_is_not_judged():
    found = compared(FIVE, FIVE)
    few, all_of_them = (
        verdicts_on("spheres", "x", one, False, 0.0) for one in (found, found | {UNVARIED: adapted(*FIVE)})
    )
    assert [v.claim for v in all_of_them[:-1]] == [v.claim for v in few]
    assert "vary" in all_of_them[-1].claim.sentence
    assert all(settings.controllers == tuple(CONTROLS) for settings in SETTINGS.values())
    assert all(UNVARIED not in settings.controllers for settings in IN_FULL.values())


@pytest.mark.parametrize("studied", [SETTINGS, IN_FULL, ON_IMAGES])
def test_algorithm_1_is_run_as_published(studied):
    for settings in studied.values():
        for task in settings.tasks.values():
            control = task.config(0, "euler", 8, *CONTROLS["paper"]).control
            assert (control.every, control.threshold, control.shrink, control.grow, control.first) == (
                50,
                0.1,
                0.5,
                1.1,
                None,
            )


def test_printed_figures_are_compared_with_published_settings_only():
    found = compared(FIVE, FIVE)
    assert not any("as published" in sentence for sentence in judged(found))
    assert sum("as published" in sentence for sentence in judged(found, is_published=True)) == 3
    assert all(settings.is_published for settings in IN_FULL.values())
    assert not any(task.settings for task in IN_FULL["cpu"].tasks.values())


# Constants, history, tolerances


def test_constants_are_compared_seed_by_seed():
    def nets(*accuracies, nfe=30.0, first=28):
        told = {"nfe": nfe, "change": 2.0, "proper": True, "steps": [(0, first), (50, 30), (1000, 30)]}
        return [told | {"accuracy": accuracy} for accuracy in accuracies]

    found = {
        PUBLISHED: nets(80.0, 81.0, 82.0),
        "grow 1.2": nets(80.5, 81.0, 81.6),
        TINY: nets(80.0, 81.0, 82.0, nfe=90.0),
    }
    assert word(is_robust("grow 1.2", found)) == "holds"
    assert word(is_robust("grow 1.2", found | {"grow 1.2": nets(60.0, 61.0, 62.0)})) == "does not hold"
    assert word(is_robust("grow 1.2", found | {"grow 1.2": nets(80.5, 81.0, 81.6, nfe=90.0)})) == "does not hold"
    assert word(begins_well(found[PUBLISHED])) == "holds"
    assert "29.9 on average" in begins_well(found[PUBLISHED]).ours
    assert word(begins_well(nets(80.0, 81.0, 82.0, first=2000))) == "does not hold"
    assert word(costs_more(found)) == "holds"


def test_a_watched_training_ends_as_one_that_is_not(tmp_path):
    settings = proper_history.Settings({LANDSCAPE: SMOKE[LANDSCAPE]}, 2)
    study = Study("x", "smoke", settings, (0,), tmp_path / "study")
    looks = proper_history.watched(study, LANDSCAPE, SMOKE[LANDSCAPE], 0)
    config = SMOKE[LANDSCAPE].config(0, "euler", 8, "control.name=paper", "control.every=2")
    alone = train(config, tmp_path / "alone")
    controls = [line for line in alone.metrics() if line["kind"] == "control"]
    assert [(look["step"], look["event"]) for look in looks[:-1]] == [(c["step"], c["event"]) for c in controls[1:]]
    assert [look["steps"] for look in looks] == [line["steps"] for line in controls]
    assert looks[-1]["accuracy"] == alone.metrics()[-1]["test_accuracy"]


def test_halvings_are_compared_with_the_next_check():
    def looks(*gaps):
        return [
            {
                "event": "shrink" if i % 2 == 0 else "grow",
                "accuracy": 80.0,
                **dict.fromkeys(proper_history.OTHERS, 80 - gap),
            }
            for i, gap in enumerate(gaps)
        ]

    assert proper_history.at_halvings(looks(20.0, 3.0, 30.0, 5.0)) == ([20.0, 30.0], [3.0, 5.0])
    nets = [looks(20.0, 3.0), looks(25.0, 4.0), looks(22.0, 3.5), None]
    assert [word(v) for v in proper_history.verdicts_on("x", nets)] == ["holds", "holds"]
    assert [word(v) for v in proper_history.verdicts_on("x", [None, []])] == ["undecided", "undecided"]


def test_tolerances_are_judged_in_the_median():
    def nets(*changes):
        tests = [[(1.0, 90.0), (0.1, 90.0 - change), (10.0, 0.0)] for change in changes]
        return [{"accuracy": 90.0, "tolerance": 1.0, "nfe": 9.0, "tests": some} for some in tests]

    found = {("fehlberg21", 1.0): nets(30.0, 25.0, 40.0, 31.0, 22.0, 28.0), ("fehlberg21", 0.1): nets(*range(6))}
    found |= {("dopri54", 1.0): nets(1.0, 2.0), ("dopri54", 0.1): nets(*[20.0] * 6)}
    found |= {(scheme, None): [*nets(0.0, 20.0), None] for scheme in ("fehlberg21", "dopri54")}
    words = [word(verdict) for verdict in tolerance_verdicts(found, (1.0, 0.1))]
    assert words == ["holds", "holds", "undecided", "undecided", "does not hold", "undecided"]


# Crossings and fields


def crossed(*rates):
    return [{"rate": rate} for rate in rates]


@pytest.mark.parametrize(
    ("coarse", "fine", "verdict"),
    [
        ((0.1, 0.12, 0.09), (0.0, 0.0, 0.0), "holds"),
        ((0.1, 0.12, 0.09), (0.01, 0.012, 0.009), "does not hold"),
        ((0.1, 0.12, 0.09, 0.1, 0.1), (0.0049, 0.0004, 0.0, 0.0, 0.0), "undecided"),  # a ratio of 96
        ((0.1, 0.12, 0.09, 0.1, 0.1), (0.004, 0.0, 0.0, 0.0, 0.0), "undecided"),  # of 122, by four nets of five
    ],
)
def test_crossings_are_a_hundred_times_as_frequent(coarse, fine, verdict):
    found = {"coarse": crossed(*coarse), "fine": crossed(*fine)}
    assert word(proper_crossings.more_often(found, 19_900)) == verdict


@pytest.mark.parametrize(("rate", "verdict"), [(0.0049, "does not hold"), (0.004, "holds")])
def test_the_nets_that_were_trained_are_judged_by_the_ratio_of_their_mean_rates(rate, verdict):
    found = {"coarse": crossed(0.1, 0.12, 0.09, 0.1, 0.07), "fine": crossed(rate, 0.0, 0.0, 0.0, 0.0)}
    assert word(proper_crossings.these(found, 19_900)) == verdict  # ratios of 98 and 120
    assert word(proper_crossings.these({"coarse": [None], "fine": crossed(0.0)}, 19_900)) == "undecided"


def test_no_crossing_counts_as_half_a_pair_and_nets_without_one_are_counted():
    found = {"coarse": crossed(0.1, 0.1, 0.1), "fine": crossed(0.0, 0.0, 0.0)}
    assert "at least 200" in proper_crossings.more_often(found, 1000).ours
    assert "3 of 3" in proper_crossings.none_at_all(found).ours
    assert word(proper_crossings.none_at_all({"fine": [*crossed(0.1, 0.1, 0.1, 0.1), None]})) == "does not hold"


def test_crossings_are_looked_for_at_the_published_setting():
    task = proper_crossings.SETTINGS["cpu"]
    assert task.euler == (8, 256)
    assert task.config(0, "euler", 256) == PAPER[LANDSCAPE].config(0, "euler", 256)
    assert task.config(0).training.steps == 30_000


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
