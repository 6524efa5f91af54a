"""The journey on the command line: train, evaluate, compress, check, predict, report; and every way to go wrong."""

import gzip
import hashlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

import anydepth as ad
from anydepth.data.sources.digits import Digits
from anydepth.errors import ConfigError
from anydepth.recipes import RECIPES
from anydepth.runs.folder import open_run, save_derived
from anydepth.train.trainer import Trainer
from anydepth.train.training import train
from command import assert_refused, run_command
from small_runs import tiny


def hashes(folder):
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    config = tiny("refine.at=[2,4]", "training.epochs=5", "model.options.scheme=rk4")
    train(config, folder)
    return folder


def test_train_says_where_the_run_is_and_how_it_did(capsys, tmp_path):
    words = ("--set", "data.limit=64", "--set", "training.epochs=5", "--set", "refine.at=[1]")
    done = run_command(capsys, "train", "digits", "--out", tmp_path / "run", *words, "--json")
    result = json.loads(done.out)
    assert result["run"] == str(tmp_path / "run")
    assert result["test"]["test_accuracy"] > 5
    assert done.err == ""
    assert sorted(p.name for p in (tmp_path / "run").iterdir() if not p.name.startswith(".")) == [
        "checkpoints",
        "metrics.jsonl",
        "model.json",
        "model.safetensors",
        "run.json",
    ]
    people = run_command(capsys, "train", "digits", "--out", tmp_path / "people", *words)
    assert people.out == ""
    assert "grown at step 1" in people.err
    assert "test accuracy" in people.err
    assert_refused(run_command(capsys, "train", "digits", "--out", tmp_path / "run"), 2, "--resume")


def test_evaluate_with_any_solver_and_part(run, capsys):
    trained = json.loads(run_command(capsys, "evaluate", run, "--json").out)
    assert trained["test_accuracy"] == open_run(run).metrics()[-1]["test_accuracy"]
    assert trained["examples"] == 540
    other = json.loads(run_command(capsys, "evaluate", run, "--scheme", "euler", "--steps", "6", "--json").out)
    assert (other["solver"], other["nfe"]) == ("euler x 6", 6)
    free = ("--scheme", "dopri54", "--rtol", "1e-2", "--atol", "1e-3", "--split", "validation")
    adaptive = json.loads(run_command(capsys, "evaluate", run, *free, "--json").out)
    assert "validation_accuracy" in adaptive
    assert "accuracy" in run_command(capsys, "evaluate", run).err


def test_nothing_but_report_changes_a_byte_of_the_run(run, capsys, tmp_path):
    before = hashes(run)
    np.save(tmp_path / "x.npy", np.zeros((2, 1, 8, 8), np.uint8))
    run_command(capsys, "evaluate", run)
    run_command(capsys, "check", run)
    run_command(capsys, "predict", run, tmp_path / "x.npy")
    run_command(capsys, "compress", run, "--size", "2", "--out", tmp_path / "small")
    run_command(capsys, "report", run, "--examples", "20", "--out", tmp_path / "report.html")
    assert hashes(run) == before


def test_compress_makes_a_run_with_a_parent(run, capsys, tmp_path):
    done = json.loads(
        run_command(capsys, "compress", run, "--size", "2", "--steps", "2", "--out", tmp_path / "s", "--json").out
    )
    assert done["parameters"]["to"] < done["parameters"]["from"]
    assert done["nfe"]["to"] < done["nfe"]["from"]
    small = open_run(tmp_path / "s")
    assert small.record.parent == open_run(run).model_hash()
    assert small.record.transform["size"] == 2
    assert "test_accuracy" in json.loads(run_command(capsys, "evaluate", tmp_path / "s", "--json").out)
    run_command(capsys, "compress", tmp_path / "s", "--size", "1", "--out", tmp_path / "t")
    assert len(open_run(tmp_path / "t").record.lineage) == 2
    assert_refused(run_command(capsys, "compress", run, "--size", "2", "--out", tmp_path / "s"), 2, "holds a run")
    assert_refused(run_command(capsys, "compress", run, "--out", tmp_path / "u"), 2, "nothing to do")
    assert_refused(run_command(capsys, "compress", run, "--size", "0", "--out", tmp_path / "u"), 2, "size")
    assert not (tmp_path / "u").exists()


