"""Paths are visible, can be switched off, and agree; over the registries of paths and units."""

import os
import subprocess
import sys

import pytest
import torch

import anydepth as ad
from anydepth.block.paths import PATHS

SHAPES = {2: (5, 4), 3: (2, 3, 4), 4: (3, 4, 5, 5)}


def passes(name, scheme):
    """Outputs, gradients and state after two training passes, and the path of the last."""
    unit = ad.UNITS[name]
    torch.manual_seed(0)
    block = ad.ContinuousBlock(lambda: unit(4), "linear", 3, scheme=scheme, steps=3).double()
    x = torch.randn(SHAPES[unit.input_rank], dtype=torch.float64, requires_grad=True)
    for _ in range(2):
        out = block(x)
        out.sin().sum().backward()
    found = {"out": out.detach(), "x": x.grad, **{n: p.grad for n, p in block.named_parameters()}}
    return {**found, **dict(block.named_buffers())}, block.stats


@pytest.mark.parametrize("scheme", ["euler", "rk4"])
@pytest.mark.parametrize("name", ad.UNITS.names())
def test_every_unit_gives_the_same_on_its_path_and_on_the_general_one(name, scheme):
    found, stats = passes(name, scheme)
    with ad.fast_paths(False):
        expected, general = passes(name, scheme)
    assert general.path == "general"
    assert general.refused == dict.fromkeys(PATHS.names(), "faster paths are switched off")
    assert stats.path == "general" or stats.path in PATHS
    assert stats.evaluations == general.evaluations
    for key, value in expected.items():  # sums in another order: some ulps, times a few hundred operations
        torch.testing.assert_close(found[key], value, rtol=1e-10, atol=1e-10, msg=key)


def test_every_path_is_taken_by_some_unit():
    taken = {passes(name, "euler")[1].path for name in ad.UNITS.names()}
    block = ad.from_layers([torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)])
    block(torch.randn(1, 2))
    assert {*taken, block.stats.path, "compiled"} == {"general", *PATHS.names()}  # that one is for those who ask


def test_explain_tells_the_path_and_runs_nothing():
    block = ad.ContinuousBlock(lambda: ad.units.PreactConv(4), steps=2)
    x = torch.randn(2, 4, 5, 5)
    before = {name: tensor.clone() for name, tensor in block.named_buffers()}
    assert block.explain(x).startswith("path 'image'")
    assert all(torch.equal(before[name], tensor) for name, tensor in block.named_buffers())
    block.unit.conv1.register_forward_hook(lambda *_: None)
    assert "not 'image': hooks or a compiler watch" in block.explain(x)
    with ad.fast_paths(False):
        assert "switched off" in block.explain(x)


def test_without_the_package_all_goes_the_general_path(monkeypatch):
    monkeypatch.setattr("anydepth.block.paths._attempts", lambda: ())
    assert {passes(name, "euler")[1].path for name in ("mlp", "preact_conv")} == {"general"}


def test_the_environment_switches_them_off():
    code = (
        "import torch, anydepth as ad; b = ad.ContinuousBlock(lambda: ad.units.MLP(2)); b(torch.ones(1, 2));"
        "raise SystemExit(b.stats.path != 'general')"
    )
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "ANYDEPTH_FAST": "0"}, check=False)
    assert done.returncode == 0
