"""A size and a number of steps for every block."""

import json

import pytest
import torch
from torch import nn

import anydepth as ad
from anydepth.deploy.sweeps.budget import Budget
from anydepth.deploy.sweeps.per_block import Shape, fit_blocks_on, indicators_of, shaped
from anydepth.deploy.sweeps.sweep_inputs import inputs_by_hand
from anydepth.errors import BudgetError
from anydepth.surgery.blocks import blocks_of
from anydepth.surgery.summary import summary
from anydepth.train.training import train
from command import assert_refused, run_command
from small_runs import tiny
from small_units import Smooth


def net():
    """Two blocks, the first of which is the same at all depths but says so in 8 constants."""
    torch.manual_seed(0)
    flat = ad.ContinuousBlock(lambda: Smooth(4), "constant", 8, scheme="euler", init="shared")
    rough = ad.ContinuousBlock(lambda: Smooth(4), "constant", 8, scheme="euler", scale=8)
    return nn.Sequential(flat, rough, nn.Linear(4, 3)).eval()


def inputs(model):
    x = [torch.randn(64, 4, generator=torch.Generator().manual_seed(i)) for i in range(3)]
    with torch.no_grad():
        return inputs_by_hand(model, [(part, model(part).argmax(-1)) for part in x], True, 1, 1)


def test_an_indicator_is_the_change_of_the_outputs_when_one_block_alone_is_changed():
    model = net()
    given = inputs(model)
    found = indicators_of(given.meter)
    assert found["0"][Shape(1, 8)] == pytest.approx(0, abs=1e-6)
    assert found["1"][Shape(1, 8)] > 0.05
    assert set(found) == {"0", "1"}


def test_the_block_that_needs_nothing_gives_first():
    model = net()
    fitted = fit_blocks_on(inputs(model), Budget(max_params=230))
    assert fitted.shapes["0"].size < fitted.shapes["1"].size
    assert fitted.parameters == summary(fitted.model).parameters <= 230
    assert [block.size for block in blocks_of(model).values()] == [8, 8], "the model stays as it is"


def test_a_drop_that_is_allowed_is_kept_by_the_smallest_shapes():
    given = inputs(net())
    fitted = fit_blocks_on(given, Budget(max_drop=5.0, confidence=0))
    assert fitted.drop <= 5
    assert fitted.shapes["0"].size == 1
    free = fit_blocks_on(given, Budget(max_drop=100.0, confidence=0))
    assert {shape.size for shape in free.shapes.values()} == {1}


def test_what_cannot_be_met_says_what_can():
    with pytest.raises(BudgetError, match="the fewest parameters are"):
        fit_blocks_on(inputs(net()), Budget(max_params=3))


def test_shapes_are_those_of_compress():
    model = net()
    made = shaped(model, {"0": Shape(2, 2), "1": Shape(4, 8)})
    expected = ad.compress(model, size={"0": 2, "1": 4}, steps={"0": 2})
    x = torch.randn(5, 4)
    assert torch.equal(made(x), expected(x))


def test_the_command_chooses_per_block(tmp_path, capsys):
    two = ("model.options.channels=[2,4]", "model.options.size=4", "model.options.pool=2")
    run = train(tiny(*two, "training.epochs=1"), tmp_path / "run")
    words = ("compress", run.folder, "--per-block", "--out", tmp_path / "small")
    done = run_command(capsys, *words, "--max-drop", "60", "--confidence", "0", "--json")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert set(told["per_block"]["blocks"]) == {"blocks.0", "blocks.1"}
    assert told["parameters"]["to"] < told["parameters"]["from"]
    assert_refused(run_command(capsys, *words, "--size", "2"), 2, "--per-block needs a budget")
    assert_refused(run_command(capsys, *words[:-1], tmp_path / "no", "--max-latency-ms", "5"), 2, "--max-latency-ms")
    assert_refused(run_command(capsys, *words[:-1], tmp_path / "no", "--max-params", "3"), 1, "the fewest parameters")
