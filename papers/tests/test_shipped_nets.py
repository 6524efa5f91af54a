"""The trained nets of this package: small, whole, and what they say they are."""

from pathlib import Path

import pytest
import torch

import anydepth as ad
import anydepth_papers
from anydepth import artifact
from anydepth.runs.folder import open_run
from anydepth.runs.shipped import FILES, NETS, located
from anydepth.surgery.store import MODEL

HERE = Path(anydepth_papers.__file__).parent / "shipped"
EVIDENCE = Path(__file__).parents[1] / "evidence" / "nets"
LIMIT = 4 << 20
"""Bytes of a net."""


@pytest.mark.parametrize("name", NETS.names())
def test_a_net_is_small_and_opens_at_any_number_of_steps(name, tmp_path, monkeypatch):
    monkeypatch.setenv("ANYDEPTH_CACHE", str(tmp_path))
    run = open_run(located(Path(name)))
    assert run.is_over
    assert sum((run.folder / file).stat().st_size for file in FILES) < LIMIT
    model = run.model()
    images = torch.zeros(2, *run.facts.shape)
    with torch.no_grad():
        for steps in (1, 3, 8):
            assert ad.set_solver(model, steps=steps)(images).isfinite().all()


def test_every_folder_is_registered_with_its_hash():
    folders = {path for path in HERE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == {NETS[name].folder for name in NETS}
    assert all(artifact.digest((NETS[n].folder / MODEL).read_bytes()) == NETS[n].seal for n in NETS)


@pytest.mark.parametrize(("name", "trained"), [("cifar10-continuous", "hats-midpoint-0")])
def test_a_net_is_the_one_of_the_evidence(name, trained):
    for file in FILES:
        assert (NETS[name].folder / file).read_bytes() == (EVIDENCE / trained / file).read_bytes()
