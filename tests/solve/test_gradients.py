"""Gradient modes: exact where they claim it, and PyTorch's own tools on a block."""

import copy
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

import anydepth as ad
from anydepth.depth.bases import BASES
from anydepth.errors import ConfigError, UnitError
from small_units import Dense, Smooth


class Noisy(nn.Module):
    """Batch norm and dropout in one unit."""

    def __init__(self, width=4):
        super().__init__()
        self.bn = nn.BatchNorm1d(width)
        self.linear = nn.Linear(width, width)
        self.drop = nn.Dropout(0.3)

    def forward(self, x, shift=0.0):
        return self.drop(self.linear(self.bn(x).relu())) + shift


def gradients(block, x, seed=5, **context):
    """Gradients of the input and every parameter, and the buffers afterwards."""
    torch.manual_seed(seed)
    x = x.clone().requires_grad_()
    block.zero_grad()
    block(x, **context).square().sum().backward()
    found = {"x": x.grad, **{name: p.grad.clone() for name, p in block.named_parameters()}}
    return found, {name: b.clone() for name, b in block.named_buffers()}


@pytest.mark.parametrize("segment", [1, 3, 100])
@pytest.mark.parametrize("scheme", ["euler", "rk4"])
@pytest.mark.parametrize("name", BASES.names())
def test_checkpoint_equals_backprop_with_batch_norm_and_dropout(name, scheme, segment):
    """Bit for bit in x, in the state, and in every parameter that no two segments share; else to 1e-14.

    Where several segments read one coefficient, the order in which their gradients add up differs.
    """
    torch.manual_seed(0)
    block = ad.ContinuousBlock(Noisy, name, 4, scheme=scheme, steps=7).double()
    lean = copy.deepcopy(block)
    lean.set_gradient("checkpoint", segment)
    x = torch.randn(16, 4, dtype=torch.float64)
    plain, buffers = gradients(block, x)
    again, lean_buffers = gradients(lean, x)
    assert torch.equal(plain["x"], again["x"])
    for key in plain:
        torch.testing.assert_close(again[key], plain[key], rtol=1e-14, atol=1e-14 * float(plain[key].abs().max()))
    if name == "constant" and scheme == "euler" and segment == 1:
        assert all(torch.equal(plain[key], again[key]) for key in plain)
    assert all(torch.equal(buffers[key], lean_buffers[key]) for key in buffers)
    assert int(lean.unit.bn.num_batches_tracked) == 1


@pytest.mark.parametrize("scheme", ["bosh32", "dopri54", "fehlberg21"])
def test_checkpoint_equals_backprop_on_adaptive_steps(scheme):
    torch.manual_seed(0)
    block = ad.ContinuousBlock(Dense, "linear", 3, scheme=scheme, rtol=1e-3, atol=1e-4).double()
    lean = ad.set_gradient(copy.deepcopy(block), "checkpoint")
    x = torch.randn(16, 4, dtype=torch.float64)
    plain, again = gradients(block, x)[0], gradients(lean, x)[0]
    for key in plain:
        torch.testing.assert_close(again[key], plain[key], rtol=1e-14, atol=1e-14 * float(plain[key].abs().max()))


def test_checkpoint_passes_gradients_to_context():
    block = ad.ContinuousBlock(Noisy, "linear", 3, gradient="checkpoint")
    shift = torch.zeros(4, requires_grad=True)
    block(torch.randn(8, 4), shift=shift).sum().backward()
    assert shift.grad.abs().sum() > 0


class Gained(Smooth):
    def forward(self, x, gain):
        return super().forward(x) * gain


@pytest.mark.parametrize("segment", [1, 2, 3, 6])
def test_context_gradients_do_not_depend_on_segments(segment):
    torch.manual_seed(0)
    block = ad.ContinuousBlock(Gained, "linear", 3, steps=6).double()
    x = torch.randn(4, 3, dtype=torch.float64)
    found = []
    for mode in ("backprop", "checkpoint"):
        block.set_gradient(mode, segment)
        gain = torch.full((3,), 0.7, dtype=torch.float64, requires_grad=True)
        loss = block(x, gain=gain).square().sum()
        (first,) = torch.autograd.grad(loss, gain, retain_graph=True)
        (again,) = torch.autograd.grad(loss, gain)
        assert torch.equal(first, again)
        found.append(first)
    torch.testing.assert_close(*found, rtol=1e-13, atol=1e-13)