def test_check_exits_by_its_verdict(run, capsys, tmp_path):
    done = run_command(capsys, "check", run, "--json")
    verdict = json.loads(done.out)
    assert done.code == (0 if verdict["proper"] else 1)
    assert len(verdict["table"]) == 3
    assert verdict["table"][0]["agreement"] == 100
    text = run_command(capsys, "check", run)
    assert "proper" in text.err
    tied = tiny("model.options.scheme=euler", "model.options.scale=8", "model.options.size=8", "training.epochs=8")
    train(tied, tmp_path / "tied")
    assert run_command(capsys, "check", tmp_path / "tied").code == 1


def test_predict_agrees_with_evaluate(run, capsys, tmp_path):
    part = Digits(tmp_path).read("test")
    np.save(tmp_path / "images.npy", part.pixels)
    found = json.loads(run_command(capsys, "predict", run, tmp_path / "images.npy", "--json").out)
    labels = [int(entry["label"]) for entry in found["predictions"][str(tmp_path / "images.npy")]]
    right = 100 * np.mean(np.array(labels) == part.classes)
    assert right == pytest.approx(open_run(run).metrics()[-1]["test_accuracy"])
    one = tmp_path / "one.npy"
    np.save(one, part.pixels[0, 0].astype(np.float64))
    assert labels[0] == int(
        json.loads(run_command(capsys, "predict", run, one, "--json").out)["predictions"][str(one)][0]["label"]
    )
    from PIL import Image

    Image.fromarray(part.pixels[0, 0]).save(tmp_path / "one.png")
    assert str(labels[0]) in run_command(capsys, "predict", run, tmp_path / "one.png").err


PIXELS = np.zeros((2, 1, 8, 8), np.float32)
BAD_INPUTS = {
    "wrong shape": (np.zeros((2, 1, 9, 8), np.uint8), "shape"),
    "wrong rank": (np.zeros((2, 1, 1, 8, 8), np.uint8), "shape"),
    "whole numbers": (PIXELS.astype(np.int64), "dtype"),
    "text": (np.array(["a"]), "dtype"),
    "complex": (PIXELS.astype(complex), "dtype"),
    "empty": (PIXELS[:0], "empty"),
    "not a number": (np.where(np.arange(64).reshape(8, 8) == 9, np.nan, PIXELS), "nan"),
    "infinite": (PIXELS + np.inf, "inf"),
}


@pytest.mark.parametrize("case", BAD_INPUTS)
def test_predict_refuses_bad_arrays(run, capsys, tmp_path, case):
    array, says = BAD_INPUTS[case]
    np.save(tmp_path / "x.npy", array)
    assert_refused(run_command(capsys, "predict", run, tmp_path / "x.npy"), 3, "x.npy", says)


