"""Training at many depths: which forms come, what they share, and what they leave alone."""

import json
from copy import deepcopy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import nn
from torch.nn.functional import cross_entropy

import anydepth as ad
from anydepth.errors import ConfigError
from anydepth.measure.distillation import divergence, taught_loss
from anydepth.runs.config import read_config
from anydepth.surgery.blocks import blocks_of
from anydepth.surgery.views import PartialForm, View, read_form
from anydepth.train.training import train
from small_runs import TINY, tiny
from small_units import Dense, sizes_of, trained

RESNET = ("model.name=resnet", 'model.options={"channels": [4], "layers": 4, "pool": 4}')
DEEP = ("model.options.steps=4", "model.options.size=4")


def net(basis="linear", size=5, scheme="midpoint", steps=4, seed=0):
    torch.manual_seed(seed)
    block = ad.ContinuousBlock(lambda: Dense(4), basis, size, scheme=scheme, steps=steps)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), block, nn.Linear(4, 3)).double()


X = torch.randn(16, 3, generator=torch.Generator().manual_seed(1)).double()
Y = torch.randint(3, (16,), generator=torch.Generator().manual_seed(2))


def weights(run):
    return load_file(run.folder / "model.safetensors")


def same(one, two):
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


# Views


@pytest.mark.parametrize("basis", ad.BASES.names())
@given(data=st.data())
@settings(max_examples=8)
def test_a_view_answers_as_the_compressed_model_does(basis, data):
    size = data.draw(st.sampled_from(sizes_of(basis, 8)))
    small = data.draw(st.sampled_from([k for k in sizes_of(basis, size) if k <= size]))
    steps, scheme = data.draw(st.integers(1, 6)), data.draw(st.sampled_from(["euler", "midpoint", "rk4"]))
    model = trained(net(basis, size), X)
    view = View(model, PartialForm(steps=steps, size=small, scheme=scheme))
    with view():
        seen = model(X)
    expected = ad.compress(model, size=small, steps=steps, scheme=scheme)(X)
    torch.testing.assert_close(seen, expected, rtol=1e-11, atol=1e-11)


def test_a_view_can_read_another_basis_and_passes_gradients_on_to_the_models_own_weights():
    model = net("linear", 5)
    view = View(model, PartialForm(size=2, basis="constant"))
    with view():
        model(X).square().sum().backward()
        inside = model.state_dict()
    moved = ad.compress(model, basis="constant", size=2)
    moved(X).square().sum().backward()
    block, small = (next(iter(blocks_of(each).values())) for each in (model, moved))
    for name, part in block.lifted.items():
        stored = block.stored(name)
        if isinstance(stored, nn.Parameter):
            matrix = part.function.move(small.functions[name], "project").matrix
            expected = torch.tensordot(torch.tensor(matrix.T.copy()), small.stored(name).grad, dims=1)
            torch.testing.assert_close(stored.grad, expected)
    assert torch.equal(inside["2._extra_state"], model.state_dict()["2._extra_state"]), "what is saved is the model"


def test_a_view_is_taken_off_when_a_pass_fails():
    model = net()
    before = [(b.solver, b.plan, b.lifted) for b in blocks_of(model).values()]
    with pytest.raises(RuntimeError, match="on purpose"), View(model, PartialForm(steps=1, size=2))():
        raise RuntimeError("on purpose")
    assert [(b.solver, b.plan, b.lifted) for b in blocks_of(model).values()] == before


# Loops of one's own


def test_the_model_as_it_is_comes_first_and_shares_add_up_to_one():
    model = net(steps=8)
    depths = ad.any_depth(model, [1, 2, {"steps": 4, "size": 3}, {"scheme": "euler"}], draws=2)
    for step in range(20):
        seen = [(share, block.steps) for share, view in depths.draw(step) for block in blocks_of(view).values()]
        assert seen[0] == (0.5, 8)
        assert seen[1][1] == 1, "the coarsest"
        assert sum(share for share, _ in seen) == pytest.approx(1)
        assert len(seen) == 4
    assert next(iter(blocks_of(model).values())).steps == 8


def test_draws_depend_on_the_seed_and_the_step_alone():
    def drawn(seed, steps):
        depths = ad.any_depth(net(steps=16), seed=seed)
        return [[b.steps for _, view in depths.draw(s) for b in blocks_of(view).values()] for s in steps]

    whole = drawn(0, range(30))
    assert drawn(0, range(10, 30)) == whole[10:]
    assert drawn(1, range(30)) != whole
    assert {steps for step in whole for steps in step} == {1, 2, 4, 8, 16}


