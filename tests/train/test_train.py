"""The training loop: schedules, optimisers, growth, averages, and what a run may touch."""

import hashlib
import math
from copy import deepcopy
from pathlib import Path

import pytest
import torch
from torch import nn

import anydepth as ad
from anydepth.data.source import Source
from anydepth.data.sources.digits import Digits
from anydepth.data.table import IGNORED
from anydepth.errors import ConfigError, NumericalError
from anydepth.measure.evaluation import Tally, evaluate, loss_of, metric, tally
from anydepth.runs.config import Constant, Cosine, InverseSqrt, RefineSettings, Step
from anydepth.runs.folder import Run, dataset_of, new_run, open_run
from anydepth.runs.progress import Watch
from anydepth.train.growth import RULES, grow
from anydepth.train.optimization import averaged_copy, make_optimizer, rate, update_average
from anydepth.train.prepare import prepare
from anydepth.train.trainer import Trainer
from anydepth.train.training import train
from small_runs import tiny


def hashes(folder):
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.rglob("*")) if p.is_file()}


def trainer_of(config, folder=Path("nowhere")):
    prepared = prepare(config, dataset_of(config, None))
    return Trainer(prepared, Run(folder, None))


# Schedules


def test_step_schedule_falls_before_the_first_step_of_a_milestone():
    schedule = Step(milestones=(2, 3), factor=0.5)
    assert [rate(schedule, step, 40, 10) for step in (0, 19, 20, 29, 30, 39)] == [1, 1, 0.5, 0.5, 0.25, 0.25]
    by_step = Step(milestones=(5,), unit="step")
    assert [rate(by_step, step, 10, 3) for step in (4, 5)] == pytest.approx([1, 0.1])


def test_cosine_schedule_starts_at_one_and_ends_near_its_final_share():
    schedule = Cosine(final=0.1)
    assert rate(schedule, 0, 1000, 10) == 1
    assert rate(schedule, 500, 1000, 10) == pytest.approx(0.55)
    assert rate(schedule, 999, 1000, 10) == pytest.approx(0.1, abs=1e-4)
    warm = Cosine(warmup=10)
    assert [rate(warm, step, 110, 10) for step in (0, 4, 9, 60)] == pytest.approx([0.1, 0.5, 1, 0.5])


def test_inverse_sqrt_schedule_is_the_papers():
    schedule = InverseSqrt(warmup=8000)
    for step in (1, 500, 8000, 35000):
        assert 0.1 * rate(schedule, step - 1, 35000, 100) == pytest.approx(
            0.1 * min(1, step / 8000) / math.sqrt(max(step, 8000))
        )
    assert rate(Constant(warmup=4), 1, 10, 10) == 0.5


# Losses and metrics


def test_losses_and_metrics_of_the_tasks():
    scores, labels = torch.randn(5, 3), torch.tensor([0, 1, 2, 0, 1])
    assert torch.equal(loss_of("classify", scores, labels), nn.functional.cross_entropy(scores, labels))
    words = torch.tensor([[0, 1, IGNORED], [2, IGNORED, IGNORED]])
    outputs = torch.randn(2, 3, 4)
    real = words != IGNORED
    assert torch.allclose(loss_of("tag", outputs, words), nn.functional.cross_entropy(outputs[real], words[real]))
    sums = tally("tag", outputs, words, 1.0)
    assert sums == Tally(3.0, float((outputs[real].argmax(-1) == words[real]).sum()), 3)
    x, y = torch.randn(4, 2), torch.randn(4, 2)
    assert metric("regress", tally("regress", x, y, 0.0)) == pytest.approx(float((x - y).square().mean().sqrt()))
    with pytest.raises(ConfigError, match="the targets are"):
        loss_of("regress", x, torch.randn(4))


# Optimisers


def test_decay_of_weights_spares_biases_and_norms_inside_blocks_too():
    model = ad.build("image", channels=[4], image=[1, 8, 8], pool=4, size=3)
    optimizer = make_optimizer(model, tiny("optimizer.weight_decay=0.1", "optimizer.decay=weights").optimizer)
    decayed = {id(p) for group in optimizer.param_groups if group["weight_decay"] for p in group["params"]}
    for name, parameter in model.named_parameters():
        assert (id(parameter) in decayed) == ("conv" in name or name in ("stem.0.weight", "classifier.weight")), name


# Growth


