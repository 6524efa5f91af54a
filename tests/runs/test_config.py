"""RunConfig: everything wrong is refused in one line, every field has an effect."""

import json
from functools import cache
from pathlib import Path
from types import SimpleNamespace, UnionType
from typing import Union, get_args, get_origin

import pytest
import torch
from pydantic import BaseModel

from anydepth.artifact import digest, pack_tensors
from anydepth.data.table import Batch
from anydepth.errors import ConfigError
from anydepth.recipes import RECIPES
from anydepth.runs.config import RunConfig, read_config
from anydepth.runs.folder import Run, dataset_of, open_run
from anydepth.runs.override import override
from anydepth.solve.solver import make_solver
from anydepth.surgery.blocks import blocks_of
from anydepth.train.control.controller import Clock, make_controller
from anydepth.train.prepare import prepare
from anydepth.train.trainer import Trainer
from anydepth.train.training import train
from command import assert_refused, run_command
from small_runs import TINY, tiny, tiny_tagger, write_treebank


def groups_in(annotation):
    """The groups of settings that a field may hold, by the name that selects each."""
    parts = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    models = [part for part in parts if isinstance(part, type) and issubclass(part, BaseModel)]
    return {model.model_fields["name"].default if len(models) > 1 else None: model for model in models}


def leaves(model=RunConfig, prefix=(), chosen=()):
    """Every (path, variant settings, field) of the schema."""
    for name, field in model.model_fields.items():
        path = (*prefix, name)
        groups = groups_in(field.annotation)
        if not groups:
            yield path, chosen, field
        for variant, group in groups.items():
            selected = () if variant is None else (f"{name}.name={variant}",)
            yield from leaves(group, path, (*chosen, *selected))


LEAVES = [(".".join(path), chosen, field) for path, chosen, field in leaves()]
LACKING = {"schedule.name=step": ("schedule.milestones=[1]",)}
"""What a variant needs besides its name."""


def wrong_values(path, field):
    """Values that no field of this kind takes."""
    yield '{"a": {"b": 1}}' if field.annotation is not dict and "options" not in path else "3"
    yield "[[]]"
    kinds = str(field.annotation)
    if "int" in kinds or "float" in kinds:
        yield from ("abc", "NaN", "Infinity", "-1", '"3"', "1e400")
    if "bool" in kinds:
        yield from ("maybe", "1")
    if "Literal" in kinds:
        yield "nonesuch"


@pytest.mark.parametrize(("path", "chosen", "field"), LEAVES, ids=lambda part: str(part)[:60])
def test_wrong_values_are_refused_in_one_line(path, chosen, field, capsys, tmp_path):
    """All of them by the config, one of them by the command too."""
    extras = [setting for choice in chosen for setting in (choice, *LACKING.get(choice, ()))]
    values, config = list(wrong_values(path, field)), RECIPES["digits"]()
    for value in values:
        with pytest.raises(ConfigError) as refused:
            override(config, [*extras, f"{path}={value}"])
        assert path.split(".")[-1] in str(refused.value)
        assert "\n" not in str(refused.value)
    settings = [part for setting in (*extras, f"{path}={values[-1]}") for part in ("--set", setting)]
    done = run_command(capsys, "train", "digits", "--out", tmp_path / "run", *settings)
    assert_refused(done, 2, path.split(".")[-1])
    assert not (tmp_path / "run").exists()


def test_the_schema_says_that_nothing_else_is_taken():
    assert RunConfig.model_json_schema()["additionalProperties"] is False


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("optimizer.lrr=1", "did you mean 'lr'"),
        ("optimiser.lr=1", "did you mean 'optimizer'"),
        ("training.epoch=1", "did you mean 'epochs'"),
        ("schedule.milestones=[1]", "schedule.milestones"),
        ("data.name=mnits", "did you mean 'mnist'"),
        ("data.options.size=3", "no option 'size'"),
        ("model.name=imagee", "did you mean 'image'"),
        ("model.options.chanels=[4]", "did you mean 'channels'"),
        ("model.options.basis=linaer", "did you mean 'linear'"),
        ("model.options.classes=7", "but the data has 10"),
        ("model.options.size=0", "size"),
        ("refine.rule=nestedd", "did you mean 'nested'"),
        ("refine.options.sizes=[2]", "no option 'sizes'"),
        ("refine.at=[3,2]", "must increase"),
        ("refine.at=[99]", "the run ends before"),
        ("training.steps=5", "either epochs or steps"),
        ("training.epochs=null", "either epochs or steps"),
        ("seed", "a.b=value"),
        ("=3", "a.b=value"),
        ("seed.deeper=3", "not a group"),
        ("optimizer.name=sgdd", "sgd"),
        ("data.validation=5000", "cannot be held out"),
    ],
)
def test_slips_of_the_pen_are_pointed_out(setting, says, capsys, tmp_path):
    done = run_command(capsys, "train", "digits", "--out", tmp_path / "run", "--set", setting)
    assert_refused(done, 3 if "held out" in says else 2, says)
    assert not (tmp_path / "run").exists()


