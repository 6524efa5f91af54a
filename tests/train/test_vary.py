"""Numbers of steps that vary from pass to pass of a training."""

import pytest
import torch

import anydepth as ad
from anydepth.errors import ConfigError
from anydepth.surgery.blocks import blocks_of
from anydepth.train.training import train
from anydepth.train.vary import Vary
from small_runs import tiny
from small_units import Dense


def model_of(steps=8):
    torch.manual_seed(0)
    blocks = [ad.ContinuousBlock(Dense, "linear", 3, scheme="midpoint", steps=steps) for _ in range(2)]
    return torch.nn.Sequential(*blocks)


def drawn(model, vary, steps):
    """The blocks' numbers of steps in every pass."""
    found = []
    for step in steps:
        with vary(model, step):
            model(torch.randn(5, 4))
            assert all(block.nfe == 2 * block.steps for block in blocks_of(model).values())
            found.append([block.steps for block in blocks_of(model).values()])
    return found


def test_steps_stay_within_their_share_and_every_block_has_its_own():
    model = model_of()
    found = drawn(model, Vary(0.25, 3), range(200))
    assert {n for pair in found for n in pair} == {6, 7, 8, 9, 10}
    assert any(a != b for a, b in found)
    assert [block.steps for block in blocks_of(model).values()] == [8, 8], "the model's own, afterwards"


def test_draws_depend_on_the_seed_and_the_step_alone():
    """So that a training that is gone on with draws what it would have drawn."""
    whole = drawn(model_of(), Vary(0.5, 3), range(40))
    assert drawn(model_of(), Vary(0.5, 3), range(20, 40)) == whole[20:]
    assert drawn(model_of(), Vary(0.5, 4), range(40)) != whole


def test_a_model_is_left_as_it_was_when_a_pass_fails():
    model = model_of()
    plans = [block.plan for block in blocks_of(model).values()]
    with pytest.raises(RuntimeError, match="on purpose"), Vary(0.9, 0)(model, 1):
        raise RuntimeError("on purpose")
    assert [block.plan for block in blocks_of(model).values()] == plans


def test_no_share_changes_nothing_and_few_steps_never_become_none():
    assert drawn(model_of(), Vary(0.0, 0), range(5)) == [[8, 8]] * 5
    assert {n for pair in drawn(model_of(1), Vary(0.9, 0), range(50)) for n in pair} == {1, 2}


def test_gradients_are_those_of_the_steps_that_were_taken():
    """Also where the backward pass comes after the varied one, and computes it again."""
    for mode in ("backprop", "checkpoint"):
        model = model_of().double()
        x = torch.randn(6, 4, dtype=torch.float64)
        with Vary(0.5, 1)(model, 7):
            for block in blocks_of(model).values():
                block.set_gradient(mode)
            taken = [block.steps for block in blocks_of(model).values()]
            loss = model(x).square().sum()
        loss.backward()
        other = model_of().double()
        for block, steps in zip(blocks_of(other).values(), taken, strict=True):
            block.set_solver(steps=steps)
        other(x).square().sum().backward()
        assert taken != [8, 8]
        for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(mine.grad, theirs.grad)


def test_a_training_counts_the_evaluations_that_it_makes(tmp_path):
    plain = train(tiny("model.options.steps=4"), tmp_path / "plain").metrics()
    run = train(tiny("model.options.steps=4", "training.vary_steps=0.5"), tmp_path / "varied")
    epochs = [[line["evaluations"] for line in lines if line["kind"] == "epoch"] for lines in (plain, run.metrics())]
    assert epochs[0] != epochs[1]
    assert 0.5 <= epochs[1][-1] / epochs[0][-1] <= 1.5
    assert [block.steps for block in blocks_of(run.model()).values()] == [4], "saved as it is, not as it was drawn"


def test_an_epoch_tells_the_steps_of_the_model_not_of_a_pass_or_a_check(tmp_path):
    few = ("data.name=landscape", "data.limit=64", "data.validation=16", "model.name=flow", "training.vary_steps=0.9")
    steps = ('model.options={"scheme": "euler", "steps": 8}', 'control={"name": "steady", "every": 1, "examples": 20}')
    run = train(tiny(*few, *steps), tmp_path / "run")
    lines = run.metrics()
    last = [line for line in lines if line["kind"] == "epoch"][-1]
    chosen = [line for line in lines if line["kind"] == "control"][-1]
    assert chosen["step"] == last["step"], "the last check is after the last step"
    assert last["nfe"] == chosen["steps"] == next(iter(blocks_of(run.model()).values())).steps


def test_adaptive_blocks_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"training\.vary_steps needs fixed steps"):
        train(tiny("model.options.scheme=dopri54", "model.options.steps=null", "training.vary_steps=0.3"), tmp_path)