@pytest.mark.parametrize(
    ("rule", "options", "expected"),
    [
        ("nested", {}, ("linear:3", "rk4 x 4")),
        ("weights", {}, ("linear:3", "rk4 x 2")),
        ("steps", {}, ("linear:2", "rk4 x 4")),
        ("equal", {}, ("linear:3", "rk4 x 3")),
        ("listed", {"sizes": [5]}, ("linear:5", "rk4 x 2")),
        ("listed", {"steps": [7], "schemes": ["euler"]}, ("linear:2", "euler x 7")),
    ],
)
@pytest.mark.filterwarnings("ignore:block .* not nested")
def test_rules_for_growing(rule, options, expected):
    assert rule in RULES
    model = ad.build("image", channels=[4], image=[1, 8, 8], pool=4, basis="linear", size=2, steps=2)
    grow(model, RefineSettings(at=(1,), rule=rule, options=options), 0, None)
    form = ad.summary(model).rows[0].form
    assert (form.weights, form.solver) == expected


@pytest.mark.parametrize("basis", ad.BASES.names())
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
def test_every_basis_grows_with_every_optimiser(basis, optimizer, tmp_path):
    config = tiny(
        f"model.options.basis={basis}",
        f"optimizer.name={optimizer}",
        "optimizer.lr=0.01",
        'refine={"at": [2, 4], "unit": "step"}',
    )
    run = train(config, tmp_path / "run")
    grown = [line for line in run.metrics() if line["kind"] == "refine"]
    assert [line["step"] for line in grown] == [2, 4]
    assert grown[-1]["solver"]["to"] == "midpoint x 4"
    last = grown[-1]
    assert last["validation_after_loss"] == pytest.approx(last["validation_before_loss"], rel=0.1)


def test_moments_are_carried_or_reset():
    for moments, expected in (("carry", True), ("reset", False)):
        trainer = trainer_of(tiny(f"refine.moments={moments}", "refine.at=[1]"))
        trainer.take_step(trainer.order()[0], 0)
        grow(trainer.model, trainer.config.refine, 0, trainer.optimizer)
        grown = [p for name, p in trainer.model.named_parameters() if "blocks" in name]
        kept = [p for name, p in trainer.model.named_parameters() if "blocks" not in name]
        assert all((p in trainer.optimizer.state) == expected for p in grown)
        assert all(p in trainer.optimizer.state for p in kept)


@pytest.mark.parametrize("mode", ["checkpoint", "adjoint"])
def test_gradient_modes_train(mode, tmp_path):
    plain = train(tiny("refine.at=[1]"), tmp_path / "plain").metrics()[-1]
    other = train(tiny("refine.at=[1]", f"model.gradient={mode}"), tmp_path / "other").metrics()[-1]
    if mode == "checkpoint":
        assert other["test_loss"] == pytest.approx(plain["test_loss"], rel=1e-5)
    assert math.isfinite(other["test_loss"])


# Averages


