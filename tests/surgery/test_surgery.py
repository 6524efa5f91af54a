"""Growing, compressing, changing the solver: what stays the same, and what is reported."""

import copy
import warnings

import pytest
import torch
from torch import nn

import anydepth as ad
from anydepth.depth import transfer
from anydepth.depth.bases import BASES
from anydepth.errors import AnydepthWarning, ConfigError
from small_units import Dense, sizes_of


def model_of(basis="constant", size=4, scheme="rk4", steps=4, blocks=1, width=4):
    return nn.Sequential(
        *[ad.ContinuousBlock(lambda: Dense(width), basis, size, scheme=scheme, steps=steps) for _ in range(blocks)],
        nn.Linear(width, 3),
    )


def trained(model, optimizer=None, steps=20, width=4):
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(64, width, generator=generator)
    y = (x[:, 0] * x[:, 1] > 0).long() + (x[:, 2] > 0).long()
    loss = torch.zeros(())
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    return float(loss.detach())


@pytest.mark.parametrize("name", BASES.names())
def test_growing_size_alone_changes_no_output_state_included(name):
    x = torch.randn(32, 4)
    for size in sizes_of(name, 9):
        model = model_of(name, size)
        trained(model, steps=5)
        before = {mode: copy.deepcopy(model).train(mode)(x) for mode in (True, False)}
        ad.refine(model, steps=4)
        assert model[0].size > size
        for mode in (True, False):
            torch.testing.assert_close(copy.deepcopy(model).train(mode)(x), before[mode], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", BASES.names())
def test_compress_undoes_refine(name):
    model = model_of(name, 4).double()
    trained_state = {k: v.clone() for k, v in model.state_dict().items()}
    ad.refine(model)
    back = ad.compress(model, size=4, steps=4)
    for key, value in back.state_dict().items():
        torch.testing.assert_close(value, trained_state[key], rtol=1e-12, atol=1e-12)


def test_refine_defaults_to_the_nested_size_and_twice_the_steps():
    model = model_of("linear", 3, steps=2, blocks=2)
    assert ad.refine(model) is model
    assert [(b.size, b.steps) for b in ad.blocks_of(model).values()] == [(5, 4), (5, 4)]
    ad.refine(model, where="1")
    assert [(b.size, b.steps) for b in ad.blocks_of(model).values()] == [(5, 4), (9, 8)]
    ad.refine(model, size={"0": 9}, steps={"0": 6, "1": 8}, where=lambda name, _: True)
    assert [(b.size, b.steps) for b in ad.blocks_of(model).values()] == [(9, 6), (17, 8)]
    ad.refine(model, size={"1": 33})
    assert [(b.size, b.steps) for b in ad.blocks_of(model).values()] == [(9, 6), (33, 16)]


def test_growing_to_a_size_that_is_not_nested_says_how_much_changed():
    model = model_of("linear", 4)
    with pytest.warns(AnydepthWarning, match="not nested"):
        ad.refine(model, size=5)
    (change,) = ad.history(model)["0"]
    assert change.largest_error > 1e-3
    assert change.after.parameters > change.before.parameters


def test_compress_leaves_the_source_alone_and_reports():
    model = model_of("constant", 8)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    small = ad.compress(model, basis="linear", size=3, steps=2, scheme="midpoint")
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
    block = small[0]
    assert (block.size, block.steps, block.scheme.name) == (3, 2, "midpoint")
    (change,) = block.history
    assert change.before.weights == "constant:8"
    assert change.after.weights == "linear:3"
    assert 0 < change.errors["linear.weight"] < 1
    assert "linear:3" in str(change)


def test_the_reported_error_is_the_relative_l2_distance():
    model = model_of("constant", 8)
    small = ad.compress(model, size=2)
    times = [(i + 0.5) / 400 for i in range(400)]
    old, new = (torch.stack([m[0].theta(t)["linear.weight"].detach() for t in times]) for m in (model, small))
    expected = float((old - new).norm() / old.norm())
    assert small[0].history[0].errors["linear.weight"] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("method", ["project", "interpolate"])
def test_methods_differ_and_both_compress(method):
    model = model_of("constant", 8)
    small = ad.compress(model, size=4, method=method)
    assert small[0].history[0].operation == f"compress ({method})"
    old, new = model[0].unit.linear.weight, small[0].unit.linear.weight
    expected = old.view(4, 2, 4, 4).mean(1) if method == "project" else old[1::2]
    torch.testing.assert_close(new, expected)


def test_set_solver_in_place_for_all_or_some():
    model = model_of(blocks=2)
    assert ad.set_solver(model, scheme="euler", steps=6) is model
    ad.set_solver(model, steps={"1": [0, 0.5, 1]})
    assert [(b.scheme.name, b.steps) for b in ad.blocks_of(model).values()] == [("euler", 6), ("euler", 2)]
    assert ad.summary(model).nfe == 8


def test_mixed_blocks_are_resized_by_tensor():
    block = ad.ContinuousBlock(Dense, weights={"linear.*": ("constant", 4), "*": ("linear", 3)})
    with pytest.raises(ConfigError, match="mixes"):
        ad.refine(block, size=8)
    ad.refine(block, size={"": {"linear.*": 8}})
    assert {str(f) for f in block.functions.values()} == {"constant:8", "linear:3"}
    ad.refine(block)
    assert {str(f) for f in block.functions.values()} == {"constant:16", "linear:5"}


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.01),
}


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("name", BASES.names())
def test_training_continues_smoothly_through_refine(name, kind):
    model = model_of(name, 4)
    optimizer = OPTIMIZERS[kind](model.parameters())
    before = trained(model, optimizer, 30)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ad.refine(model, optimizer=optimizer)
        after = trained(copy.deepcopy(model), steps=1)
    assert abs(after - before) < 0.05 * before
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    assert held == {id(p) for p in model.parameters()}
    for state in optimizer.state.values():
        for key in ("exp_avg_sq", "max_exp_avg_sq"):
            assert (state.get(key, torch.zeros(1)) >= 0).all()
    assert trained(model, optimizer, 30) < before


