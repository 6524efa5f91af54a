"""The studies of ContinuousNet: what they measure, and how they judge it."""

from typing import Any

import numpy as np
import pytest
import torch

from anydepth.zoo.models.resnet import ResNet
from anydepth_papers.experiments import adjoint_steps, pendulum, refinement, solvers
from anydepth_papers.judge.study import Study
from anydepth_papers.nets.image_nets import packed
from anydepth_papers.studies.one_step import DT, FACTORS, SCHEMES, TRUE, Errors, errors_of, global_error
from anydepth_papers.studies.one_step import pendulum as true_field
from anydepth_papers.studies.refinement_claims import ABOUT_DEPTH, Curves
from anydepth_papers.studies.refinement_claims import CLAIMS as REFINEMENT
from anydepth_papers.studies.refinement_claims import judged as judged_refinement
from anydepth_papers.studies.roughness import Stages
from anydepth_papers.studies.solver_claims import CLAIMS, Grid, judged

# The pendulum


def errors_with(at_data: float, elsewhere: float) -> Errors:
    """Every net has one error at the step of the data and another one elsewhere, for three seeds."""
    at = {f"{k:g}": [(at_data if k == 1 else elsewhere) * (1 + s / 100) for s in range(3)] for k in FACTORS}
    fields = {made: dict.fromkeys(SCHEMES, at) for made in (TRUE, *SCHEMES)}
    return Errors({"global": fields, "local": fields})


def test_a_dip_is_seen_and_a_flat_error_has_none():
    for scheme, order in SCHEMES.items():
        deep = errors_with(1e-5, 1e-2).dip(scheme)
        assert np.allclose(deep, 3 - order * np.log10(2))
        assert max(errors_with(1e-3, 1e-3).dip(scheme)) < 0


def test_the_midpoint_nets_dip_of_the_first_run_does_not_pass():
    """2.1e-5 at dt, 1.5e-4 at dt / 2, 5.7e-4 at 2 dt."""
    errors = errors_with(2.1e-5, 1.5e-4)
    errors.values["global"]["midpoint"]["midpoint"]["2"] = [5.7e-4, 5.8e-4, 5.6e-4]
    verdicts = dict(zip(pendulum.CLAIMS, pendulum.verdicts_on(errors), strict=True))
    assert verdicts["midpoint dip"].judgement.holds is False
    assert verdicts["midpoint halved"].judgement.holds is False


def test_the_true_field_converges_with_the_orders_of_the_schemes():
    errors = Errors(errors_of({}, 0.5))
    for scheme, order in SCHEMES.items():
        assert errors.slope(TRUE, scheme, FACTORS[0], FACTORS[1])[0] == pytest.approx(order, abs=0.1)
        assert errors.slope(TRUE, scheme, FACTORS[0], FACTORS[1], "local")[0] == pytest.approx(order + 1, abs=0.1)
    assert errors.consistency(TRUE, "euler", 0.125)[0] < errors.consistency(TRUE, "euler", 1)[0]
    assert global_error(true_field, "rk4", DT, 0.5) < 1e-7


# Solvers


def seen(accuracy: float, seed: int, count: int = 1000) -> dict:
    order = np.random.default_rng(seed).permutation(count)
    answers = packed((order < accuracy / 100 * count).tolist())
    return {"accuracy": accuracy, "answers": answers, "milliseconds": accuracy / 100, "evaluations": 8}


def grid_of(accuracy, seeds: int = 3) -> Grid:
    """A grid where `accuracy` gives the per cent of a net, a form and a seed."""

    def look(net: str, scheme: str, trained: int, seed: int) -> dict:
        names = [f"{s} x {max(1, round(trained * k))}" for s, of in solvers.STEPS[scheme].items() for k in of]
        names += [f"{way} to {n}" for way in ("skipped", "merged") for n in (4, 2)] if net == "resnet" else []
        names = ["as trained"] if trained == 1 else names
        forms = {name: seen(accuracy(net, name, seed), seed) for name in names}
        return {
            "trained": trained,
            "forms": {n: one | {"recalibrated": one, "validation": one["accuracy"]} for n, one in forms.items()},
        }

    nets = {"rk4": ("rk4", 8), "euler": ("euler", 8), "resnet": ("euler", 8), "resnet-1": ("euler", 1)}
    return Grid({net: {seed: look(net, *how, seed) for seed in range(seeds)} for net, how in nets.items()})


