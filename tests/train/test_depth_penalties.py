"""Penalties on what happens over depth."""

import pytest
import torch
from torch import nn

import anydepth as ad
from anydepth.errors import ConfigError
from anydepth.train.depth_penalties import KineticEnergy, roughness
from anydepth.train.training import train
from small_runs import tiny
from small_units import Dense, Smooth


def test_kinetic_energy_with_euler_is_the_sum_of_the_squared_fields():
    torch.manual_seed(0)
    block = ad.ContinuousBlock(Smooth, "constant", 4, scheme="euler", steps=4, scale=3).double()
    x = torch.randn(5, 3).double()
    energy = KineticEnergy()
    with energy():
        y = block(x)
    states, total = block.trajectory(x), 0.0
    for n in range(4):
        theta = block.theta(f"{n}/4")
        field = 3 * torch.tanh(states[n] @ theta["linear.weight"].T + theta["linear.bias"])
        total = total + field.square().mean() / 4
    torch.testing.assert_close(energy.total(), total)
    torch.testing.assert_close(y, states[-1])


def test_kinetic_energy_has_gradients_and_leaves_results_alone():
    torch.manual_seed(0)
    block = ad.ContinuousBlock(Dense, "linear", 3, scheme="rk4", steps=3)
    x = torch.randn(9, 4)
    plain = block.eval()(x)
    energy = KineticEnergy()
    with energy():
        torch.testing.assert_close(block(x), plain)
    energy.total().backward()
    assert all(parameter.grad is not None for parameter in block.parameters())


def test_kinetic_energy_of_a_constant_velocity_is_its_square():
    class Drift(nn.Module):
        def __init__(self):
            super().__init__()
            self.speed = nn.Parameter(torch.tensor(2.0))

        def forward(self, x):
            return self.speed + 0 * x

    block = ad.ContinuousBlock(Drift, scheme="rk4", steps=5)
    energy = KineticEnergy()
    with energy():
        block(torch.zeros(3, 1))
    assert energy.total().item() == pytest.approx(4)


def test_roughness_of_constants_is_that_of_neighbouring_layers():
    block = ad.ContinuousBlock(lambda: Dense(4), "constant", 8, steps=8)
    kernel = block.unit.linear.weight
    torch.testing.assert_close(roughness(block), 8 * (kernel[1:] - kernel[:-1]).square().sum())
    assert roughness(ad.ContinuousBlock(lambda: Dense(4), "constant", 1)) is None
    assert roughness(nn.Linear(2, 2)) is None


def test_roughness_of_a_straight_line_is_nearly_its_squared_slope():
    block = ad.ContinuousBlock(lambda: nn.Linear(1, 1), "linear", 50, steps=1)
    with torch.no_grad():
        block.unit.weight.copy_(torch.linspace(0, 3, 50).view(50, 1, 1))
    assert roughness(block).item() == pytest.approx(9, rel=0.05)


def test_penalties_shrink_what_they_penalise(tmp_path):
    few = ("model.options.size=4", "model.options.steps=4", "training.epochs=3")
    rough = [
        roughness(train(tiny(*few, f"training.penalty_roughness={f}"), tmp_path / str(f)).model()).item()
        for f in (0.0, 0.1)
    ]
    assert rough[1] < 0.7 * rough[0]

    def energy_of(run):
        model, energy = run.model(), KineticEnergy()
        with energy():
            model(torch.randn(4, 1, 8, 8))
        return energy.total().item()

    plain, calm = (train(tiny(*few, f"training.penalty_kinetic={f}"), tmp_path / f"k{f}") for f in (0.0, 1.0))
    assert energy_of(calm) < 0.7 * energy_of(plain)


RESNET = ("model.name=resnet", 'model.options={"channels": [4], "layers": 1, "pool": 4}')


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (("training.penalty_kinetic=0.1", "model.options.scheme=dopri54", "model.options.steps=null"), "fixed steps"),
        (("training.penalty_kinetic=0.1", "model.gradient=checkpoint"), "needs model.gradient 'backprop'"),
        (("training.penalty_kinetic=0.1", *RESNET), "training.penalty_kinetic needs .* this model has none"),
        (("training.penalty_roughness=0.1", *RESNET), "training.penalty_roughness needs .* this model has none"),
    ],
)
def test_models_without_blocks_or_grid_points_are_refused(changes, told, tmp_path):
    with pytest.raises(ConfigError, match=told):
        train(tiny(*changes), tmp_path)
