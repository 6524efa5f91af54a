"""Compressing a run by hand: what does not compress is told."""

import pytest

from anydepth.train.training import train
from command import assert_refused, run_command
from small_runs import tiny


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compressing") / "run"
    train(tiny("model.options.basis=linear", "model.options.size=3"), folder)
    return folder


def test_a_size_above_the_models_is_refused(run, tmp_path, capsys):
    done = run_command(capsys, "compress", run, "--size", "5", "--out", tmp_path / "small")
    assert_refused(done, 2, "--size 5 is larger than the model's 3", "at most 3")
    assert not (tmp_path / "small").exists()


def test_in_another_basis_it_is_only_told(run, tmp_path, capsys):
    done = run_command(capsys, "compress", run, "--basis", "constant", "--size", "5", "--out", tmp_path / "fine")
    assert done.code == 0
    assert "larger than the model's 3" in done.err
