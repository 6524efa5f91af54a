"""The cheap path for chains of linear layers: the same results as the general path."""

import copy

import pytest
import torch
from torch import nn

import anydepth as ad
from anydepth.depth.bases import BASES
from anydepth.depth.schemes import fixed_schemes
from anydepth.errors import UnitError
from anydepth.fast.layouts import ROWS
from anydepth.fast.linear import bind, chain_of
from anydepth.fast.threads import SMALL, threads_for


class Opaque(ad.units.MLP):
    """The same unit under another class, which takes the general path."""


class OpaqueTanh(ad.units.TanhNet):
    pass


PAIRS = {
    "mlp": (lambda: ad.units.MLP(3, 5, 2), lambda: Opaque(3, 5, 2)),
    "tanh": (lambda: ad.units.TanhNet(3, 6), lambda: OpaqueTanh(3, 6)),
}


def twins(kind="mlp", **options):
    made = []
    for make in PAIRS[kind]:
        torch.manual_seed(0)
        made.append(ad.ContinuousBlock(make, **options).double())
    return made


def gradients(block, x):
    x = x.clone().requires_grad_()
    block.zero_grad()
    out = block(x)
    out.square().sum().backward()
    return {
        "out": out.detach(),
        "x": x.grad,
        **{name: p.grad for name, p in block.named_parameters() if p.requires_grad},
    }


def assert_same(one, other):
    assert one.keys() == other.keys()
    for key in one:
        torch.testing.assert_close(one[key], other[key], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", PAIRS)
@pytest.mark.parametrize("scheme", fixed_schemes())
@pytest.mark.parametrize("basis", BASES.names())
def test_results_and_gradients_are_those_of_the_general_path(basis, scheme, kind):
    quick, general = twins(kind, basis=basis, size=4, scheme=scheme, steps=5, scale=2)
    assert chain_of(quick.unit)
    assert chain_of(general.unit) is None
    x = torch.randn(7, 3, dtype=torch.float64)
    assert_same(gradients(quick, x), gradients(general, x))
    assert quick.nfe == general.nfe


@pytest.mark.parametrize("kind", PAIRS)
@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("steps", [16, [k / 20 for k in range(10)] + [0.5 + k / 10 for k in range(6)]])
def test_eulers_factor_in_the_last_layer_changes_nothing(steps, size, kind):
    """Few distinct weights and many steps, of one width or two: the factor is multiplied into the weights."""
    quick, general = twins(kind, basis="constant", size=size, scheme="euler", steps=steps, scale=1.7)
    held = {name: quick.held(name) for name in quick.lifted}
    program, _ = bind(chain_of(quick.unit), quick.plan, quick.functions, held, ROWS)
    assert (program.factors is None) == (kind == "tanh" and chain_of(quick.unit)[-1].activation is not None)
    x = torch.randn(7, 3, dtype=torch.float64)
    assert_same(gradients(quick, x), gradients(general, x))
    assert torch.autograd.gradgradcheck(lambda y: quick(y).square().sum(), (x[:2].clone().requires_grad_(),))


@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 4, 3), (0, 3)])
def test_any_number_of_axes(shape):
    quick, general = twins(size=2, steps=40)
    x = torch.randn(shape, dtype=torch.float64)
    assert_same(gradients(quick, x), gradients(general, x))


def test_mixed_functions_and_frozen_parameters():
    weights = {"*bias": ("linear", 2), "*": ("constant", 3)}
    quick, general = twins(weights=weights, steps=6)
    for block in (quick, general):
        block.unit.out.requires_grad_(False)
    x = torch.randn(7, 3, dtype=torch.float64)
    assert_same(gradients(quick, x), gradients(general, x))


def test_sequential_units_are_chains_if_they_are_plain():
    plain = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3, bias=False), nn.Sigmoid())
    assert len(chain_of(plain)) == 2
    assert chain_of(nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))) is None
    assert chain_of(nn.Sequential(nn.ReLU(), nn.Linear(3, 3))) is None
    block = ad.ContinuousBlock(lambda: copy.deepcopy(plain), "linear", 3).double()
    x = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(block, (x,))
    plain.register_forward_hook(lambda *_: None)
    assert chain_of(plain) is None


