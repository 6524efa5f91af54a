"""Small things that people trip over."""

import gzip
import json

import pytest
import torch
from torch import nn

import anydepth as ad
from anydepth.cli import output
from anydepth.data.fetch import verify
from anydepth.data.source import SOURCES
from anydepth.data.sources import idx
from anydepth.errors import ConfigError, ModelFileError
from anydepth.train.shorten import with_epochs
from anydepth.train.training import train
from command import assert_refused, run_command
from small_runs import tiny


def test_one_kind_is_listed_in_singular_or_plural(capsys):
    for word in ("datasets", "dataset"):
        found = json.loads(run_command(capsys, "list", word, "--json").out)
        assert list(found) == ["datasets"]
        assert {"imagefolder", "csv", "npz"} <= found["datasets"].keys()
    assert list(json.loads(run_command(capsys, "list", "rules", "--json").out)) == ["refinement rules"]
    assert_refused(run_command(capsys, "list", "datasetz"), 2, "did you mean 'datasets'")


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("model.options.channels=4", "'channels' of model 'image' is 4, expected a list"),
        ('model.options.options="x"', "'options' of model 'image' is 'x', expected a mapping"),
        ("model.options.size=null", "'size' of model 'image' is None, expected a whole number"),
        ("model.options.steps=two", "'steps' of model 'image' is 'two', expected a whole number or null"),
    ],
)
def test_an_option_of_the_wrong_type_is_named(setting, says, tmp_path, capsys):
    assert_refused(run_command(capsys, "train", "digits", "--set", setting, "--out", tmp_path / "run"), 2, says)


def test_another_number_of_epochs_moves_the_milestones():
    config = tiny("training.epochs=16", "refine.at=[2,5,8,13]", "schedule.name=step", "schedule.milestones=[8,12]")
    assert with_epochs(config, 32).refine.at == (4, 10, 16, 26)
    assert with_epochs(config, 4).refine.at == (1, 2, 3)
    assert with_epochs(config, 1).refine.at == ()
    assert with_epochs(config, 8).schedule.milestones == (4, 6)
    in_steps = tiny("training.epochs=null", "training.steps=10", "refine.at=[3]", "refine.unit=step")
    assert with_epochs(in_steps, 5).refine.at == (3,)


# Saving to one file


def test_a_model_is_saved_under_the_name_of_a_file(tmp_path):
    net = ad.build("flow", features=2, classes=3, basis="linear", size=3, steps=2)
    path = tmp_path / "net.safetensors"
    ad.save(net, path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net.json", "net.safetensors"]
    x = torch.randn(4, 2)
    assert torch.equal(ad.load(path).eval()(x), net.eval()(x))
    ad.save(net, path)  # over itself
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(ConfigError, match="does not describe a model"):
        ad.save(net, tmp_path / "other.safetensors")
    assert (tmp_path / "other.json").read_text() == "{}"
    (tmp_path / "net.json").unlink()
    with pytest.raises(ModelFileError, match=r"net\.json"):
        ad.load(path)


# State by patterns


class Remembering(nn.Module):
    """Keeps three running buffers."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        for name in ("level_a", "level_b", "other"):
            self.register_buffer(name, torch.zeros(2))
        self.register_buffer("level_count", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        return self.layer(x)


def test_state_is_named_by_patterns():
    block = ad.ContinuousBlock(Remembering, "constant", 3, scheme="euler", state="level_*")
    shapes = {name: tuple(buffer.shape) for name, buffer in block.unit.named_buffers()}
    assert shapes == {"level_a": (3, 2), "level_b": (3, 2), "other": (2,), "level_count": ()}
    with pytest.raises(ConfigError, match=r"'lvl_\*' is not a buffer"):
        ad.ContinuousBlock(Remembering, "constant", 3, scheme="euler", state=["lvl_*"])


# Data that is kept in another way


def test_contents_are_compared_whatever_the_compression(tmp_path, monkeypatch):
    content = b"the contents"
    import hashlib

    published = gzip.compress(content, 9, mtime=1)
    sums = [hashlib.md5(each).hexdigest() for each in (published, content)]

    class Sample(idx.Idx):
        remotes = (idx.Remote("http://x/y.gz", "y.gz", *sums),)
        checksums = {}  # noqa: RUF012

    monkeypatch.setitem(SOURCES._parts, "sample", Sample)

    def state():
        return verify("sample", tmp_path)[0]["md5"]

    (tmp_path / "y").write_bytes(content)
    assert state() == "matches"
    (tmp_path / "y").write_bytes(b"other")
    assert state() == "differs"
    (tmp_path / "y.gz").write_bytes(gzip.compress(content, 1, mtime=2))
    assert state() == "matches"
    (tmp_path / "y.gz").write_bytes(published)
    assert state() == "matches"
    (tmp_path / "y.gz").write_bytes(gzip.compress(b"other"))
    assert state() == "differs"


def test_mnist_kept_plain_can_be_compared():
    assert all(remote.content for remote in SOURCES["mnist"].remotes)


# Where the data was


def test_a_run_remembers_its_data_directory(tmp_path, capsys, monkeypatch):
    run = train(tiny(), tmp_path / "run", tmp_path)
    assert run.data_directory == tmp_path
    seen = []
    monkeypatch.setattr("anydepth.runs.folder.dataset_of", lambda config, root: seen.append(root))
    run.dataset(None)
    run.dataset(tmp_path / "other")
    assert seen == [tmp_path, tmp_path / "other"]
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    (tmp_path / "run" / "run.json").write_text(json.dumps(record | {"data_directory": str(tmp_path / "gone")}))
    from anydepth.runs.folder import open_run

    assert open_run(tmp_path / "run").data_directory is None


def test_long_work_leaves_lines_in_a_log_file(monkeypatch, capsys):
    monkeypatch.setattr(output, "LOG_SECONDS", 0.0)
    with output.progress(logs=True) as report:
        report("measuring", 0.25)
    assert "measuring, 25 % done" in capsys.readouterr().err
    with output.progress() as report:
        report("measuring", 0.25)
    assert capsys.readouterr().err == ""
