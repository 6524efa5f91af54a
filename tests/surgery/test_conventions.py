"""What people do with models: groups of parameters, initialisers, averages, optimisers of every kind."""

import copy
import warnings

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import anydepth as ad
from anydepth import errors
from anydepth.depth.bases import BASES

X = torch.linspace(-1, 1, 24, dtype=torch.float64).reshape(8, 3)


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(3, 3), nn.BatchNorm1d(3)

    def forward(self, x):
        return self.norm(self.linear(x)).tanh()


def net(basis="constant", size=2):
    torch.manual_seed(0)
    block = ad.ContinuousBlock(Normed, basis, size, steps=2, scheme="midpoint")
    return nn.Sequential(nn.Linear(3, 3), block, nn.LayerNorm(3), nn.Linear(3, 1)).double()


def test_every_error_is_a_public_name():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    for kind in kinds:
        if issubclass(kind, (errors.AnydepthError, errors.AnydepthWarning)):
            assert getattr(ad, kind.__name__) is kind
            assert kind.__name__ in ad.__all__


def test_weights_decay_and_biases_and_norms_do_not_whatever_the_leading_axis():
    model = net()
    decayed, spared = ad.param_groups(model, 0.1, lr=0.5)
    names = {parameter: name for name, parameter in model.named_parameters()}
    assert {names[p] for p in decayed["params"]} == {"0.weight", "1.unit.linear.weight", "3.weight"}
    assert len(decayed["params"]) + len(spared["params"]) == len(names)
    assert (decayed["weight_decay"], spared["weight_decay"], decayed["lr"], spared["lr"]) == (0.1, 0.0, 0.5, 0.5)
    assert len(ad.param_groups(model, 0.1, spared="3.*")[0]["params"]) == 2
    with pytest.raises(ad.ConfigError, match="no parameter fits"):
        ad.param_groups(model, 0.1, spared="head*")


def test_groups_survive_a_refinement():
    model = net()
    optimizer = torch.optim.AdamW(ad.param_groups(model, 0.1))
    ad.refine(model, optimizer=optimizer)
    again = ad.param_groups(model, 0.1)
    for group, other in zip(optimizer.param_groups, again, strict=True):
        assert {id(p) for p in group["params"]} == {id(p) for p in other["params"]}


def zeroed(module):
    if isinstance(module, nn.Linear):
        nn.init.constant_(module.weight, 3.0)


@pytest.mark.parametrize("basis", BASES.names())
def test_an_initialiser_sees_tensors_of_one_depth(basis):
    model = net(basis, 4)
    before = copy.deepcopy(model.state_dict())
    shapes = []

    def fn(module):
        zeroed(module)
        if isinstance(module, nn.Linear):
            shapes.append(tuple(module.weight.shape))

    assert ad.init_(model, fn) is model
    assert set(shapes) == {(3, 3), (1, 3)}
    assert len(shapes) == 2 + 4
    for time in (0, 0.3, 1):
        theta = model[1].theta(time)
        torch.testing.assert_close(theta["linear.weight"], torch.full((3, 3), 3.0, dtype=torch.float64))
    for name in ("1.unit.linear.bias", "1.unit.norm.running_var", "2.weight"):
        assert torch.equal(model.state_dict()[name], before[name])


def test_a_random_initialiser_draws_anew_for_every_basis_function():
    model = ad.init_(net("constant", 3), lambda m: nn.init.normal_(m.weight) if isinstance(m, nn.Linear) else None)
    rows = model[1].stored("linear.weight")
    assert not torch.equal(rows[0], rows[1])
    scaled = copy.deepcopy(model)
    ad.init_(scaled, lambda m: m.weight.mul_(0.5) if isinstance(m, nn.Linear) else None)
    torch.testing.assert_close(scaled[1].stored("linear.weight"), 0.5 * rows)


def test_layers_that_reset_themselves_reset_statistics_and_counters():
    model = net("linear", 3).train()
    model(X)
    ad.init_(model, lambda m: m.reset_running_stats() if isinstance(m, nn.BatchNorm1d) else None)
    theta = model[1].theta(0.3)
    torch.testing.assert_close(theta["norm.running_var"], torch.ones(3, dtype=torch.float64))
    assert not theta["norm.running_mean"].any()
    assert int(model[1].unit.norm.num_batches_tracked) == 0


def steps(model, optimizer, count, ema=None):
    for _ in range(count):
        optimizer.zero_grad()
        model(X).square().mean().backward()
        optimizer.step()
        if ema is not None:
            ema.update(model)