def test_gradcheck_of_parameters_and_gradients_of_gradients():
    quick, _ = twins("tanh", basis="linear", size=3, scheme="rk4", steps=3)
    names = [name for name, _ in quick.named_parameters()]

    def run(x, *tensors):
        return torch.func.functional_call(quick, dict(zip(names, tensors, strict=True)), (x,))

    x = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(run, (x, *quick.parameters()))
    assert torch.autograd.gradgradcheck(quick, (x,))


def test_hooks_are_called_and_transforms_work():
    quick, general = twins(steps=3)
    calls = []
    quick.unit.out.register_forward_hook(lambda *_: calls.append(1))
    x = torch.randn(4, 3, dtype=torch.float64)
    torch.testing.assert_close(quick(x), general(x))
    assert len(calls) == 12
    other, _ = twins(steps=3)
    jacobian = torch.func.jacrev(lambda x: other(x[None])[0])(x[0])
    assert jacobian.shape == (3, 3)


def test_wrong_widths_and_precisions_are_reported_as_ever():
    quick, _ = twins()
    with pytest.raises(UnitError, match="MLP"):
        quick(torch.randn(2, 4, dtype=torch.float64))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert quick.float()(torch.randn(2, 3)).dtype == torch.float32
    with torch.no_grad():
        assert not quick(torch.randn(2, 3)).requires_grad


def test_modules_and_weights_used_twice():
    def shared_activation():
        act = nn.Tanh()
        return nn.Sequential(nn.Linear(3, 4), act, nn.Linear(4, 3), act)

    def shared_linear():
        linear = nn.Linear(3, 3)
        return nn.Sequential(linear, nn.Tanh(), linear)

    def tied():
        unit = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))
        unit[2].weight = unit[0].weight
        return unit

    class Wrapped(nn.Module):
        """Takes the general path."""

        def __init__(self, make):
            super().__init__()
            self.inner = make()

        def forward(self, x):
            return self.inner(x)

    x = torch.randn(4, 3)
    for make in (shared_activation, shared_linear, tied):
        torch.manual_seed(0)
        quick = ad.ContinuousBlock(make, "linear", 3)
        torch.manual_seed(0)
        general = ad.ContinuousBlock(lambda make=make: Wrapped(make), "linear", 3)
        torch.testing.assert_close(quick(x), general(x))


@pytest.mark.filterwarnings("ignore:.*torch.jit.script")  # PyTorch's own forward mode
def test_global_hooks_are_called_and_forward_mode_works():
    calls = []
    quick, _ = twins(steps=3)
    x = torch.randn(4, 3, dtype=torch.float64)
    handle = torch.nn.modules.module.register_module_forward_hook(lambda module, *_: calls.append(type(module)))
    quick(x)
    handle.remove()
    assert calls.count(nn.Linear) == 3 * 12
    _, tangent = torch.func.jvp(quick, (x,), (torch.ones_like(x),))
    assert tangent.shape == x.shape
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))
        torch.testing.assert_close(torch.autograd.forward_ad.unpack_dual(quick(dual)).tangent, tangent)


def test_nothing_is_kept_after_the_backward_pass():
    quick, _ = twins(steps=3)
    loss = quick(torch.randn(4, 3, dtype=torch.float64)).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_a_layer_of_another_class_is_not_taken_for_a_linear_map():
    class Doubled(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    unit = ad.units.MLP(3, 5)
    unit.out = Doubled(5, 3)
    assert chain_of(unit) is None


def test_small_products_have_one_thread_and_leave_the_number_as_it_was():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with threads_for(SMALL - 1):
            assert torch.get_num_threads() == 1
        with threads_for(SMALL):
            assert torch.get_num_threads() == 2
        with pytest.raises(ValueError, match="inside"), threads_for(1):
            raise ValueError("inside")
        quick, _ = twins(size=2, steps=3)
        quick(torch.randn(4, 3, dtype=torch.float64, requires_grad=True)).sum().backward()
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