@pytest.mark.parametrize(
    ("name", "content"),
    [("x.npy", b""), ("x.npy", b"\x93NUMPY garbage"), ("x.npy", b"PK\x03\x04"), ("x.png", b"no image"), ("x.doc", b"")],
)
def test_predict_refuses_bad_files(run, capsys, tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    assert_refused(run_command(capsys, "predict", run, tmp_path / name), 3, name)
    assert_refused(run_command(capsys, "predict", run, tmp_path / "missing.npy"), 3, "missing.npy")


def test_a_pickled_array_is_refused_and_not_run(run, capsys, tmp_path):
    np.save(tmp_path / "x.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    assert_refused(run_command(capsys, "predict", run, tmp_path / "x.npy"), 3, "x.npy")


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["evaluate", "{no}"], 4, "no run in"),
        (["evaluate", "{run}", "--scheme", "ruler"], 2, "did you mean 'euler'"),
        (["evaluate", "{run}", "--steps", "0"], 2, "steps"),
        (["evaluate", "{run}", "--rtol", "0.1"], 2, "fixed steps"),
        (["evaluate", "{run}", "--scheme", "dopri54", "--steps", "3"], 2, "adaptive"),
        (["evaluate", "{run}", "--split", "dev"], 2, "dev"),
        (["compress", "{run}", "--basis", "linaer", "--out", "{no}"], 2, "did you mean 'linear'"),
        (["compress", "{run}", "--size", "2", "--method", "magic", "--out", "{no}"], 2, "magic"),
        (["compress", "{run}", "--size", "2", "--out", "{file}/x"], 6, "cannot make folder"),
        (["check", "{no}"], 4, "no run in"),
        (["report", "{no}"], 4, "no run in"),
        (["train", "digitss"], 2, "did you mean 'digits'"),
        (["train", "mnist", "--data", "{no}", "--out", "{no}"], 3, "train-images"),
        (["train", "digits", "--out", "{file}/x"], 6, "cannot make folder"),
        (["data", "fetch", "mnits"], 2, "did you mean 'mnist'"),
        (["data", "verify", "mnits"], 2, "did you mean 'mnist'"),
    ],
)
def test_errors_are_one_line_with_their_exit_code(run, capsys, tmp_path, words, code, says):
    (tmp_path / "file").write_text("")
    places = {"run": run, "no": tmp_path / "no", "file": tmp_path / "file"}
    assert_refused(run_command(capsys, *(word.format(**places) for word in words)), code, says)
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (lambda text: "", "not JSON"),
        (lambda text: text.replace("anydepth-run", "other"), "not an anydepth run"),
        (lambda text: text.replace('"version": 1', '"version": 2'), "version"),
        (lambda text: text.replace('"classify"', '"sing"'), "damaged"),
        (lambda text: text.replace('"lr"', '"lrr"'), "damaged"),
        (lambda text: text.replace('"facts"', '"fact"'), "damaged"),
    ],
)
def test_damaged_run_files_are_refused(run, capsys, tmp_path, edit, says):
    (tmp_path / "run.json").write_text(edit((run / "run.json").read_text()))
    assert_refused(run_command(capsys, "evaluate", tmp_path), 4, says)


def test_a_run_without_its_model_is_refused(run, capsys, tmp_path):
    (tmp_path / "run.json").write_text((run / "run.json").read_text())
    assert_refused(run_command(capsys, "evaluate", tmp_path), 4, "no trained model yet")


def test_a_saved_model_is_no_run_and_the_way_out_is_named(capsys, tmp_path):
    ad.save(ad.ContinuousBlock(lambda: torch.nn.Linear(2, 2)), tmp_path / "model")
    for command in ("check", "evaluate"):
        assert_refused(run_command(capsys, command, tmp_path / "model"), 4, "no run in", "ad.load", "ad.check")


def idx(values, magic=None):
    values = np.asarray(values, np.uint8)
    start = bytes([0, 0, 8, values.ndim]) if magic is None else magic
    return start + b"".join(int(n).to_bytes(4, "big") for n in values.shape) + values.tobytes()


def small_mnist(folder, images=None, labels=None):
    """A data directory with 40 images."""
    place = folder / "mnist"
    place.mkdir(parents=True)
    generator = np.random.default_rng(0)
    for part in ("train", "t10k"):
        pixels = generator.integers(0, 256, (40, 28, 28)) if images is None or part == "t10k" else images
        classes = np.arange(40) % 10 if labels is None or part == "t10k" else labels
        for name, content in ((f"{part}-images-idx3-ubyte", pixels), (f"{part}-labels-idx1-ubyte", classes)):
            raw = content if isinstance(content, bytes) else idx(content)
            (place / f"{name}.gz").write_bytes(gzip.compress(raw))
    return folder


MNIST = [
    "--set",
    "training.epochs=4",
    "--set",
    "training.batch=8",
    "--set",
    "data.validation=8",
    "--set",
    "schedule.warmup=0",
]
CORRUPT = {
    "bad magic": ({"images": idx(np.zeros((40, 28, 28)), b"\x12\x34\x08\x03")}, "train-images", "0"),
    "short": ({"images": idx(np.zeros((40, 28, 28)))[:-100]}, "train-images", "byte"),
    "long": ({"images": idx(np.zeros((40, 28, 28))) + b"x"}, "train-images", "byte"),
    "counts differ": ({"labels": np.zeros(39)}, "train-labels", "39"),
    "label out of range": ({"labels": np.full(40, 10)}, "train-labels", "10"),
    "no images": ({"images": np.zeros((0, 28, 28)), "labels": np.zeros(0)}, "train-images", ""),
}