def test_the_average_forgets_the_start_and_follows_refinement(tmp_path):
    model = nn.Linear(1, 1)
    nn.init.constant_(model.weight, 1e6)
    average, expected = averaged_copy(model), 1e6
    for step in range(200):
        nn.init.constant_(model.weight, float(step))
        update_average(average, model, 0.9, step)
        decay = min(0.9, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * step
    assert float(average.weight) == pytest.approx(expected, rel=1e-5) == pytest.approx(190, abs=1)
    config = tiny("training.ema=0.5", "refine.at=[1]")
    run = train(config, tmp_path / "run")
    assert ad.summary(run.model()).rows[0].form.solver == "midpoint x 2"


def test_the_average_is_what_is_saved_and_scored(tmp_path):
    config = tiny("training.ema=0.5")
    new_run(tmp_path / "run", config, dataset_of(config, None).facts())
    trainer = trainer_of(config, tmp_path / "run")
    model = trainer.fit()
    assert model is trainer.average
    assert not torch.equal(model.classifier.weight, trainer.model.classifier.weight)


# Numbers that are not finite


def test_a_loss_that_is_not_finite_stops_before_the_step():
    trainer = trainer_of(tiny())
    trainer.take_step(trainer.order()[0], 0)
    with torch.no_grad():
        trainer.model.classifier.bias[0] = float("nan")
    before = deepcopy(trainer.model.state_dict())
    with pytest.raises(NumericalError, match="loss is nan at step 1"):
        trainer.take_step(trainer.order()[1], 0)
    parameters = dict(trainer.model.named_parameters())
    assert all(torch.equal(p, before[n]) for n, p in parameters.items() if n != "classifier.bias")


def test_a_gradient_that_is_not_finite_stops_before_the_step():
    trainer = trainer_of(tiny())
    trainer.model.classifier.weight.register_hook(lambda gradient: gradient * float("inf"))
    before = deepcopy(trainer.model.state_dict())
    with pytest.raises(NumericalError, match="gradient is"):
        trainer.take_step(trainer.order()[0], 0)
    assert all(torch.equal(p, before[n]) for n, p in trainer.model.named_parameters())


def test_clipping_scales_the_gradient():
    trainer = trainer_of(tiny("training.clip=0.001", "optimizer.momentum=0"))
    before = torch.cat([p.detach().flatten() for p in trainer.model.parameters()])
    trainer.take_step(trainer.order()[0], 0)
    after = torch.cat([p.detach().flatten() for p in trainer.model.parameters()])
    assert float((after - before).norm()) == pytest.approx(0.05 * 0.001, rel=1e-3)


# What a run may touch


def test_no_run_reads_test_data_before_its_end(tmp_path, monkeypatch):
    reads, steps = [], []
    original = Digits.read
    monkeypatch.setattr(Digits, "read", lambda self, part: (reads.append((part, len(steps))), original(self, part))[1])

    class Counting(Watch):
        def step(self, status):
            steps.append(status.step)

    config = tiny("refine.at=[1]")
    train(config, tmp_path / "run", watch=Counting())
    assert [when for part, when in reads if part == "test"] == [steps[-1]] == [6]
    reads.clear()
    train(tiny("evaluation.test=false"), tmp_path / "other")
    assert all(part == "train" for part, _ in reads)


def test_files_of_the_test_part_are_asked_for_but_not_opened(tmp_path, monkeypatch):
    demanded = []
    monkeypatch.setattr(Source, "demand", lambda self, part: demanded.append(part))
    train(tiny("evaluation.test=false"), tmp_path / "run")
    assert "test" in demanded


def test_evaluation_changes_no_buffer_mode_or_random_state(tmp_path):
    trainer = trainer_of(tiny("training.ema=0.5"))
    trainer.take_step(trainer.order()[0], 0)
    trainer.model.blocks[0].eval()
    before, modes = deepcopy(trainer.model.state_dict()), [m.training for m in trainer.model.modules()]
    state = torch.get_rng_state()
    evaluate(trainer.model, trainer.validation, trainer.facts, batch=7)
    assert all(torch.equal(value, before[name]) for name, value in trainer.model.state_dict().items())
    assert [m.training for m in trainer.model.modules()] == modes
    assert torch.equal(torch.get_rng_state(), state)


def test_evaluation_does_not_depend_on_the_batch_size():
    trainer = trainer_of(tiny())
    scores = [evaluate(trainer.model, trainer.validation, trainer.facts, batch=size) for size in (1, 7, 20)]
    assert len({score.value for score in scores}) == 1
    assert [score.loss for score in scores] == pytest.approx([scores[0].loss] * 3, rel=1e-5)


def test_metrics_carry_their_part_and_say_what_the_model_was(tmp_path):
    run = train(tiny("refine.at=[1]"), tmp_path / "run")
    kinds = [line["kind"] for line in run.metrics()]
    assert kinds == ["step", "epoch", "refine", "step", "step", "epoch", "test"]
    first, last = [line for line in run.metrics() if line["kind"] == "epoch"]
    assert (first["nfe"], last["nfe"]) == (2, 4)
    assert {"train_loss", "train_accuracy", "validation_loss", "validation_accuracy", "lr", "seconds"} <= first.keys()
    assert last["parameters"] > first["parameters"]
    again = open_run(tmp_path / "run")
    assert again.config == run.config
    assert again.record.versions["torch"] == torch.__version__


def test_a_folder_with_a_run_is_not_overwritten(tmp_path):
    train(tiny(), tmp_path / "run")
    before = hashes(tmp_path / "run")
    with pytest.raises(ConfigError, match="holds a run already"):
        train(tiny("seed=1"), tmp_path / "run")
    assert hashes(tmp_path / "run") == before


ADAM = ("optimizer.name=adam", "optimizer.lr=0.02", "training.epochs=8")


@pytest.mark.parametrize("name", ["spheres"])
def test_vectors_with_classes_train(name, tmp_path):
    config = tiny(f"data.name={name}", "model.name=flow", "model.options={}", "data.limit=200", *ADAM)
    lines = [line for line in train(config, tmp_path / "run").metrics() if line["kind"] == "epoch"]
    assert lines[-1]["train_loss"] < lines[0]["train_loss"]


def test_a_regression_learns_the_pendulum(tmp_path):
    flow = '{"unit": "tanh_net", "scheme": "midpoint", "steps": 1, "scale": 0.01}'
    config = tiny(
        "data.name=pendulum",
        "model.name=flow",
        f"model.options={flow}",
        "optimizer.name=adam",
        "optimizer.lr=0.05",
        "data.limit=200",
        "training.epochs=20",
    )
    lines = [line for line in train(config, tmp_path / "run").metrics() if line["kind"] == "epoch"]
    assert lines[-1]["validation_rmse"] < 0.3 * lines[0]["validation_rmse"]