def test_a_refinement_that_would_fail_later_is_refused_before_training(capsys, tmp_path):
    settings = ["refine.rule=listed", 'refine.options={"sizes":[2,3,5]}']
    words = [part for setting in settings for part in ("--set", setting)]
    done = run_command(capsys, "train", "digits", "--out", tmp_path / "run", *words)
    assert_refused(done, 2, "refinement 4")


def test_changing_a_variant_drops_the_fields_it_does_not_have():
    config = override(RECIPES["digits"](), ["optimizer.name=adamw", "optimizer.lr=0.01", "schedule.name=constant"])
    assert config.optimizer.name == "adamw"
    assert config.optimizer.weight_decay == 1e-3
    assert config.schedule.plain() if hasattr(config.schedule, "plain") else config.schedule.name == "constant"


def test_a_config_survives_its_own_json():
    for name in RECIPES:
        config = RECIPES[name]()
        assert read_config(json.loads(json.dumps(config.plain()))) == config


@pytest.mark.parametrize("values", [None, [], "text", {"data": 3}, {}, {"seed": float("nan")}])
def test_configs_that_are_none_are_refused(values):
    with pytest.raises(ConfigError):
        read_config(values)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"seed": 1e999}', "\x00", "\xff"])
def test_bad_config_files_are_refused(content, tmp_path, capsys):
    (tmp_path / "bad.json").write_bytes(content.encode("latin-1"))
    assert_refused(run_command(capsys, "train", tmp_path / "bad.json"), 2, "bad.json")


def test_show_config_can_be_trained_from(capsys, tmp_path):
    done = run_command(capsys, "train", "digits", "--set", "training.epochs=20", "--show-config")
    (tmp_path / "mine.json").write_text(done.out)
    again = run_command(capsys, "train", tmp_path / "mine.json", "--show-config")
    assert again.out == done.out
    assert json.loads(done.out)["training"]["epochs"] == 20


# Every field has an effect


def outcome(folder, config):
    """Everything that a run leaves behind, but for times."""
    run = train(config, folder)
    lines = [{k: v for k, v in line.items() if k != "seconds"} for line in run.metrics()]
    return digest(pack_tensors(run.model().state_dict())), json.dumps(lines)


def trainer_of(config):
    prepared = prepare(config, dataset_of(config, None))
    return Trainer(prepared, Run(Path("nowhere"), None))


def layout(folder, config):
    """Memory layouts of the images that training asks for."""
    asked = []
    with pytest.MonkeyPatch.context() as patch:
        original = Batch.to

        def spy(self, device, dtype, channels_last=False):
            asked.append(channels_last)
            return original(self, device, dtype, channels_last)

        patch.setattr(Batch, "to", spy)
        trainer = trainer_of(config)
        trainer.take_step(trainer.order()[0], 0)
    return asked


def threads(folder, config):
    train(config, folder)
    return torch.get_num_threads(), open_run(folder).record.threads


def segments(folder, config):
    return [(block.gradient, block.segment) for block in blocks_of(trainer_of(config).model).values()]


def batch_sizes(folder, config):
    """Sizes of the batches that the model sees in evaluation."""
    trainer, seen = trainer_of(config), []
    trainer.model.register_forward_pre_hook(lambda _, inputs: seen.append(len(inputs[0])))
    trainer.score(trainer.validation)
    return seen


def checkpoints(folder, config):
    train(config, folder)
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def device(folder, config):
    try:
        return str(trainer_of(config).device)
    except ConfigError as error:
        return str(error)


def tagged(folder, config):
    """The weights of a tagger that trains with the same data settings."""
    write_treebank(folder / "data" / "treebank")
    run = train(tiny_tagger(f"data.hide={config.data.hide}"), folder / "run", folder / "data")
    return digest(pack_tensors(run.model().state_dict()))