@pytest.mark.parametrize("basis", ["constant", "linear", "legendre"])
def test_an_average_follows_a_refinement_as_a_function_of_depth(basis):
    model = net(basis)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    ema = ad.EMA(model, 0.9)
    steps(model, optimizer, 3, ema)
    before = {t: ema.average[1].theta(t) for t in (0.1, 0.4, 0.9)}
    current = {t: model[1].theta(t) for t in before}
    ad.refine(model, optimizer=optimizer)
    ema.update(model)
    assert ema.average[1].solver == model[1].solver
    for time, theta in before.items():
        for name, value in ema.average[1].theta(time).items():
            if name.endswith("running_var"):
                continue  # averaged in the logarithm
            torch.testing.assert_close(value, 0.9 * theta[name] + 0.1 * current[time][name], rtol=1e-12, atol=1e-12)
    steps(model, optimizer, 2, ema)
    assert int(ema.updates) == 6
    assert not any(parameter.requires_grad for parameter in ema.parameters())


def test_an_average_is_kept_in_state_dicts_with_its_form():
    model = net()
    ema = ad.EMA(model)
    ad.refine(model)
    ema.update(model)
    other = ad.EMA(net())
    other.load_state_dict(ema.state_dict())
    assert torch.equal(other(X), ema(X))
    assert other.average[1].solver == model[1].solver
    with pytest.raises(ad.ConfigError, match="EMA averages a model"):
        ad.EMA(AveragedModel(model))
    with pytest.raises(ad.ConfigError, match="decay"):
        ad.EMA(model, 1.5)


def test_pytorchs_average_is_refined_like_a_model():
    model = net()
    averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    steps(model, optimizer, 2, None)
    averaged.update_parameters(model)
    before = averaged.eval()(X)
    ad.refine(model, optimizer=optimizer)
    ad.refine(averaged, steps=2)
    torch.testing.assert_close(averaged(X), before, rtol=1e-12, atol=1e-12)
    averaged.update_parameters(model)


@pytest.mark.parametrize("use_buffers", [False, True])
def test_pytorchs_average_follows_a_model_that_was_refined(use_buffers):
    """The average is what EMA makes of the same steps; state that is not averaged is the model's."""
    model = net()
    decay = get_ema_multi_avg_fn(0.9)
    averaged, ema = AveragedModel(model, multi_avg_fn=decay, use_buffers=use_buffers), ad.EMA(model, 0.9)
    averaged.n_averaged += 1  # so that its first update averages too
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(4):
        if step == 2:
            ad.refine(model, optimizer=optimizer)
        steps(model, optimizer, 1, ema)
        averaged.update_parameters(model)
    block = averaged.module[1]
    assert block.solver == model[1].solver
    for name, mean in averaged.module.named_parameters():
        torch.testing.assert_close(mean, dict(ema.average.named_parameters())[name], rtol=1e-12, atol=1e-12)


def test_pytorchs_average_of_a_model_without_blocks_is_left_alone():
    ad.refine(net())
    plain = nn.Linear(2, 2)
    averaged = AveragedModel(plain)
    averaged.update_parameters(plain)
    assert torch.equal(averaged.module.weight, plain.weight)


def test_lbfgs_forgets_its_history_with_a_warning_and_goes_on():
    model = net()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)

    def closure():
        optimizer.zero_grad()
        loss = model(X).square().mean()
        loss.backward()
        return loss

    first = optimizer.step(closure).item()
    with pytest.warns(ad.AnydepthWarning, match="history of LBFGS was reset"):
        ad.refine(model, optimizer=optimizer)
    for _ in range(3):
        last = optimizer.step(closure).item()
    assert last < first


class Wrapper(torch.optim.Optimizer):
    """A wrapper as Accelerate's: an optimiser that has the real one inside."""

    def __init__(self, optimizer):
        self.optimizer = optimizer

    @property
    def param_groups(self):
        return self.optimizer.param_groups

    @property
    def state(self):
        return self.optimizer.state


def test_wrapped_optimisers_keep_their_moments():
    model = net()
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    steps(model, optimizer, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ad.refine(model, optimizer=Wrapper(Wrapper(optimizer)))
    parameter = model[1].stored("linear.weight")
    assert optimizer.state[parameter]["exp_avg"].shape == parameter.shape
    with pytest.raises(ad.ConfigError, match=r"must be a torch\.optim\.Optimizer"):
        ad.refine(model, optimizer=object())