@pytest.mark.parametrize("case", CORRUPT)
def test_corrupt_data_is_refused_before_training_starts(capsys, tmp_path, case):
    damage, file, says = CORRUPT[case]
    data = small_mnist(tmp_path / "data", **damage)
    done = run_command(capsys, "train", "mnist", "--data", data, "--out", tmp_path / "run", *MNIST)
    assert_refused(done, 3, file, says)
    assert not (tmp_path / "run").exists()


def test_mnist_files_train_and_broken_test_files_do_not_lose_the_model(capsys, tmp_path):
    data = small_mnist(tmp_path / "data")
    (data / "mnist" / "t10k-labels-idx1-ubyte.gz").write_bytes(b"broken")
    done = run_command(capsys, "train", "mnist", "--data", data, "--out", tmp_path / "run", *MNIST)
    assert done.code == 3
    assert "t10k-labels" in done.err
    assert open_run(tmp_path / "run").model() is not None
    small_mnist(tmp_path / "whole")
    again = ("train", "mnist", "--data", tmp_path / "whole", "--out", tmp_path / "run", *MNIST, "--resume", "--json")
    assert json.loads(run_command(capsys, *again).out)["test"]["test_accuracy"] >= 0


@pytest.mark.parametrize("name", RECIPES.names())
def test_every_recipe_has_a_title_and_a_valid_model(name):
    config = RECIPES[name]()
    assert RECIPES[name].__doc__
    assert config.model.name