def test_groups_keep_their_settings_and_order():
    model = model_of()
    slow, fast = [*model[0].parameters()], [*model[1].parameters()]
    optimizer = torch.optim.SGD([{"params": slow, "lr": 0.001, "weight_decay": 0.5}, {"params": fast}], lr=0.1)
    ad.refine(model, optimizer=optimizer)
    assert [id(p) for p in optimizer.param_groups[0]["params"]] == [id(p) for p in model[0].parameters()]
    assert optimizer.param_groups[0]["weight_decay"] == 0.5
    assert optimizer.param_groups[1]["params"] == fast


def test_velocity_moves_like_the_weights_and_gradients_by_the_dual():
    """For doubled constants: velocity is copied, a gradient is halved, its square quartered."""
    for kind, key, factor in (
        ("sgd", "momentum_buffer", 1.0),
        ("adam", "exp_avg", 0.5),
        ("adam", "exp_avg_sq", 0.25),
    ):
        model = model_of("constant", 4)
        optimizer = OPTIMIZERS[kind](model.parameters())
        trained(model, optimizer, 3)
        old = optimizer.state[model[0].unit.linear.weight][key].clone()
        step = optimizer.state[model[0].unit.linear.weight].get("step")
        ad.refine(model, optimizer=optimizer)
        new = optimizer.state[model[0].unit.linear.weight]
        torch.testing.assert_close(new[key], factor * old.repeat_interleave(2, dim=0))
        assert new.get("step") == step


@pytest.mark.parametrize("name", BASES.names())
def test_gradients_of_the_grown_net_match_the_dual_map_on_the_old_space(name):
    """T^T g_new = g_old: the chain rule, with the same steps before and after."""
    model = model_of(name, 4).double().eval()
    x = torch.randn(16, 4, dtype=torch.float64)
    model(x).square().sum().backward()
    old = model[0].unit.linear.weight.grad
    matrix = torch.from_numpy(transfer.refine(ad.BASES[name](4))[1].copy())
    ad.refine(model, steps=4)
    model(x).square().sum().backward()
    torch.testing.assert_close(
        torch.tensordot(matrix.T, model[0].unit.linear.weight.grad, dims=1), old, rtol=1e-9, atol=1e-10
    )