def flat_rk4(net: str, form: str, seed: int) -> float:
    """As the paper has it: RK4 is flat, the others peak at their own form."""
    own = {"rk4": True, "resnet-1": True}.get(net, form == "euler x 8")
    return {"resnet-1": 60.0}.get(net, 90.0 if own else 40.0 + 10 * (" 4" in form or form == "euler x 16")) + seed / 10


def test_solvers_as_the_paper_has_them_hold():
    grid = grid_of(flat_rk4)
    for name in ("to euler", "third", "fifth", "flat", "dip", "depth euler", "depth resnet", "converse", "harmonics"):
        assert judged(grid, name)[1].holds is True, name
    assert {judged(grid, name)[1].holds for name in ("as a resnet", "rk4 as euler", "half resnet")} == {True}


def test_solvers_where_rk4_loses_its_accuracy_do_not_hold():
    grid = grid_of(
        lambda net, form, seed: 70.0 - seed if (net, form) == ("rk4", "euler x 8") else flat_rk4(net, form, seed)
    )
    assert judged(grid, "to euler")[1].holds is False
    assert judged(grid, "third")[1].holds is True


def test_nets_no_better_than_a_shallow_one_are_found():
    assert grid_of(lambda net, form, seed: 50.0 if net in ("rk4", "resnet-1") else 90.0).idle() == ["rk4"]


def test_nets_that_do_not_use_their_depth_decide_nothing():
    grid = grid_of(lambda net, form, seed: flat_rk4(net, form, seed) if net != "resnet-1" else 89.0)
    assert {judged(grid, name)[1].holds for name in CLAIMS if name != "time"} == {None}


# Refinement


def test_twins_are_the_refined_net_until_they_are_not_refined(tmp_path):
    settings = refinement._SMOKE
    study = Study("refinement", "smoke", settings, (0,), tmp_path / "study")
    found = {kind: [refinement.piece_of(study, kind, 0)] for kind in ("refined", *refinement.TWINS)}
    losses = {kind: one[0]["epochs"]["train_loss"] for kind, one in found.items()}
    for count, at in enumerate(found["refined"][0]["refined"]):
        twin = losses[f"refined {count} times"]
        assert twin[:at] == losses["refined"][:at]
        assert twin[at:] != losses["refined"][at:]
    assert [len(stage["lines"][0]) for stage in found["refined"][0]["stages"]] == [1, 2, 4, 8]


def test_stages_ignore_other_events(tmp_path):
    stages = Stages(tmp_path / "run", tmp_path / "notes")
    stages.event({"kind": "epoch"})
    assert stages.noted() == []


def curves(gap: float, after: float, shallow: float = 80.0) -> Curves:
    """Accuracy of the refined nets above fixed depth, how much lower their loss is after a refinement, and the accuracy
    of a net of depth 1."""

    def one(kind: str, seed: int) -> dict:
        grown = kind.startswith("refined")
        loss = 1.0 - (after if kind == "refined" else 0) + seed / 1000
        epochs = {"train_loss": [loss] * 9, "validation_accuracy": [100 - 10 * loss] * 9}
        cost = 0.4 if grown else 1.0
        return {
            "accuracy": shallow + seed / 10 if kind == "refined 0 times" else 97 + (gap if grown else 0) + seed / 10,
            "seconds": cost * (1 + seed / 100),
            "evaluations": cost,
            "epochs": epochs,
            "refined": [2, 5, 8] if kind == "refined" else [],
            "losses": [(1.0, 1.001 + seed / 1000)] * 3,
            "stages": [{"roughness": 0.1 if grown else 5.0 + seed / 10}],
        }

    return Curves({kind: [one(kind, seed) for seed in range(4)] for kind in refinement.KINDS})