class Levelled(nn.Module):
    """A field that depends on its own running state in training."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("level", torch.ones(()))

    def forward(self, x):
        level = self.level.clone()
        if self.training:
            self.level.copy_(0.5 * level + 0.5 * x.detach().norm())
        return torch.tanh(self.linear(x)) / level


@pytest.mark.parametrize("mode", ["checkpoint", "adjoint"])
@pytest.mark.parametrize("between", ["nothing", "eval", "refine"])
def test_what_happens_between_the_passes_does_not_matter(between, mode):
    """Gradients are those of the state, mode and size of the forward pass."""
    x = torch.randn(8, 3, dtype=torch.float64)
    found = []
    for way in ("backprop", mode):
        torch.manual_seed(0)
        block = ad.ContinuousBlock(Levelled, "linear", 3, steps=20, state=("level",), gradient=way).double()
        block(x)
        at = x.clone().requires_grad_()
        loss = block(at).square().sum()
        if between == "eval":
            block.eval()
        if between == "refine":
            ad.refine(block)
        loss.backward()
        found.append(at.grad)
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-6)


def test_dropout_that_trains_in_an_evaluated_block_is_replayed():
    torch.manual_seed(0)
    block = ad.ContinuousBlock(Noisy, "linear", 3, steps=3).double().eval()
    block.unit.drop.train()
    lean = ad.set_gradient(copy.deepcopy(block), "checkpoint")
    x = torch.randn(16, 4, dtype=torch.float64)
    plain, again = gradients(block, x)[0], gradients(lean, x)[0]
    torch.testing.assert_close(again["x"], plain["x"])


def test_adjoint_of_a_field_with_a_constant_part():
    class Partly(nn.Module):
        def forward(self, state):
            a, b = state
            return a * 0.5, torch.ones_like(b)

    block = ad.ContinuousBlock(Partly, steps=20, gradient="adjoint")
    a, b = (torch.ones(2, 2, requires_grad=True) for _ in range(2))
    out = block((a, b))
    (out[0].sum() + out[1].sum()).backward()
    torch.testing.assert_close(a.grad, torch.full((2, 2), 0.5).exp(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(b.grad, torch.ones(2, 2))


def test_transforms_need_backprop():
    block = ad.ContinuousBlock(Smooth, gradient="checkpoint")
    with pytest.raises(ConfigError, match="need gradient='backprop'"):
        torch.func.jacrev(lambda x: block(x[None])[0])(torch.randn(3))


def test_threads_can_share_a_block():
    block = ad.ContinuousBlock(Smooth, "linear", 3, steps=8).eval()
    xs = [torch.randn(4, 3) for _ in range(24)]
    expected = [block(x).detach() for x in xs]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda x: block(x).detach(), xs))
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_checkpoint_keeps_less():
    """What autograd keeps alive for the backward pass, counted by saved-tensor hooks."""

    def kept(mode, segment=1):
        block = ad.ContinuousBlock(lambda: Dense(32), "constant", 8, steps=16, gradient=mode, segment=segment)
        sizes = []
        x = torch.randn(256, 32, requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: sizes.append(t.numel()) or t, lambda t: t):
            block(x)
        return sum(sizes)

    assert kept("checkpoint") < 0.2 * kept("backprop")
    assert kept("checkpoint", 8) < 0.5 * kept("checkpoint")


@pytest.mark.parametrize("mode", ["checkpoint", "adjoint"])
@pytest.mark.parametrize("is_leaf", [True, False])
def test_a_foreign_trainable_tensor_is_refused_not_lost(mode, is_leaf):
    weight = torch.ones(3, requires_grad=True)
    foreign = weight if is_leaf else weight * 2

    class Reaches(Smooth):
        def forward(self, x):
            return super().forward(x) * foreign

    block = ad.ContinuousBlock(Reaches, gradient=mode)
    out = block(torch.randn(2, 3)).sum()
    with pytest.raises(UnitError, match="not its own"):
        out.backward()
    ad.set_gradient(block, "backprop")(torch.randn(2, 3)).sum().backward()
    assert weight.grad is not None


def relative(found, exact):
    gap = sum(float((found[key] - exact[key]).square().sum()) for key in exact)
    return (gap / sum(float(value.square().sum()) for value in exact.values())) ** 0.5


@pytest.mark.parametrize("name", BASES.names())
def test_adjoint_converges_to_backprop_at_the_schemes_order(name):
    """The error falls like the fourth power of the steps for RK4, from steps that resolve the basis."""
    x = torch.randn(8, 3, dtype=torch.float64)
    errors = []
    for steps in (12, 24):
        torch.manual_seed(0)
        block = ad.ContinuousBlock(Smooth, name, 4, scheme="rk4", steps=steps).double()
        exact = gradients(block, x)[0]
        errors.append(relative(gradients(ad.set_gradient(block, "adjoint"), x)[0], exact))
    assert errors[1] < errors[0] / 8 or errors[1] < 1e-12
    assert errors[1] < 1e-3


def test_adjoint_on_adaptive_steps_tuples_and_context():
    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, state, gain):
            a, b = state
            return torch.tanh(self.linear(b)) * gain, -a

    torch.manual_seed(0)
    block = ad.ContinuousBlock(Pair, "linear", 3, scheme="dopri54", rtol=1e-9, atol=1e-10).double()
    found = {}
    for mode in ("backprop", "adjoint"):
        block.set_gradient(mode)
        block.zero_grad()
        gain = torch.full((3,), 0.7, dtype=torch.float64, requires_grad=True)
        torch.manual_seed(1)
        state = tuple(torch.randn(4, 3, dtype=torch.float64, requires_grad=True) for _ in range(2))
        a, b = block(state, gain=gain)
        (a.square().sum() + b.sin().sum()).backward()
        found[mode] = [state[0].grad, state[1].grad, gain.grad, block.unit.linear.weight.grad.clone()]
    for one, other in zip(*found.values(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-7)


def test_adjoint_leaves_state_as_backprop_does_and_frozen_parameters_alone():
    torch.manual_seed(0)
    block = ad.ContinuousBlock(Dense, "linear", 3, steps=4)
    other = ad.set_gradient(copy.deepcopy(block), "adjoint")
    x = torch.randn(16, 4)
    _, plain = gradients(block, x)
    _, adjoint = gradients(other, x)
    assert all(torch.equal(plain[key], adjoint[key]) for key in plain)
    other.unit.bn.requires_grad_(False)
    other.zero_grad()
    other(x).sum().backward()
    assert other.unit.bn.weight.grad is None
    assert other.unit.linear.weight.grad is not None


def test_adjoint_under_no_grad_and_second_derivatives_refused():
    block = ad.ContinuousBlock(Smooth, gradient="adjoint")
    with torch.no_grad():
        block(torch.randn(2, 3))
    x = torch.randn(2, 3, requires_grad=True)
    (first,) = torch.autograd.grad(block(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match=r"once_differentiable|does not require grad|twice"):
        first.sum().backward()


@pytest.mark.parametrize("mode", ["backprop", "checkpoint"])
def test_gradient_of_gradient(mode):
    block = ad.ContinuousBlock(Smooth, "linear", 3, steps=3, gradient=mode).double()
    x = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(block, (x,))


def test_unknown_modes():
    with pytest.raises(ConfigError, match="did you mean 'checkpoint'"):
        ad.ContinuousBlock(Smooth, gradient="checkpoints")
    with pytest.raises(ConfigError, match="segment"):
        ad.ContinuousBlock(Smooth, gradient="checkpoint", segment=0)


# PyTorch's own tools


def test_torch_func_grad_vmap_and_jacrev():
    block = ad.ContinuousBlock(Smooth, "linear", 3, steps=3).double()
    xs = torch.randn(5, 3, dtype=torch.float64)
    parameters = dict(block.named_parameters())

    def loss(parameters, x):
        return torch.func.functional_call(block, parameters, (x[None],)).square().sum()

    per_sample = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, xs)
    total = torch.func.grad(lambda p: sum(loss(p, x) for x in xs))(parameters)
    for key, value in total.items():
        torch.testing.assert_close(per_sample[key].sum(0), value)
    jacobian = torch.func.jacrev(lambda x: block(x[None])[0])(xs[0])
    assert jacobian.shape == (3, 3)


def test_autocast_keeps_the_state_in_float32():
    block = ad.ContinuousBlock(lambda: ad.units.PreactConv(4), "linear", 3, steps=2)
    x = torch.randn(2, 4, 6, 6)
    exact, found = copy.deepcopy(block)(x), {}
    for mode in ("backprop", "checkpoint", "adjoint"):
        twin = ad.set_gradient(copy.deepcopy(block), mode)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = twin(x)
        assert out.dtype == torch.float32
        torch.testing.assert_close(out, exact, rtol=0.1, atol=0.1)
        out.square().sum().backward()
        assert all(p.grad.dtype == torch.float32 for p in twin.parameters())
        found[mode] = twin.unit.conv1.weight.grad
    size = float(found["backprop"].abs().max())
    torch.testing.assert_close(found["checkpoint"], found["backprop"], rtol=0, atol=5e-3 * size)  # sums in bfloat16
    torch.testing.assert_close(
        found["adjoint"], found["backprop"], rtol=0.5, atol=0.2 * float(found["backprop"].abs().max())
    )


@pytest.mark.filterwarnings("ignore:The .grad attribute")
@pytest.mark.parametrize("mode", [True, False])
def test_compiled_block_equals_eager(mode):
    torch._dynamo.reset()
    block = ad.ContinuousBlock(Dense, "linear", 2, scheme="midpoint", steps=2).train(mode)
    twin = copy.deepcopy(block)
    compiled = torch.compile(twin, backend="aot_eager")
    x = torch.randn(8, 4)
    torch.testing.assert_close(compiled(x), block(x))
    compiled(x).sum().backward()
    block(x).sum().backward()
    for (name, one), (_, other) in zip(twin.named_parameters(), block.named_parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, msg=name)
    for (name, one), (_, other) in zip(twin.named_buffers(), block.named_buffers(), strict=True):
        torch.testing.assert_close(one, other, msg=name)


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # from the compiler's look at the unit's weights
def test_compiled_unit_inside_a_block():
    torch._dynamo.reset()
    block = ad.ContinuousBlock(Smooth, "linear", 3, steps=3)
    twin = copy.deepcopy(block)
    twin.unit.compile(backend="aot_eager")
    x = torch.randn(8, 3)
    torch.testing.assert_close(twin(x), block(x))
    ad.refine(twin)
    ad.refine(block)
    torch.testing.assert_close(twin(x), block(x))


def test_compiling_an_adaptive_block_is_refused_with_the_way_out():
    torch._dynamo.reset()
    block = ad.ContinuousBlock(Smooth, "linear", 3, scheme="dopri54")
    with pytest.raises(ConfigError, match=r"block\.unit\.compile"):
        torch.compile(block, backend="eager")(torch.randn(4, 3))


class Watched(nn.Module):
    """A convolution that notes whether the gradients of its results are in channels-last."""

    def __init__(self, seen):
        super().__init__()
        self.conv, self.seen = nn.Conv2d(3, 3, 3, padding=1), seen

    def forward(self, x):
        out = self.conv(x)
        if out.requires_grad:
            out.register_hook(lambda grad: self.seen.append(grad.is_contiguous(memory_format=torch.channels_last)))
        return out


@pytest.mark.parametrize("mode", ["backprop", "checkpoint", "adjoint", "kkt"])
@pytest.mark.parametrize("is_last", [True, False])
def test_gradients_keep_the_memory_format_of_the_state(mode, is_last):
    """Whatever format the gradient of the result comes in, the units see that of the images, and all values agree."""
    seen, found = [], []
    torch.manual_seed(0)
    block = ad.ContinuousBlock(lambda: Watched(seen), steps=3, scheme="rk4", gradient=mode).double()
    wanted, other = (torch.channels_last, torch.contiguous_format)[:: 1 if is_last else -1]
    x = torch.randn(2, 3, 4, 5, dtype=torch.float64).to(memory_format=wanted)
    pull = torch.randn(x.shape, dtype=torch.float64)
    for form in (wanted, other):
        leaf = x.clone(memory_format=torch.preserve_format).requires_grad_()
        block(leaf).backward(pull.to(memory_format=form))
        found.append([leaf.grad, *(p.grad.clone() for p in block.parameters())])
        block.zero_grad()
    assert len(seen) >= 24
    assert set(seen) == {is_last}
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)


def test_a_format_is_kept_for_states_of_several_parts_and_results_written_in_place():
    seen = []
    block = ad.ContinuousBlock(lambda: Pair(seen), steps=2, scheme="midpoint", gradient="checkpoint")
    x = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last).requires_grad_()
    z = torch.randn(2, 5, requires_grad=True)
    image, vector = block((x, z))
    (image.relu_().square().mean() + vector.square().mean()).backward()
    assert seen
    assert all(seen)
    assert x.grad is not None
    assert z.grad is not None


class Pair(nn.Module):
    def __init__(self, seen):
        super().__init__()
        self.unit, self.linear = Watched(seen), nn.Linear(5, 5)

    def forward(self, state):
        return self.unit(state[0]), self.linear(state[1])


def test_the_kept_format_can_be_differentiated_twice():
    torch.manual_seed(0)
    block = ad.ContinuousBlock(lambda: nn.Sequential(nn.Conv2d(2, 2, 1), nn.Tanh()), steps=2).double()
    x = torch.randn(1, 2, 2, 3, dtype=torch.float64).to(memory_format=torch.channels_last).requires_grad_()
    assert torch.autograd.gradgradcheck(lambda y: block(y).square().sum(), (x,))