def test_gradients_are_the_weighted_sum_of_those_of_every_form():
    forms = [{"steps": 1}, {"steps": 2, "size": 3}]
    model = net()
    for share, view in ad.any_depth(model, forms).draw(0):
        (share * cross_entropy(view(X), Y)).backward()
    total = {}
    for share, form in ((0.5, PartialForm()), (0.25, read_form(forms[0])), (0.25, read_form(forms[1]))):
        other = net()
        with View(other, form)():
            cross_entropy(other(X), Y).backward()
        for name, parameter in other.named_parameters():
            total[name] = total.get(name, 0) + share * parameter.grad
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, total[name])


@pytest.mark.parametrize("mode", ["backprop", "checkpoint"])
def test_only_the_first_pass_writes_buffers(mode):
    model, plain = net(), net()
    ad.set_gradient(model, mode)
    own = {name: id(buffer) for name, buffer in model.named_buffers()}
    for share, view in ad.any_depth(model, [1, {"steps": 2, "size": 2}]).draw(3):
        (share * view(X).square().sum()).backward()
    plain(X)
    for name, buffer in plain.named_buffers():
        assert torch.equal(buffer, model.get_buffer(name)), name
    assert {name: id(buffer) for name, buffer in model.named_buffers()} == own


def test_a_loop_that_is_left_leaves_the_model_as_it_was():
    model = net()
    own = {name: id(buffer) for name, buffer in model.named_buffers()}
    for number, (_, view) in enumerate(ad.any_depth(model).draw(0)):
        view(X)
        if number:
            break
    assert next(iter(blocks_of(model).values())).steps == 4
    assert {name: id(buffer) for name, buffer in model.named_buffers()} == own


def test_forms_follow_a_model_that_is_refined():
    model = net(steps=2)
    depths = ad.any_depth(model)
    assert [b.steps for _, v in depths.draw(0) for b in blocks_of(v).values()] == [2, 1]
    ad.refine(model)
    assert {b.steps for s in range(9) for _, v in depths.draw(s) for b in blocks_of(v).values()} == {4, 2, 1}


@pytest.mark.parametrize(
    ("forms", "told"),
    [
        ([9], "has more steps than the model, which has 4"),
        ([{"size": 6}], "has more size than the model, which has 5"),
        ([{"depth": 3}], "a form has no 'depth'"),
        ([{"steps": 0}], "steps of a form must be a whole number"),
        ([{"scheme": "dopri54"}], "chooses its own steps"),
        ([{"basis": "cubes"}], "cubes"),
        (["four"], "a form is a number of steps or a mapping"),
    ],
)
def test_forms_that_do_not_exist_are_refused_in_one_line(forms, told):
    with pytest.raises(ConfigError, match=told) as caught:
        ad.any_depth(net(), forms)
    assert "\n" not in str(caught.value)


# What the forms learn


def test_divergence_is_zero_for_equal_scores_and_that_of_pytorch_else():
    one, two = torch.randn(7, 5).double(), torch.randn(7, 5).double()
    assert divergence(one, one) == pytest.approx(0, abs=1e-15)
    p, q = one.softmax(-1), two.softmax(-1)
    assert divergence(two, one) == pytest.approx(float((p * (p / q).log()).sum(-1).mean()))


def test_words_that_do_not_count_teach_nothing():
    one, two = torch.randn(2, 3, 5), torch.randn(2, 3, 5)
    targets = torch.tensor([[1, 2, -100], [3, -100, -100]])
    expected = divergence(
        torch.stack([one[0, 0], one[0, 1], one[1, 0]]), torch.stack([two[0, 0], two[0, 1], two[1, 0]])
    )
    torch.testing.assert_close(taught_loss("tag", one, two, targets), expected)
    assert taught_loss("tag", one, two, torch.full((2, 3), -100)) == 0


# Runs


def test_one_form_with_full_weight_is_plain_training_to_the_bit(tmp_path):
    plain = train(tiny(*DEEP), tmp_path / "plain")
    same_forms = '{"forms": [{"steps": 4}]}'
    one = train(tiny(*DEEP, f"training.any_depth={same_forms}"), tmp_path / "one")
    full = train(tiny(*DEEP, 'training.any_depth={"finest": 1.0}'), tmp_path / "full")
    assert same(weights(plain), weights(one))
    assert same(weights(plain), weights(full))