def decided(gap):
    """What the paper's controllers do when a more accurate solver makes such a difference."""

    def observe(folder, config):
        options = {"steps": 4} if config.control.name == "paper" else {"rtol": 1e-3}
        solvers = {"block": make_solver(scheme="euler" if "steps" in options else "dopri54", **options)}
        controller = make_controller(config.control)
        controller.gap_to = lambda probe, solvers: gap
        return controller.check(SimpleNamespace(solvers=solvers), Clock(1, 2), {}).solvers, controller.finer(solvers)

    return observe


def allowed(folder, config):
    """The errors that the steady controller allows over a training."""
    return [make_controller(config.control).allowed(Clock(step, 100)) for step in range(100)]


def floor(folder, config):
    """The fewest steps that the steady controller takes."""
    return make_controller(config.control).floor({"block": make_solver(scheme="euler", steps=4)})


def begun(folder, config):
    """The number of steps that training begins with."""
    return train(config, folder).metrics()[0]["steps"]


CONSTANT, STEP, COSINE, ROOT = (f"schedule.name={name}" for name in ("constant", "step", "cosine", "inverse_sqrt"))
GROWN = "refine.at=[1]"
PAPER, TOLERANCE, STEADY = (f"control.name={name}" for name in ("paper", "paper_tolerance", "steady"))
EVOLVING = 'model.options.weights={"conv*": {"evolution": "rda"}, "*": ["constant", 1]}'
DEPTHS = 'training.any_depth={"draws": 1}'
DEEP = ["model.options.steps=8", "model.options.size=2"]
STALLS = ["refine.when=stall", "training.epochs=6", "refine.patience=1", "refine.least_gain=0.99"]
EFFECTS = {
    "seed": ([], "1", outcome),
    "device": ([], "cuda", device),
    "threads": (["threads=1"], "2", threads),
    "log_every": ([], "3", outcome),
    "checkpoint_minutes": ([], "0", checkpoints),
    "data.name": ([], "spheres", lambda folder, config: config.data.name),
    "data.options": (["data.name=spheres", "model.name=flow", "model.options={}"], '{"d": 3}', outcome),
    "data.validation": ([], "30", outcome),
    "data.split_seed": ([], "1", outcome),
    "data.limit": ([], "32", outcome),
    "data.crop": ([], "1", outcome),
    "data.flip": ([], "true", outcome),
    "data.hide": ([], "5.0", tagged),
    "model.name": (["data.name=spheres", "model.options={}", "model.name=flow"], "image", None),
    "model.options": ([], '{"channels": [4], "pool": 4, "scheme": "rk4"}', outcome),
    "model.gradient": ([], "checkpoint", segments),
    "model.segment": (["model.gradient=checkpoint"], "2", segments),
    "training.epochs": ([], "3", outcome),
    "training.steps": (["training.epochs=null", "training.steps=4"], "5", None),
    "training.batch": ([], "12", outcome),
    "training.label_smoothing": ([], "0.1", outcome),
    "training.clip": ([], "0.01", outcome),
    "training.ema": ([], "0.9", outcome),
    "training.vary_steps": (["model.options.steps=4"], "0.5", outcome),
    "training.any_depth.forms": ([*DEEP, DEPTHS], '[{"steps": 2}]', outcome),
    "training.any_depth.draws": ([*DEEP, DEPTHS], "0", outcome),
    "training.any_depth.sandwich": ([*DEEP, DEPTHS], "false", outcome),
    "training.any_depth.distill": ([*DEEP, DEPTHS], "0.5", outcome),
    "training.any_depth.temperature": ([*DEEP, DEPTHS], "3.0", outcome),
    "training.any_depth.finest": ([*DEEP, DEPTHS], "0.7", outcome),
    "training.penalty_kinetic": ([], "0.5", outcome),
    "training.penalty_roughness": (["model.options.size=2"], "0.5", outcome),
    "training.penalty_initial": ([EVOLVING], "0.5", outcome),
    "training.penalty_evolution": ([EVOLVING], "0.5", outcome),
    "training.precision": ([], "float64", outcome),
    "training.channels_last": ([], "false", layout),
    "refine.at": ([], "[1]", outcome),
    "refine.unit": (["refine.at=[1]"], "step", outcome),
    "refine.when": (STALLS[1:], "stall", outcome),
    "refine.patience": (STALLS, "2", outcome),
    "refine.least_gain": (STALLS, "0.0", outcome),
    "refine.most": (STALLS, "1", outcome),
    "refine.rule": ([GROWN], "weights", outcome),
    "refine.options": ([GROWN, "refine.rule=listed"], '{"sizes": [2]}', outcome),
    "refine.method": (
        [GROWN, "refine.rule=listed", 'refine.options={"sizes":[3]}', "model.options.size=2"],
        "project",
        outcome,
    ),
    "refine.moments": (["refine.at=[3]", "refine.unit=step"], "reset", outcome),
    "evaluation.every": ([], "2", outcome),
    "evaluation.batch": ([], "7", batch_sizes),
    "evaluation.test": ([], "false", outcome),
    "optimizer.name": ([], "adam", outcome),
    "optimizer.lr": ([], "0.06", outcome),
    "optimizer.weight_decay": ([], "0.1", outcome),
    "optimizer.decay": (["optimizer.weight_decay=0.1"], "weights", outcome),
    "optimizer.momentum": ([], "0.5", outcome),
    "optimizer.nesterov": ([], "true", outcome),
    "optimizer.betas": (["optimizer.name=adam"], "[0.5, 0.9]", outcome),
    "optimizer.eps": (["optimizer.name=adam"], "0.1", outcome),
    "schedule.name": ([], "cosine", outcome),
    "schedule.warmup": ([CONSTANT], "3", outcome),
    "schedule.milestones": ([STEP, "schedule.milestones=[1]"], "[5]", outcome),
    "schedule.unit": ([STEP, "schedule.milestones=[1]"], "step", outcome),
    "schedule.factor": ([STEP, "schedule.milestones=[1]"], "0.5", outcome),
    "schedule.final": ([COSINE], "0.5", outcome),
    "control.name": ([], "paper", outcome),
    "control.every": ([PAPER, "control.first=0.5", "control.every=1"], "2", outcome),
    "control.threshold": ([PAPER], "0.3", decided(0.2)),
    "control.shrink": ([PAPER], "0.7", decided(0.2)),
    "control.grow": ([PAPER], "1.5", decided(0.0)),
    "control.first": ([PAPER], "0.3", begun),
    "control.check_steps": ([PAPER], "70", decided(0.0)),
    "control.most_steps": ([PAPER], "5", decided(0.2)),
    "control.tighter": ([TOLERANCE], "0.01", decided(0.0)),
    "control.tightest": ([TOLERANCE], "0.8e-3", decided(0.2)),
    "control.limit": ([STEADY], "0.02", allowed),
    "control.least_steps": ([STEADY], "20", floor),
    "control.rough": ([STEADY], "0.2", allowed),
    "control.settle": ([STEADY], "0.5", allowed),
    "control.controller": ([], "", None),  # the journey of tests/journeys/test_extending.py shows it
    "control.options": ([], "", None),
    "control.examples": ([STEADY, "control.every=1", "control.examples=16"], "32", outcome),
}
"""For every field: settings to start from, another value, and where its effect shows."""