def test_help_shows_examples_and_is_quick_to_import(capsys):
    for command in ("train", "evaluate", "compress", "check", "predict", "report", "demo", "list"):
        done = run_command(capsys, command, "--help")
        assert (done.code, done.err) == (0, "")
        assert f"  anydepth {command}" in done.out, command
    code = (
        "import sys, anydepth.cli.main; sys.exit(bool({'torch', 'pydantic', 'matplotlib', 'numpy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(("words", "expected"), [("anydepth tr", "train"), ("anydepth train digits-", "digits-resnet")])
def test_shell_completion(words, expected):
    typed = words.split()
    environment = {"_ANYDEPTH_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(typed) - 1)}
    program = [sys.executable, "-m", "anydepth"]
    done = subprocess.run(
        program, capture_output=True, text=True, env=os.environ | environment, check=False, timeout=60
    )
    assert expected in done.stdout, done.stderr


BAD_OPTIONS = [
    ("model.options.channels=[1000000]", "does not take this config"),
    ('model.options.options={"bias": 3, "nope": 1}', "nope"),
    ("model.options.normalise=no", "expected true or false"),
    ("model.options.pool=true", "expected a whole number"),
    ("model.options.scale=x", "expected a number"),
    ("optimizer.lr=1e200", "lr"),
    ("optimizer.weight_decay=1e200", "weight_decay"),
    ("training.steps=5", "set the other to null"),
]


@pytest.mark.parametrize(("setting", "says"), BAD_OPTIONS)
def test_options_that_cannot_be_are_refused(setting, says, capsys, tmp_path):
    done = run_command(capsys, "train", "digits", "--out", tmp_path / "run", "--set", setting)
    assert_refused(done, 2, says)


@pytest.mark.parametrize(
    ("unit", "options"),
    [("grouped_conv", '{"groups": 5}'), ("bottleneck", '{"reduction": 0}'), ("preact_conv", '{"biass": true}')],
)
def test_unit_options_that_cannot_be_are_refused(unit, options, capsys, tmp_path):
    words = ("--set", f"model.options.unit={unit}", "--set", f"model.options.options={options}")
    done = run_command(capsys, "train", "digits", "--out", tmp_path / "run", *words)
    assert_refused(done, 2)


def test_a_batch_of_one_that_batch_norm_cannot_take_is_refused(capsys, tmp_path):
    words = ("model.options.channels=[4,4,4,4]", "model.options.pool=1", "training.batch=1")
    settings = [part for word in words for part in ("--set", word)]
    done = run_command(capsys, "train", "digits", "--out", tmp_path / "run", *settings)
    assert_refused(done, 2, "does not fit this data")


def test_brackets_in_paths_are_printed_as_they_are(capsys, tmp_path):
    few = ("data.limit=32", "training.epochs=1", "refine.at=[]", "model.options.channels=[2]")
    words = [part for setting in few for part in ("--set", setting)]
    done = run_command(capsys, "train", "digits", "--out", tmp_path / "n[/b] [red]x", *words)
    assert done.code == 0, done.err
    assert "n[/b] [red]x" in done.err
    for command, *more in (("evaluate",), ("check",), ("report", "--examples", 20)):
        again = run_command(capsys, command, tmp_path / "n[/b] [red]x", *more)
        assert again.code in (0, 1), again.err


def test_a_float64_run_is_judged_and_predicted_in_float64(capsys, tmp_path):
    config = tiny("data.name=spheres", "model.name=flow", "model.options={}", "training.precision=float64")
    train(config, tmp_path / "run")
    assert run_command(capsys, "check", tmp_path / "run").code in (0, 1)
    np.save(tmp_path / "x.npy", np.array([[0.1, 1 / 3]]))
    assert run_command(capsys, "predict", tmp_path / "run", tmp_path / "x.npy").code == 0
    single = tiny("data.name=spheres", "model.name=flow", "model.options={}")
    train(single, tmp_path / "single")
    np.save(tmp_path / "y.npy", np.array([[0.1, 1e300]]))
    assert_refused(run_command(capsys, "predict", tmp_path / "single", tmp_path / "y.npy"), 3, "too large")


def test_outputs_that_are_not_finite_are_never_proper(capsys, tmp_path):
    config = tiny("data.name=spheres", "model.name=flow", 'model.options={"scheme": "euler", "steps": 1}')
    run = train(config, tmp_path / "run")
    model = run.model()
    with torch.no_grad():
        for parameter in model.block.parameters():
            parameter.mul_(1e9)
        model.classifier.weight.zero_()
    save_derived(run, tmp_path / "wild", model, {"operation": "test"})
    done = run_command(capsys, "check", tmp_path / "wild", "--json")
    verdict = json.loads(done.out)
    assert (done.code, verdict["proper"]) == (1, False)
    assert "not finite" in verdict["reason"]


def test_deep_pictures_are_refused(run, capsys, tmp_path):
    from PIL import Image

    Image.fromarray(np.full((8, 8), 40_000, np.uint16)).save(tmp_path / "deep.png")
    assert_refused(run_command(capsys, "predict", run, tmp_path / "deep.png"), 3, "8 bits")


def test_schemes_may_change_while_growing(tmp_path):
    flow = ("data.name=spheres", "model.name=flow", "refine.at=[1]", "refine.rule=listed")
    to_fixed = tiny(*flow, 'model.options={"scheme": "bosh32"}', 'refine.options={"schemes": ["rk4"], "steps": [3]}')
    assert train(to_fixed, tmp_path / "a").metrics()[-2]["solver"] == "rk4 x 3"
    to_free = tiny(*flow, "model.options={}", 'refine.options={"schemes": ["bosh32"]}')
    assert "bosh32" in train(to_free, tmp_path / "b").metrics()[-2]["solver"]
    with pytest.raises(ConfigError, match="must hold int"):
        train(tiny(*flow, "model.options={}", 'refine.options={"steps": [{}]}'), tmp_path / "c")


def test_a_model_that_ends_without_finite_weights_is_not_saved(capsys, tmp_path, monkeypatch):
    def spoil(self, *_):
        torch.nn.init.constant_(self.model.classifier.bias, float("nan"))
        return self.model

    monkeypatch.setattr(Trainer, "fit", spoil)
    assert_refused(run_command(capsys, "train", "digits", "--out", tmp_path / "run"), 5, "not finite")
    assert not (tmp_path / "run" / "model.json").exists()


def test_verify_exits_by_what_it_finds(capsys, tmp_path):
    assert run_command(capsys, "data", "verify", "mnist", "--data", tmp_path).code == 1
    small_mnist(tmp_path / "data")
    assert run_command(capsys, "data", "verify", "mnist", "--data", tmp_path / "data").code == 1


def test_bfloat16_works_or_is_refused_before_training(capsys, tmp_path):
    words = ("training.precision=bfloat16", "training.epochs=1", "refine.at=[]", "data.limit=64")
    settings = [part for word in words for part in ("--set", word)]
    done = run_command(capsys, "train", "digits", "--out", tmp_path / "run", *settings)
    assert done.code == 0 or "bfloat16 does not work" in done.err
    assert (tmp_path / "run").exists() == (done.code == 0)