def test_a_training_in_many_forms_counts_its_evaluations(tmp_path):
    run = train(tiny(*DEEP, "training.any_depth={}"), tmp_path / "run")
    last = [line for line in run.metrics() if line["kind"] == "epoch"][-1]
    assert last["evaluations"] == 6 * 2 * (4 + 1 + 2), "the model, its coarsest form, and the one in between"
    assert last["nfe"] == 8
    assert [block.steps for block in blocks_of(run.model()).values()] == [4]


@pytest.mark.parametrize(
    "changes",
    [
        ("training.any_depth={}", "training.ema=0.9", 'refine={"at": [1], "rule": "nested"}'),
        ('training.any_depth={"forms": [{"steps": 2, "size": 2}], "distill": 0.5}', "refine.when=stall"),
    ],
)
def test_resumed_is_uninterrupted_to_the_bit(changes, tmp_path, monkeypatch):
    config = tiny(*DEEP, "training.epochs=4", "refine.patience=1", "refine.least_gain=0.99", *changes)
    whole = train(config, tmp_path / "whole")
    from anydepth.errors import StoppedError
    from anydepth.train.trainer import Trainer

    own = Trainer._save_if_due
    monkeypatch.setattr(Trainer, "_save_if_due", lambda self, stop: own(self, 15 if self.progress.step == 7 else stop))
    with pytest.raises(StoppedError):
        train(config, tmp_path / "cut")
    monkeypatch.undo()
    cut = train(config, tmp_path / "cut", resume=True)
    assert same(weights(whole), weights(cut))
    kinds = [[line["kind"] for line in run.metrics()] for run in (whole, cut)]
    assert kinds[0] == kinds[1]


def test_the_average_of_a_training_in_many_forms_is_that_of_its_weights(tmp_path):
    run = train(tiny(*DEEP, "training.any_depth={}", "training.ema=0.5"), tmp_path / "run")
    assert not same(weights(run), weights(train(tiny(*DEEP, "training.any_depth={}"), tmp_path / "other")))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (('training.any_depth={"forms": [{"steps": 8}]}',), "has more steps than the model"),
        (
            ('training.any_depth={"forms": [{}]}',),
            "training.any_depth.forms.0: a form needs steps, size, scheme or basis",
        ),
        (("training.any_depth.draw=1",), "no setting .training.any_depth.draw.*did you mean 'draws'"),
        (("training.any_depth={}", "training.vary_steps=0.2"), "give either any_depth or vary_steps"),
        (("training.any_depth={}", "model.options.scheme=dopri54", "model.options.steps=null"), "needs fixed steps"),
        ((*RESNET, "training.any_depth={}"), "training.any_depth needs continuous blocks, and this model has none"),
        (("refine.when=stall", "data.validation=0"), "no validation examples"),
        (("refine.when=stall", "refine.at=[1]"), "`at` is for when=at"),
    ],
)
def test_impossible_requests_are_one_line(changes, told, tmp_path):
    with pytest.raises(ConfigError, match=told) as caught:
        train(tiny(*changes if RESNET[0] in changes else (*DEEP, *changes)), tmp_path / "run")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_form_that_the_model_will_grow_to_is_fine(tmp_path):
    grown = ('training.any_depth={"forms": [{"steps": 1}, {"steps": 8}]}', 'refine={"at": [1], "rule": "steps"}')
    run = train(tiny(*DEEP, "training.epochs=2", *grown), tmp_path / "run")
    assert [block.steps for block in blocks_of(run.model()).values()] == [8]


def test_configs_with_varying_steps_still_load():
    old = deepcopy(TINY)
    old["training"] = old["training"] | {"vary_steps": 0.4}
    config = read_config(json.loads(json.dumps(old)))
    assert config.training.vary_steps == 0.4
    assert config.training.any_depth is None


# Growing when the loss stalls


def test_a_model_grows_when_its_loss_stalls_and_not_too_often(tmp_path):
    stall = ("refine.when=stall", "refine.patience=1", "refine.least_gain=0.99", "refine.most=2", "refine.rule=steps")
    run = train(tiny("model.options.steps=1", "training.epochs=8", *stall), tmp_path / "run")
    grown = [line["step"] for line in run.metrics() if line["kind"] == "refine"]
    assert grown == [6, 12], "first and second validation, then again from the first after it"
    assert [block.steps for block in blocks_of(run.model()).values()] == [4]
