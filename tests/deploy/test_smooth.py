"""Smoothing: trained stacks fine-tuned to survive other depths."""

import json

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import anydepth as ad
from anydepth.cli.main import main
from anydepth.errors import ConfigError, DataError, ShapeError
from anydepth.surgery.blocks import blocks_of
from anydepth.train.training import train
from command import assert_refused, run_command
from small_runs import tiny, tiny_tagger, write_treebank


class Residual(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.norm, self.first, self.second = nn.BatchNorm1d(width), nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        return x + self.second(self.first(self.norm(x)).relu())


def stack(layers=4, seed=0):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, 6), *(Residual() for _ in range(layers)), nn.Linear(6, 4))
    model.train()(torch.randn(64, 3))
    return ad.from_layers(model.eval())


def data(count=4, seed=1):
    draw = torch.Generator().manual_seed(seed)
    inputs = [torch.randn(32, 3, generator=draw) for _ in range(count)]
    return [(x, (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long()) for x in inputs]


def state(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def same(one, two):
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


def test_the_original_and_the_teacher_stay_as_they_are():
    model, teacher = stack(), stack(seed=1)
    before, taught, modes = state(model), state(teacher), [m.training for m in model.modules()]
    smoothed, _ = ad.smooth(model, data(), teacher, epochs=1)
    assert same(state(model), before)
    assert same(state(teacher), taught)
    assert [m.training for m in model.modules()] == modes
    assert not same(state(smoothed), before)
    assert all(parameter.requires_grad for parameter in smoothed.parameters())


def test_the_same_seed_twice_is_the_same_bits():
    one, two, other = (ad.smooth(stack(), data(), epochs=1, seed=seed)[0] for seed in (0, 0, 1))
    assert same(state(one), state(two))
    assert not same(state(one), state(other))


def test_without_epochs_only_hidden_units_are_reordered():
    model = stack()
    smoothed, report = ad.smooth(model, data(), epochs=0)
    x = data()[0][0]
    torch.testing.assert_close(smoothed(x), model(x))
    assert report.evaluations == 0


def test_the_report_tells_every_form_before_and_after():
    smoothed, report = ad.smooth(stack(), data(), epochs=2, forms=[2, {"steps": 1, "size": 1}], validation=data(2, 9))
    forms = {row.form: row for row in report.rows}
    assert {"constant:4, euler x 4", "constant:4, euler x 8", "constant:4, euler x 2", "constant:1, euler x 1"} <= set(
        forms
    )
    assert {name for name, row in forms.items() if row.is_drawn} == {"constant:4, euler x 2", "constant:1, euler x 1"}
    assert report.metric == "accuracy"
    assert "constant:4, euler x 2 *" in str(report)
    assert report.roughness[1] < report.roughness[0]
    assert next(iter(blocks_of(smoothed).values())).steps == 4


def test_without_labels_forms_are_compared_with_the_teacher():
    _, report = ad.smooth(stack(), [x for x, _ in data()], epochs=1)
    assert report.metric == "agreement"
    assert report.rows[0].before == 100
    _, report = ad.smooth(stack(), [x for x, _ in data()], epochs=1, classes=False)
    assert report.metric == "rmse"
    assert report.rows[0].before == 0


@pytest.mark.parametrize(
    ("given", "error", "told"),
    [
        ({"forms": [8]}, ConfigError, "more steps than the model"),
        ({"teacher": nn.Linear(3, 5)}, ShapeError, "take a teacher of the same task"),
        ({"teacher": nn.Linear(5, 4)}, ShapeError, "the teacher does not take these inputs"),
        ({"forms": []}, ConfigError, "no form to smooth for"),
        ({"forms": [{"scheme": "dopri54"}]}, ConfigError, "chooses its own steps"),
        ({"batches": [x for x, _ in data(1)], "distill": False}, DataError, "learns from labels"),
        ({"validation": []}, DataError, "no validation data"),
        ({"epochs": -1}, ConfigError, "epochs must be a whole number"),
        ({"penalty": float("nan")}, ConfigError, "penalty must be a finite number"),
        ({"rate": 1}, ConfigError, "smooth has no setting 'rate'"),
    ],
)
def test_impossible_requests_are_one_line(given, error, told):
    with pytest.raises(error, match=told) as caught:
        ad.smooth(stack(), **({"batches": data(1), "epochs": 1} | given))
    assert "\n" not in str(caught.value)


def test_no_batches_and_no_blocks_are_refused():
    with pytest.raises(DataError):
        ad.smooth(stack(), [])
    with pytest.raises(ConfigError, match="no ContinuousBlock"):
        ad.smooth(nn.Linear(3, 4), data(1), epochs=1)
    with pytest.raises(ConfigError, match="no form to smooth for"):
        ad.smooth(ad.compress(stack(2), size=1, steps=1), data(1), epochs=1)


RESNET = ("model.name=resnet", 'model.options={"channels": [4], "layers": 4, "pool": 4}')


def test_the_command_smooths_a_resnet_and_refuses_what_cannot_be(tmp_path, capsys):
    run = train(tiny(*RESNET), tmp_path / "run")
    before = load_file(run.folder / "model.safetensors")
    out = tmp_path / "smooth"
    done = run_command(capsys, "smooth", run.folder, "--out", out, "--epochs", "1", "--json")
    told = json.loads(done.out)
    assert told["rows"][0]["form"] == "constant:4, euler x 4"
    assert 3 * (4 + 4 + 1) <= told["evaluations"] <= 3 * (4 + 4 + 4), (
        "teacher, model and a drawn form in each of 3 steps"
    )
    again = run_command(capsys, "smooth", run.folder, "--out", tmp_path / "twice", "--epochs", "1", "--json")
    other = ("--teacher", run.folder, "--out", tmp_path / "taught", "--epochs", "1", "--json")
    taught = run_command(capsys, "smooth", run.folder, *other)
    assert [json.loads(each.out)["evaluations"] for each in (again, taught)] == 2 * [told["evaluations"]]
    assert same(before, load_file(run.folder / "model.safetensors"))
    small = run_command(capsys, "compress", out, "--steps", "2", "--out", tmp_path / "small", "--json")
    assert json.loads(small.out)["nfe"] == {"from": 4, "to": 2}
    refused = run_command(capsys, "smooth", run.folder, "--out", tmp_path / "no", "--steps", "9")
    assert_refused(refused, 2, "more steps than the model")
    for word in ("a", "0", "-1", "\u00b2", "\u0664", "9" * 5000):
        told = run_command(capsys, "smooth", run.folder, "--out", tmp_path / "no", "--steps", word)
        assert_refused(told, 2, "--steps takes")
    bare = train(tiny(*RESNET, "data.validation=0"), tmp_path / "bare")
    assert_refused(run_command(capsys, "smooth", bare.folder, "--out", tmp_path / "no"), 3, "no validation part")
    write_treebank(tmp_path / "data" / "treebank")
    tags = train(tiny_tagger("data.validation=5"), tmp_path / "words", tmp_path / "data")
    alien = run_command(capsys, "smooth", run.folder, "--out", tmp_path / "no", "--teacher", tags.folder)
    assert_refused(alien, 2, "the teacher does not take these inputs")
    assert {path.name for path in tmp_path.iterdir()} == {
        "run",
        "smooth",
        "twice",
        "taught",
        "small",
        "bare",
        "data",
        "words",
    }


def smoothing_killed_at(monkeypatch, step, how):
    """Smoothing that ends in the middle: every step is saved, and one is the last."""
    from anydepth.train import smoothing_state

    own = smoothing_state.SmoothingState.keep

    def keep(self, student, optimizer, done, spent, total):
        if done == step:
            how(self)
        own(self, student, optimizer, done, spent, total)

    monkeypatch.setattr(smoothing_state, "_EVERY", 0.0)
    monkeypatch.setattr(smoothing_state.SmoothingState, "keep", keep)


class Killed(BaseException):
    """Nothing in the program catches it."""


def kill(state):
    raise Killed


def signalled(state):
    state._interrupt.received = 15


@pytest.mark.parametrize(("step", "how"), [(1, kill), (2, kill), (4, kill), (3, signalled)])
def test_a_stopped_smoothing_resumes_to_the_same_bits(tmp_path, monkeypatch, capsys, step, how):
    run = train(tiny(*RESNET), tmp_path / "run")
    asked = ("smooth", run.folder, "--epochs", "2", "--json", "--out")
    whole = json.loads(run_command(capsys, *asked, tmp_path / "whole").out)
    with monkeypatch.context() as patched:
        smoothing_killed_at(patched, step, how)
        if how is kill:
            with pytest.raises(Killed):
                main([str(word) for word in (*asked, tmp_path / "stopped")])
        else:
            assert_refused(run_command(capsys, *asked, tmp_path / "stopped"), 143, "give the same command again")
    assert not (tmp_path / "stopped").exists()
    again = json.loads(run_command(capsys, *asked, tmp_path / "stopped").out)
    assert again == whole | {"run": again["run"]}
    names = ("model.safetensors", "model.json")
    assert all((tmp_path / "whole" / n).read_bytes() == (tmp_path / "stopped" / n).read_bytes() for n in names)
    assert {path.name for path in tmp_path.iterdir()} == {"run", "whole", "stopped"}


@pytest.mark.filterwarnings("always::anydepth.errors.AnydepthWarning")
def test_a_stopped_smoothing_with_other_settings_is_dropped_and_a_damaged_one_begins_anew(
    tmp_path, monkeypatch, capsys
):
    run = train(tiny(*RESNET), tmp_path / "run")
    for damage in (False, True):
        out = tmp_path / f"out-{damage}"
        with monkeypatch.context() as patched:
            smoothing_killed_at(patched, 2, kill)
            with pytest.raises(Killed):
                main(["smooth", str(run.folder), "--epochs", "2", "--out", str(out)])
        if damage:
            for path in tmp_path.glob(".*.smoothing/checkpoints/*.safetensors"):
                path.write_bytes(path.read_bytes()[:-5])
        done = run_command(capsys, "smooth", run.folder, "--epochs", "1" if not damage else "2", "--out", out)
        assert done.code == 0
        assert ("cannot be used" if damage else "is discarded") in done.err


def test_a_place_that_cannot_be_filled_is_refused_before_anything_is_learnt(tmp_path, capsys, monkeypatch):
    run = train(tiny(*RESNET), tmp_path / "run")
    monkeypatch.setattr("anydepth.deploy.smooth.smooth_run", None)
    (tmp_path / "file").write_text("mine")
    (tmp_path / "busy").mkdir()
    (tmp_path / "busy" / "notes.txt").write_text("mine")
    for name, told in (("file", "is a file"), ("busy", "is not empty"), ("run", "holds a run already")):
        assert_refused(run_command(capsys, "smooth", run.folder, "--out", tmp_path / name), 2, told)


def test_nothing_is_kept_or_dropped_through_a_link(tmp_path, capsys):
    """Here to a folder of checkpoints that belong to another run."""
    run = train(tiny(*RESNET), tmp_path / "run")
    (tmp_path / ".out.smoothing").symlink_to(run.folder)
    before = sorted((run.folder / "checkpoints").iterdir())
    done = run_command(capsys, "smooth", run.folder, "--epochs", "1", "--out", tmp_path / "out")
    assert_refused(done, 4, "is a link")
    assert sorted((run.folder / "checkpoints").iterdir()) == before


def other_moments(tensors):
    name = next(n for n in tensors if n.startswith("optimizer/") and tensors[n].dim())
    return tensors | {name: torch.tensor(1.0)}


def other_parameter(tensors):
    return tensors | {"optimizer/nothing/momentum_buffer": torch.ones(3)}


@pytest.mark.filterwarnings("always::anydepth.errors.AnydepthWarning")
@pytest.mark.parametrize("forge", [other_moments, other_parameter])
def test_a_forged_state_changes_no_bit(forge, tmp_path, monkeypatch, capsys):
    """Whole and well sealed, but of another optimiser: smoothing begins anew, with nothing of it."""
    from anydepth.runs.checkpoint_files import manifests, read_checkpoint, write_checkpoint

    run = train(tiny(*RESNET), tmp_path / "run")
    asked = ("smooth", run.folder, "--epochs", "2", "--out")
    run_command(capsys, *asked, tmp_path / "whole")
    with monkeypatch.context() as patched:
        smoothing_killed_at(patched, 2, kill)
        with pytest.raises(Killed):
            main([str(word) for word in (*asked, tmp_path / "out")])
    state = tmp_path / ".out.smoothing"
    for path in manifests(state):
        found = read_checkpoint(path, json.loads(path.read_text())["run"])
        write_checkpoint(state, found.contents.progress.step, 0, found._replace(tensors=forge(found.tensors)))
    done = run_command(capsys, *asked, tmp_path / "out")
    assert done.code == 0
    assert "cannot be used" in done.err
    whole, again = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "out"))
    assert whole == again


@pytest.mark.slow
def test_digits_smoothing_saves_other_depths(tmp_path):
    """The trial that smoothing was made after: a ResNet of 8 units on digits, here in fewer epochs."""
    settings = ("data.limit=null", "data.validation=200", 'training={"epochs": 12, "batch": 32}')
    net = ("model.name=resnet", 'model.options={"channels": [16], "layers": 8, "pool": 4}')
    run = train(tiny(*settings, *net, 'schedule={"name": "cosine"}', "evaluation.every=12"), tmp_path / "run")
    from anydepth.deploy.smooth import smooth_run
    from anydepth.train.smoothing import Smoothing

    _, report = smooth_run(run, None, None, None, Smoothing(epochs=6))
    found = {row.form: row for row in report.rows}
    own, half, quarter = (found[f"constant:8, euler x {steps}"] for steps in (8, 4, 2))
    assert own.after >= own.before - 1
    assert half.after >= own.before - 3 > half.before
    assert quarter.after > quarter.before + 10
    small = found["constant:4, euler x 8"]
    assert small.after > small.before