def test_other_optimisers_are_reset_with_a_warning():
    model = model_of()
    optimizer = torch.optim.RMSprop(model.parameters())
    trained(model, optimizer, 2)
    with pytest.warns(AnydepthWarning, match="reset"):
        ad.refine(model, optimizer=optimizer)
    trained(model, optimizer, 2)


def test_forgetting_the_optimiser_gives_a_warning_once():
    model = model_of()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    ad.refine(model)
    with pytest.warns(AnydepthWarning, match="still steps"):
        trained(model, optimizer, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trained(model, optimizer, 1)
        ad.refine(model)
        trained(model, torch.optim.SGD(model.parameters(), lr=0.1), 1)


def test_an_optimiser_that_lacks_the_block_gives_a_warning():
    model = model_of()
    with pytest.warns(AnydepthWarning, match="will not train"):
        ad.refine(model, optimizer=torch.optim.SGD(model[1].parameters(), lr=0.1))


def test_a_bad_request_changes_nothing():
    model = model_of("discontinuous", 4, blocks=2)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    for request in (
        {"size": 5},
        {"size": {"1": 7}},
        {"steps": 0},
        {"steps": {"1": -1}},
        {"method": "guess"},
        {"optimizer": "sgd"},
        {"where": "nine"},
    ):
        with pytest.raises(ConfigError):
            ad.refine(model, **request)
        assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
        assert model[0].steps == model[1].steps == 4


def test_wide_model_has_13_million_parameters_and_compresses():
    """The time is measured by benchmarks/compress.py; here, that it is right."""
    model = ad.build(
        "image",
        channels=[64, 128, 256],
        classes=100,
        size=8,
        unit="skip_init_conv",
        first_stitch=False,
        stitch_skip_init=True,
    )
    assert sum(p.numel() for p in model.parameters()) == 13_584_702
    small = ad.compress(model, size=4)
    assert small.blocks[0].size == 4
    expected = model.blocks[0].unit.skip.view(4, 2).mean(1)
    torch.testing.assert_close(small.blocks[0].unit.skip, expected)


def test_a_parameter_shared_between_blocks_is_not_untied_in_silence():
    one, other = ad.ContinuousBlock(Dense, "constant", 2), ad.ContinuousBlock(Dense, "constant", 2)
    other.unit.linear.weight = one.unit.linear.weight
    with pytest.raises(ConfigError, match="untie"):
        ad.refine(nn.Sequential(one, other))
    twice = nn.Sequential(one, one)
    ad.refine(twice)
    assert twice[0].size == twice[1].size == 4


def test_two_optimisers_and_one_that_keeps_its_own_list():
    model = model_of()
    matrices = [p for p in model.parameters() if p.dim() > 2]
    rest = [p for p in model.parameters() if p.dim() <= 2]
    pair = [torch.optim.SGD(matrices, lr=0.1), torch.optim.Adam(rest)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ad.refine(model, optimizer=pair)
    held = [id(p) for optimizer in pair for group in optimizer.param_groups for p in group["params"]]
    assert sorted(held) == sorted(id(p) for p in model.parameters())

    model = model_of()
    lbfgs = torch.optim.LBFGS(model.parameters(), lr=0.1)
    x = torch.randn(16, 4)

    def closure():
        lbfgs.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss

    lbfgs.step(closure)
    with pytest.warns(AnydepthWarning, match="reset"):
        ad.refine(model, optimizer=lbfgs)
    before = model[0].unit.linear.weight.detach().clone()
    lbfgs.step(closure)
    assert not torch.equal(before, model[0].unit.linear.weight)


def test_marks_on_parameters_survive():
    model = model_of()
    model[0].unit.linear.bias.no_decay = True
    ad.refine(model)
    assert model[0].unit.linear.bias.no_decay


def test_a_request_that_fits_one_block_only_changes_none():
    model = model_of("linear", 3, blocks=2)
    ad.set_solver(model, scheme="dopri54", where="1")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ConfigError, match="adaptive"):
        ad.refine(model, steps=6, optimizer=optimizer)
    assert [block.size for block in ad.blocks_of(model).values()] == [3, 3]
    assert {id(p) for p in optimizer.param_groups[0]["params"]} == {id(p) for p in model.parameters()}
