"""Files that earlier versions wrote (in kept/, November 2026) still load, resume, and give the same outputs."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from anydepth.deploy.sweeps.sweep_file import read_sweep, sweep_of
from anydepth.runs.folder import open_run
from anydepth.train.training import train

KEPT = Path(__file__).parent / "kept"
INPUTS = torch.linspace(-1, 1, 2 * 64).reshape(2, 1, 8, 8)
OUTPUTS = {name: torch.tensor(value) for name, value in json.loads((KEPT / "outputs.json").read_text()).items()}


@pytest.mark.parametrize("name", ["run", "compressed", "mixed"])
def test_a_model_gives_what_it_gave(name):
    model = open_run(KEPT / name).model()
    torch.testing.assert_close(model(INPUTS), OUTPUTS[name], rtol=0, atol=1e-5)  # rounding differs between processors


def test_a_stopped_training_ends_as_it_would_have(tmp_path):
    folder = shutil.copytree(KEPT / "stopped", tmp_path / "run")
    run = train(open_run(folder).config, folder, resume=True)
    assert run.is_over
    torch.testing.assert_close(run.model()(INPUTS), OUTPUTS["resumed"], rtol=0, atol=1e-3)  # rounding, trained on


def test_records_are_read_as_they_were_written():
    controlled, made = open_run(KEPT / "run"), open_run(KEPT / "compressed")
    assert controlled.config.control.name == "steady"
    assert {line["kind"] for line in controlled.metrics()} >= {"epoch", "refine", "control", "test"}
    assert made.record.parent == controlled.model_hash()
    assert made.record.transform == {"operation": "compress", "size": 2}


def test_a_sweep_keeps_its_rows_under_the_present_names():
    run = open_run(KEPT / "mixed")
    found = sweep_of(run, None)
    assert found == read_sweep(KEPT / "mixed" / "sweep-no-data.json")[0]
    assert found.source.basis == "mixed"
