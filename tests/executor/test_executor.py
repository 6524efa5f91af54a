"""The unit is never touched: what is stored and what is executed are different objects."""

import copy
import functools
import sys
import threading
import weakref

import pytest
import torch
import torch.nn.utils.prune
from torch import nn
from torch.utils.checkpoint import checkpoint

import anydepth as ad
from anydepth.errors import UnitError
from small_units import Dense, Smooth

X = torch.linspace(-1, 1, 12).view(4, 3)


@pytest.fixture(autouse=True)
def _general_path(monkeypatch):
    """These are tests of executors, which the general path has."""
    monkeypatch.setattr("anydepth.block.paths._attempts", lambda: ())


def block_of(unit, **options):
    torch.manual_seed(0)
    return ad.ContinuousBlock(unit, "linear", 3, steps=3, **options)


class Plain(nn.Module):
    """tanh of a linear map by its own method; others reach the same method in other ways."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def inner(self, x):
        return torch.tanh(self.linear(x))

    def forward(self, x):
        return self.inner(x)


class Bound(Plain):
    def __init__(self):
        super().__init__()
        self.run = self.inner

    def forward(self, x):
        return self.run(x)


class Closure(Plain):
    def __init__(self):
        super().__init__()
        self.run = lambda x: self.inner(x)

    def forward(self, x):
        return self.run(x)


class Partial(Plain):
    def __init__(self):
        super().__init__()
        self.run = functools.partial(Plain.inner, self)

    def forward(self, x):
        return self.run(x)


class Listed(Plain):
    def __init__(self):
        super().__init__()
        self.layers, self.named = [self.linear], {"first": (self.linear,)}

    def forward(self, x):
        assert self.layers[0] is self.named["first"][0]
        return torch.tanh(self.layers[0](x))


class Child(nn.Module):
    def __init__(self, parent):
        super().__init__()
        self.parent = [parent]

    def forward(self, x):
        return self.parent[0].inner(x)


class BackReference(Plain):
    def __init__(self):
        super().__init__()
        self.child = Child(self)

    def forward(self, x):
        return self.child(x)


class Weak(Plain):
    def __init__(self):
        super().__init__()
        self.me = weakref.ref(self)

    def forward(self, x):
        return self.me().inner(x)


class Helper:
    def __init__(self, owner):
        self.owner, self.again = owner, self


class Helped(Plain):
    def __init__(self):
        super().__init__()
        self.helper = Helper(self)

    def forward(self, x):
        return self.helper.again.owner.inner(x)


class Hooked(Plain):
    def __init__(self):
        super().__init__()
        self.linear.register_forward_hook(self.squash)

    def squash(self, module, args, out):
        assert module is self.linear
        return torch.tanh(out)

    def forward(self, x):
        return self.linear(x)


@pytest.mark.parametrize("unit", [Bound, Closure, Partial, Listed, BackReference, Weak, Helped, Hooked])
def test_every_way_back_into_the_unit_leads_to_what_is_executed(unit):
    assert torch.equal(block_of(unit)(X), block_of(Plain)(X))
    assert torch.equal(copy.deepcopy(block_of(Plain))(X), block_of(unit)(X))


def test_a_tensor_kept_in_an_attribute_too_is_refused():
    class Kept(Plain):
        def __init__(self):
            super().__init__()
            self.weights = [self.linear.weight]

    with pytest.raises(UnitError, match="'weights'"):
        block_of(Kept)
    with pytest.raises(UnitError, match="_flat_weight"):
        block_of(lambda: nn.LSTM(3, 3))


def test_a_factory_may_return_what_exists():
    unit = Dense(3)
    before = copy.deepcopy(unit.state_dict())
    one, other = (ad.ContinuousBlock(lambda: unit, "linear", 3) for _ in range(2))
    one(X)
    assert all(torch.equal(before[name], tensor) for name, tensor in unit.state_dict().items())
    ad.refine(one)
    assert torch.isfinite(other(X)).all()
    assert not {id(p) for p in one.parameters()} & {id(p) for p in other.parameters()}


def test_attributes_written_in_forward_are_kept_and_lists_are_the_users():
    seen = []

    class Counting(Plain):
        def __init__(self):
            super().__init__()
            self.calls, self.last, self.log = 0, None, seen

        def forward(self, x):
            self.calls += 1
            self.last = x.detach()
            self.log.append(1)
            return super().forward(x)

    block = block_of(Counting)
    block(X)
    block(X)
    assert block.unit.calls == len(seen) == 24
    assert block.unit.last.shape == X.shape


def test_modules_made_in_forward_are_refused():
    class Lazy(Plain):
        def forward(self, x):
            self.other = nn.Linear(3, 3)
            return self.other(x)

    with pytest.raises(UnitError, match="makes or replaces modules"):
        block_of(Lazy)(X)


@pytest.mark.filterwarnings("ignore:None of the inputs")
@pytest.mark.parametrize("is_reentrant", [True, False])
@pytest.mark.parametrize("gradient", ["backprop", "checkpoint"])
def test_recomputation_inside_a_unit_is_refused_by_name(gradient, is_reentrant):
    class Recomputing(Plain):
        def forward(self, x):
            return checkpoint(self.inner, x, use_reentrant=is_reentrant)

    out = block_of(Recomputing, gradient=gradient)(X.clone().requires_grad_())
    with pytest.raises((UnitError, RuntimeError), match=r"gradient='checkpoint'|use_reentrant=False"):
        out.sum().backward()


def test_a_unit_may_call_itself():
    class Twice(Plain):
        def forward(self, x, again=True):
            return self(x, False) + 1 if again else super().forward(x)

    class Once(Plain):
        def forward(self, x):
            return super().forward(x) + 1

    assert torch.equal(block_of(Twice)(X), block_of(Once)(X))


CHANGES = {
    "replaced": lambda unit: unit.__setitem__(0, nn.Linear(3, 3)),
    "pruned": lambda unit: nn.utils.prune.l1_unstructured(unit[0], "weight", 0.5),
    "parametrized": lambda unit: nn.utils.parametrizations.weight_norm(unit[0]),
    "without bias": lambda unit: setattr(unit[0], "bias", None),
    "grown": lambda unit: unit.append(nn.Linear(3, 3)),
    "shortened": lambda unit: unit.pop(0),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("fast", [True, False])
def test_tensors_changed_later_are_a_typed_error(change, fast):
    block = block_of(lambda: nn.Sequential(nn.Linear(3, 3), nn.Tanh()))
    CHANGES[change](block.unit)
    with ad.fast_paths(fast), pytest.raises(UnitError, match="other tensors"):
        block(X)


def test_pruning_and_parametrizations_in_the_factory_work():
    def pruned():
        unit = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
        nn.utils.prune.l1_unstructured(unit[0], "weight", 0.5)
        return nn.Sequential(unit, nn.utils.parametrizations.weight_norm(nn.Linear(3, 3)))

    block = block_of(pruned)
    block(X).sum().backward()
    assert block.unit[0][0].weight_orig.grad is not None


def test_settings_of_modules_are_followed():
    block = block_of(lambda: Dense(3))
    block.unit.bn.momentum = 1.0
    block(X)
    mean = block.unit.bn.running_mean.clone()
    block.unit.bn.momentum = 0.0
    block(X + 1)
    assert torch.equal(block.unit.bn.running_mean, mean)
    calls = []
    handle = block.unit.linear.register_forward_hook(lambda *_: calls.append(1))
    block(X)
    handle.remove()
    block(X)
    assert len(calls) == 12


@pytest.mark.parametrize("times", [8, pytest.param(200, marks=pytest.mark.soak)])
def test_no_reader_ever_sees_a_pass_at_work(times):
    """Threads that infer on the general path while another copies, compresses and reads."""
    block = block_of(lambda: Dense(3)).eval()
    wanted, shapes = block(X), {name: tensor.shape for name, tensor in block.state_dict().items()}
    stop, wrong = threading.Event(), []

    def infer():
        while not stop.is_set():
            if not torch.equal(block(X), wanted):
                wrong.append("output")

    threads = [threading.Thread(target=infer) for _ in range(3)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for _ in range(times):
            wrong += [n for n, t in block.state_dict().items() if t.shape != shapes[n]]
            wrong += [] if torch.equal(copy.deepcopy(block)(X), wanted) else ["copy"]
            ad.compress(block, basis="constant", size=2)
    finally:
        stop.set()
        sys.setswitchinterval(interval)
        for thread in threads:
            thread.join()
    assert not wrong


class Stopping(Smooth):
    """Raises what Ctrl-C does, in the middle of a pass."""

    left = 5

    def forward(self, x):
        Stopping.left -= 1
        if Stopping.left == 0:
            raise KeyboardInterrupt
        return super().forward(x)


def test_an_interrupt_leaves_the_block_as_it_was():
    block = block_of(Stopping)
    before = copy.deepcopy(block.state_dict())
    with pytest.raises(KeyboardInterrupt):
        block(X)
    after = block.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert torch.isfinite(block(X)).all()


def test_statistics_are_those_of_the_calling_thread():
    block = block_of(Smooth)
    block(X)
    other = []
    thread = threading.Thread(target=lambda: (other.append(block.nfe), block.set_solver(steps=5), block(X)))
    thread.start()
    thread.join()
    assert other == [0]
    assert block.nfe == 12


class Adjustable(nn.Module):
    """A unit with attributes of many kinds that a user may change between passes."""

    def __init__(self):
        super().__init__()
        self.layer, self.norm = nn.Linear(3, 3), nn.BatchNorm1d(3)
        self.factor, self.factors, self.table = 1.0, [1.0], {}
        self.post = torch.tanh

    def forward(self, x):
        found = self.post(self.norm(self.layer(x))) * self.factor * sum(self.factors)
        return found + self.table.get("shift", 0.0) + len(self._forward_pre_hooks)


def _double(value):
    return 2 * torch.tanh(value)


def _hooked(unit):
    unit.layer.register_forward_hook(lambda module, args, out: out + 1)


ADJUSTMENTS = {
    "a number": lambda unit: setattr(unit, "factor", 3.0),
    "a list": lambda unit: unit.factors.append(2.0),
    "a dict": lambda unit: unit.table.update(shift=0.5),
    "a function": lambda unit: setattr(unit, "post", _double),
    "a closure over the unit": lambda unit: setattr(unit, "post", lambda v: torch.tanh(v) * unit.factor * 2),
    "a method": lambda unit: setattr(unit, "forward", lambda x: unit.layer(x)),
    "a hook": _hooked,
    "a hook on the unit": lambda unit: unit.register_forward_pre_hook(lambda module, args: None),
    "a layer's setting": lambda unit: setattr(unit.norm, "eps", 0.3),
    "evaluation mode of a layer": lambda unit: unit.norm.eval(),
    "another class": lambda unit: setattr(unit.norm, "__class__", type("Norm", (nn.BatchNorm1d,), {})),
}


@pytest.mark.parametrize("change", ADJUSTMENTS.values(), ids=ADJUSTMENTS)
@pytest.mark.parametrize("is_training", [True, False])
def test_what_is_changed_in_a_unit_between_passes_is_followed(change, is_training):
    x, blocks = torch.randn(5, 3), []
    for passes_before in (0, 2):
        torch.manual_seed(0)
        block = ad.ContinuousBlock(Adjustable, "linear", 2, scheme="midpoint", steps=2)
        block.train(is_training)
        start = copy.deepcopy(block.state_dict())
        for _ in range(passes_before):
            block(x)
        block.load_state_dict(start)
        change(block.unit)
        blocks.append(block)
    fresh, used = blocks
    plain = ad.ContinuousBlock(Adjustable, "linear", 2, scheme="midpoint", steps=2).train(is_training)
    plain.load_state_dict(start)
    wanted, found = fresh(x), used(x)
    assert torch.equal(wanted, found)
    if is_training or change is not ADJUSTMENTS["evaluation mode of a layer"]:
        assert not torch.equal(plain(x), found) or change is ADJUSTMENTS["another class"]
