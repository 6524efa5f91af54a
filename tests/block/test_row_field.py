"""A block whose examples have steps of their own."""

import pytest
import torch
from torch import nn

import anydepth as ad
from anydepth.depth.bases import BASES

DOUBLE = torch.float64
LIMITS = {"scheme": "dopri54", "rtol": 1e-4, "atol": 1e-6}


class Field(nn.Module):
    """A small net with a mask for every example, and the time if it is asked for."""

    def __init__(self, width=3, time=False):
        super().__init__()
        self.inner, self.outer, self.time = nn.Linear(width, 6), nn.Linear(6, width), time

    def forward(self, *given, shift=None):
        (t, x, *rest) = given if self.time else (None, *given)
        found = self.outer(torch.tanh(self.inner(x)))
        found = found if t is None else found * torch.cos(3 * t)
        found = found * rest[0] if rest else found
        return found if shift is None else found + shift


def made(basis="constant", size=1, **settings):
    torch.manual_seed(1)
    time = settings.get("time", False)
    return ad.ContinuousBlock(lambda: Field(time=time), basis, size, scale=4, **LIMITS, **settings).double()


def rows(count=4):
    return 2 * torch.randn(count, 3, generator=torch.Generator().manual_seed(2), dtype=DOUBLE)


def alone(block, x, *args):
    """Every example through the same block by itself, with the steps of a batch of one."""
    found, spent = [], []
    block.set_solver(per_example=False)
    with ad.fast_paths(False):
        for i in range(len(x)):
            mine = [arg[i : i + 1] if len(arg) == len(x) else arg for arg in args]
            found.append(block(x[i : i + 1], *mine))
            spent.append(block.nfe)
    block.set_solver(per_example=True)
    return torch.cat(found), spent


@pytest.mark.parametrize("time", [False, True])
@pytest.mark.parametrize("basis", BASES.names())
def test_every_basis_as_if_alone(basis, time):
    block = made(basis, 4, time=time, per_example=True)
    x, mask = rows(), torch.rand(4, 1, dtype=DOUBLE)
    found = block(x, mask)
    spent = block.stats.examples.evaluations.tolist()
    wanted, counts = alone(block, x, mask)
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-11)
    assert spent == counts
    assert max(spent) >= block.nfe == counts[-1]


@pytest.mark.parametrize("basis", ["constant", "linear"])
def test_gradients_as_if_alone(basis):
    block = made(basis, 2, per_example=True)
    x, shared = rows(), torch.rand(1, 3, dtype=DOUBLE)
    weights = list(block.parameters())
    found = torch.autograd.grad(block(x, shared).square().sum(), weights)
    wanted = torch.autograd.grad(alone(block, x, shared)[0].square().sum(), weights)
    for mine, its in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, its, rtol=1e-8, atol=1e-10)


def test_order_and_company_do_not_matter():
    block = made("linear", 3, per_example=True)
    x = rows(6)
    with torch.no_grad():
        assert torch.allclose(block(x).flip(0), block(x.flip(0)), rtol=1e-10, atol=1e-12)
        assert torch.allclose(block(x)[:2], block(x[:2]), rtol=1e-10, atol=1e-12)


def test_images_with_norms_in_eval():
    torch.manual_seed(0)
    block = ad.ContinuousBlock(lambda: ad.units.PreactConv(4), "linear", 2, **LIMITS, per_example=True).double().eval()
    x = torch.randn(3, 4, 5, 5, dtype=DOUBLE)
    with torch.no_grad():
        found = block(x)
        torch.testing.assert_close(found, alone(block, x)[0], rtol=1e-8, atol=1e-10)


def test_a_tuple_of_states_and_a_trajectory():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 3), nn.Linear(2, 2)

        def forward(self, state):
            return torch.tanh(self.a(state[0])), self.b(state[1])

    block = ad.ContinuousBlock(Two, "linear", 2, **LIMITS, per_example=True).double()
    x = (rows(), torch.randn(4, 2, dtype=DOUBLE))
    found = block.trajectory(x, [0, 0.25, 1])
    last = block(x)
    for path, end in zip(found, last, strict=True):
        assert path.shape == (3, *end.shape)
        torch.testing.assert_close(path[-1], end, rtol=1e-3, atol=1e-4)


def test_the_form_travels():
    block, other = made(per_example=True), made()
    assert "per example" in repr(block)
    other.load_state_dict(block.state_dict())
    assert other.solver == block.solver
    assert other.solver.tolerance.per_example
    model = nn.Sequential(made())
    ad.set_solver(model, per_example=True)
    assert model[0].solver.tolerance.per_example
    ad.set_solver(model, rtol=1e-3)
    assert model[0].solver.tolerance.per_example
    ad.set_solver(model, scheme="rk4", steps=2)
    assert "per_example" not in model[0].solver.describe()


def test_a_form_without_it_loads():
    block = made(per_example=True)
    told = {key: value for key, value in block.solver.describe().items() if key != "per_example"}
    from anydepth.solve.solver import make_solver

    assert not make_solver(**told).tolerance.per_example


def test_refusals():
    with pytest.raises(ad.ConfigError, match="fixed steps, got per_example"):
        ad.ContinuousBlock(Field, scheme="rk4", steps=2, per_example=True)
    with pytest.raises(ad.ConfigError, match="True or False"):
        made(per_example=1)
    norm = ad.ContinuousBlock(lambda: ad.units.PreactConv(4), **LIMITS, per_example=True)
    with pytest.raises(ad.ConfigError, match=r"batch norm \(bn1\)"):
        norm(torch.randn(2, 4, 5, 5))
    norm.eval()(torch.randn(2, 4, 5, 5))
    block = made(per_example=True)
    block.set_gradient("adjoint")
    with pytest.raises(ad.ConfigError, match="backprop"):
        block(rows())

    class Branching(nn.Linear):
        def forward(self, x):
            return super().forward(x) if x.sum() > 0 else super().forward(-x)

    torch.manual_seed(0)
    branching = ad.ContinuousBlock(lambda: Branching(3, 3), "linear", 2, **LIMITS, per_example=True)
    with pytest.raises(ad.UnitError, match="cannot be mapped over examples"):
        branching(torch.randn(2, 3))