def test_refinement_is_judged_on_both_sides():
    good, bad, flat = curves(0.0, 0.2), curves(-3.0, -0.2), curves(0.0, 0.0)
    for name in ("time", "nearly", "cost", "alone", "loss", "accuracy", "smooth", "control", "schedule"):
        assert judged_refinement(good, name)[1].holds is True, name
    for name in ("nearly", "cost", "loss", "accuracy"):
        assert judged_refinement(bad, name)[1].holds is False, name
    assert judged_refinement(flat, "loss")[1].holds is None, "no better than the same net not refined"
    assert judged_refinement(curves(0.0, 0.2, shallow=96.0), "loss")[1].holds is True
    idle = curves(0.0, 0.2, shallow=93.0)
    assert idle.idle() == ["fixed", "refined", "refined late"]
    assert {judged_refinement(idle, name)[1].holds for name in ABOUT_DEPTH} == {None}
    assert not judged_refinement(good, "settings")[1].is_run
    assert set(REFINEMENT) == {name for name in REFINEMENT if judged_refinement(good, name)}


# Adjoint gradients


@pytest.mark.parametrize("unit", adjoint_steps.UNITS)
def test_pairs_of_adjoint_and_backprop_differ_in_their_gradients_only(unit):
    settings = adjoint_steps.SETTINGS["cpu"]
    one, other = (adjoint_steps.config_for(unit, 3, g, 1, settings).plain() for g in adjoint_steps.GRADIENTS)
    assert one["model"].pop("gradient") == "backprop"
    assert other["model"].pop("gradient") == "adjoint"
    assert one == other
    assert one["model"]["options"]["steps"] == 3 * one["model"]["options"]["size"]


def test_adjoint_steps_are_judged_on_both_sides():
    def found(few: float, many: float, shallow: float = 80):
        values = {(n, "adjoint"): few if n < 3 else many for n in adjoint_steps.FACTORS}
        values |= {(n, "backprop"): 95 for n in adjoint_steps.FACTORS} | {adjoint_steps.CONTROL: shallow}
        return {
            (unit, *case): [{"accuracy": value + s / 5} for s in range(5)]
            for unit in adjoint_steps.UNITS
            for case, value in values.items()
        }

    verdicts = {name: adjoint_steps.judged_on(found(70, 94.5), *name)[1].holds for name in adjoint_steps.CLAIMS}
    assert set(verdicts.values()) == {True}
    other = {name: adjoint_steps.judged_on(found(95, 80), *name)[1].holds for name in adjoint_steps.CLAIMS}
    assert {holds for (_, n), holds in other.items() if n == "enough"} == {False}
    assert {holds for (_, n), holds in other.items() if n != "enough"} == {None}
    idle = {adjoint_steps.judged_on(found(70, 94.5, shallow=91), *name)[1].holds for name in adjoint_steps.CLAIMS}
    assert idle == {None}, "a net that does not use its depth decides nothing"


def test_the_control_of_adjoint_steps_differs_in_its_depth_only():
    settings = adjoint_steps.SETTINGS["cpu"]
    deep, shallow = (adjoint_steps.config_for("skip-init", n, "backprop", 1, settings).plain() for n in (1, 0))
    for config, size in ((deep, 4), (shallow, 1)):
        assert (config["model"]["options"].pop("size"), config["model"]["options"].pop("steps")) == (size, size)
    assert deep == shallow


def test_a_shortened_resnet_is_among_the_forms_of_the_study():
    model = ResNet(channels=[2], layers=4, classes=3, image=(1, 8, 8), pool=4).eval()
    exam: Any = lambda form, choosing: form(torch.zeros(1, 1, 8, 8)).shape  # noqa: E731
    found = solvers.look(model, exam)
    assert found["trained"] == 4
    assert {"euler x 4", "euler x 8", "rk4 x 4", "skipped to 2", "projected to 1"} <= set(found["forms"])