def test_the_table_of_effects_has_every_field():
    assert set(EFFECTS) == {path for path, _, _ in LEAVES}


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory):
    """What is seen with the settings that a field starts from; those that several fields share are trained once."""

    @cache
    def found(observe, settings):
        return observe(tmp_path_factory.mktemp("unchanged") / "run", tiny(*settings))

    return found


@pytest.mark.parametrize("path", [path for path, (_, _, observe) in EFFECTS.items() if observe])
@pytest.mark.filterwarnings("ignore:block .* not nested")
def test_every_field_has_an_effect(path, unchanged, tmp_path):
    settings, value, observe = EFFECTS[path]
    after = observe(tmp_path / "after", tiny(*settings, f"{path}={value}"))
    assert unchanged(observe, tuple(settings)) != after


def test_warmup_of_the_other_schedules(tmp_path):
    for schedule in ([COSINE], [STEP, "schedule.milestones=[1]"], [ROOT]):
        assert outcome(tmp_path / f"{schedule}a", tiny(*schedule)) != outcome(
            tmp_path / f"{schedule}b", tiny(*schedule, "schedule.warmup=2")
        )


def test_the_model_is_the_named_one_and_steps_end_a_run(tmp_path):
    vectors = ("data.name=spheres", "model.name=flow", "model.options={}")
    assert type(trainer_of(tiny(*vectors)).model).__name__ == "Flow"
    with pytest.raises(ConfigError, match="does not fit this data"):
        trainer_of(tiny("data.name=spheres", "model.options={}", "model.name=image"))
    short = tiny('training={"steps": 4, "batch": 16}')
    assert train(short, tmp_path / "short").metrics()[-1]["step"] == 4


def test_the_same_config_gives_the_same_run(tmp_path):
    assert outcome(tmp_path / "a", tiny(GROWN)) == outcome(tmp_path / "b", tiny(GROWN))
    assert TINY["training"]["epochs"] == 2
