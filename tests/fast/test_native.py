"""Small fields as machine code: the same results as the general path, for any class of unit."""

import gc
import importlib.util
import os
import pickle
import random
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import anydepth as ad
from anydepth.depth.bases import BASES
from anydepth.depth.schemes import SCHEMES
from anydepth.errors import AnydepthWarning, UnitError

pytest.importorskip("numba")

FACTOR = 1.0


class Own(nn.Module):
    """A user's own class."""

    def __init__(self, width=3, hidden=5, act=torch.tanh):
        super().__init__()
        self.a, self.b = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.act = act

    def forward(self, x):
        return self.b(self.act(self.a(x)))


class Joined(nn.Module):
    """t as one more column, the way of ffjord and of most examples."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 9), nn.Linear(10, 3, bias=False)

    def forward(self, t, x):
        h = torch.tanh(self.a(torch.cat([torch.ones_like(x[:, :1]) * t, x], 1)))
        return self.b(torch.cat([h, t.expand(x.shape[0], 1)], -1))


class Squash(nn.Module):
    """A gate and a bias that depend on t alone."""

    def __init__(self):
        super().__init__()
        self.layer, self.gate, self.bias = nn.Linear(3, 3), nn.Linear(1, 3), nn.Linear(1, 3, bias=False)

    def forward(self, t, x):
        return self.layer(x) * torch.sigmoid(self.gate(t.view(1, 1))) + self.bias(t.view(1, 1)) - x * t.sin()


class Normed(nn.Module):
    """Layer norms of x and of a hidden layer, with and without weights, and a residual sum inside."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 19), nn.Linear(19, 3)
        self.first, self.norm = nn.LayerNorm(3, elementwise_affine=False, eps=0.1), nn.LayerNorm(19)

    def forward(self, x):
        h = self.a(self.first(x) + x)
        return self.b(torch.nn.functional.gelu(self.norm(h)) + h)


KINDS = {
    "mlp": (lambda: ad.units.MLP(3, 5, 2), False),
    "own": (Own, False),
    "joined": (Joined, True),
    "squash": (Squash, True),
    "normed": (Normed, False),
}


def block_of(kind="own", **options):
    make, has_time = KINDS[kind] if isinstance(kind, str) else (kind, False)
    torch.manual_seed(0)
    return ad.ContinuousBlock(make, time=has_time, **options).double()


def results(block, x, path="native"):
    """Outputs and gradients."""
    x = x.clone().requires_grad_()
    block.zero_grad()
    out = block(x)
    assert block.stats.path == path, block.stats.refused
    out.square().sum().backward()
    return {"out": out.detach(), "x": x.grad, **{n: p.grad for n, p in block.named_parameters() if p.requires_grad}}


def assert_agrees(block, x, tolerance=1e-12, path="native"):
    found, stats = results(block, x, path), block.stats
    with ad.fast_paths(False):
        expected = results(block, x, "general")
    assert (stats.evaluations, stats.accepted) == (block.stats.evaluations, block.stats.accepted)
    for key, value in expected.items():
        if value is not None:
            torch.testing.assert_close(found[key], value, rtol=tolerance, atol=tolerance)


def numbers(*shape, dtype=torch.float64):
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scheme", SCHEMES.names())
@pytest.mark.parametrize("basis", BASES.names())
def test_results_and_gradients_are_those_of_the_general_path(basis, scheme, kind):
    steps = {"rtol": 1e-2, "atol": 1e-2} if SCHEMES[scheme].is_adaptive else {"steps": 3}
    assert_agrees(block_of(kind, basis=basis, size=4, scheme=scheme, scale=2, **steps), numbers(7, 3))


ACTIVATIONS = {
    "relu": torch.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "gelu": nn.GELU(), "gelu-tanh": nn.GELU("tanh"),
    "silu": nn.SiLU(), "softplus": nn.Softplus(), "softplus-3": nn.Softplus(3.0), "sin": torch.sin,
    "leaky": nn.LeakyReLU(0.2), "in place": nn.ReLU(inplace=True), "cube": lambda x: x**3 / 4,
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_agree_also_far_out(name, dtype):
    block = block_of(lambda: Own(3, 6, ACTIVATIONS[name]), steps=2, scheme="midpoint").to(dtype)
    tolerance = 1e-12 if dtype == torch.float64 else 2e-5
    assert_agrees(block, numbers(40, 3, dtype=dtype), tolerance)
    if name == "cube":  # leaves the finite numbers there
        return
    far = torch.cat([torch.linspace(-60, 60, 30, dtype=dtype)] * 3).view(3, 30).T
    with torch.no_grad():
        found = block(far)
        with ad.fast_paths(False):
            torch.testing.assert_close(found, block(far), rtol=50 * tolerance, atol=50 * tolerance)


@pytest.mark.parametrize("shape", [(3,), (1, 3), (2, 3), (2, 4, 3), (0, 3), (131, 3)])
def test_any_number_of_axes(shape):
    block = block_of(basis="constant", size=2, steps=4)
    assert_agrees(block, numbers(*shape), path="native" if 0 not in shape else "general")


def test_inputs_that_are_not_contiguous_and_gradients_that_are_expanded():
    block = block_of(steps=2)
    x = numbers(3, 9).T.requires_grad_()
    block(x).sum().backward()
    found, x.grad = x.grad, None
    with ad.fast_paths(False):
        block(x).sum().backward()
    torch.testing.assert_close(found, x.grad)


def test_mixed_functions_and_frozen_parameters():
    block = block_of("mlp", weights={"*bias": ("linear", 2), "*": ("constant", 3)}, steps=6)
    block.unit.out.requires_grad_(False)
    assert_agrees(block, numbers(7, 3))
    block.requires_grad_(False)
    assert_agrees(block, numbers(7, 3))


def test_gradcheck_and_gradients_of_gradients():
    block = block_of(basis="linear", size=3, scheme="rk4", steps=2)
    names = [name for name, _ in block.named_parameters()]

    def run(x, *tensors):
        return torch.func.functional_call(block, dict(zip(names, tensors, strict=True)), (x,))

    x = numbers(2, 3).requires_grad_()
    assert torch.autograd.gradcheck(run, (x, *block.parameters()))
    assert torch.autograd.gradgradcheck(block, (x,))
    adaptive = block_of(scheme="bosh32", rtol=1e-2, atol=1e-2)
    assert torch.autograd.gradgradcheck(adaptive, (x,))
    jacobian = torch.autograd.functional.jacobian(block, x, vectorize=True)
    torch.testing.assert_close(jacobian, torch.autograd.functional.jacobian(block, x))


def test_hooks_are_called_and_transforms_work():
    block, calls = block_of(steps=3), []
    handle = block.unit.b.register_forward_hook(lambda *_: calls.append(1))
    block(numbers(4, 3))
    assert len(calls) == 12
    assert "watch" in block.stats.refused["native"]
    handle.remove()
    block(numbers(4, 3))
    assert block.stats.path == "native"
    assert torch.func.jacrev(lambda x: block(x[None])[0])(numbers(3)).shape == (3, 3)


def test_modes_that_watch_operations_see_them_and_blocks_can_be_pickled():
    block = block_of("mlp", steps=2)
    block(numbers(4, 3))
    with FlopCounterMode(display=False) as counter:
        block(numbers(4, 3))
    assert counter.get_total_flops() > 0
    again = pickle.loads(pickle.dumps(block))  # noqa: S301  # our own bytes
    torch.testing.assert_close(again(numbers(4, 3)), block(numbers(4, 3)))


def test_numbers_that_are_not_finite_pass_through():
    for act in (torch.relu, nn.Softplus(), nn.SiLU(), torch.tanh, torch.sigmoid, nn.GELU(), torch.sin):
        block = block_of(lambda act=act: Own(3, 4, act), steps=1, scheme="euler", check_finite=False)
        x = numbers(6, 3)
        x[1, 0], x[4, 2] = float("nan"), float("nan")
        found = block(x)
        with ad.fast_paths(False):
            torch.testing.assert_close(found, block(x), equal_nan=True)


def test_wrong_widths_and_precisions_are_reported_as_ever():
    block = block_of()
    with pytest.raises(UnitError, match="Own"):
        block(numbers(2, 4))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert block.float()(torch.randn(2, 3)).dtype == torch.float32
    with torch.no_grad():
        assert not block(torch.randn(2, 3)).requires_grad


def test_gradients_are_added_to_those_that_are_there():
    block = block_of(basis="linear", size=2, steps=3)
    found = {}
    for is_fast in (True, False):
        block.zero_grad()
        with ad.fast_paths(is_fast):
            for part in numbers(8, 3).split(3):
                block(part).square().sum().backward()
        found[is_fast] = [parameter.grad.clone() for parameter in block.parameters()]
    torch.testing.assert_close(found[True], found[False])


def test_modules_and_weights_used_twice():
    def shared_linear():
        linear = nn.Linear(3, 3)
        return nn.Sequential(linear, nn.Tanh(), linear)

    def tied():
        unit = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))
        unit[2].weight = unit[0].weight
        return unit

    for make in (shared_linear, tied):
        assert_agrees(block_of(make, basis="linear", size=3, steps=2), numbers(4, 3))


def test_nothing_is_kept_after_the_backward_pass():
    loss = block_of(steps=3)(numbers(4, 3)).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


# What is traced, and what is not


class Counting(Own):
    def forward(self, x):
        self.calls = getattr(self, "calls", 0) + 1
        return super().forward(x)


CALLS = []


class Listing(Own):
    def forward(self, x):
        CALLS.append(1)
        return super().forward(x)


class Tallying(Own):
    count = 0

    def forward(self, x):
        type(self).count += 1
        return super().forward(x)


class Branching(Own):
    def forward(self, x):
        return super().forward(x) if x.sum() > 0 else -super().forward(x)


class Noisy(Own):
    def forward(self, x):
        return super().forward(x + 0.1 * torch.rand(3, dtype=x.dtype))


class Softened(Own):
    def forward(self, x):
        return nn.functional.softmax(super().forward(x), -1)


class Mixing(Own):
    def forward(self, x):
        return super().forward(x) - x.mean(0)


class Halting(Own):
    def forward(self, x):
        with torch.no_grad():
            factor = self.a(x).sum(-1, keepdim=True) if x.dim() > 9 else torch.tanh(self.b(torch.relu(self.a(x))))
        return super().forward(x) * factor


class Detached(Own):
    def forward(self, x):
        return super().forward(x.detach())


@pytest.mark.parametrize("kind", [Halting, Detached, Counting, Listing, Tallying, Branching, Noisy, Softened, Mixing])
def test_units_that_do_more_take_the_general_path_with_a_reason(kind):
    block = block_of(kind, steps=2)
    block(numbers(4, 3))
    assert block.stats.path == "general"
    assert block.stats.refused["native"].startswith("the unit")
    if kind is Counting:
        assert block.unit.calls == block.stats.evaluations
    if kind is Tallying:
        assert kind.count == block.stats.evaluations
    if kind is Listing:
        assert len(CALLS) == block.stats.evaluations


def test_a_unit_that_changes_is_traced_again(monkeypatch):
    class Scaled(Own):
        def forward(self, x):
            return FACTOR * self.extra * super().forward(x)

    block = block_of(lambda: Scaled(act=torch.tanh), steps=2)
    block.unit.extra = 1.0
    x = numbers(4, 3)
    first = block(x)
    monkeypatch.setattr(sys.modules[__name__], "FACTOR", 0.0)
    torch.testing.assert_close(block(x), x)
    monkeypatch.undo()
    block.unit.extra = 0.0
    torch.testing.assert_close(block(x), x)
    block.unit.extra = 1.0
    torch.testing.assert_close(block(x), first)
    block.unit.act = torch.relu
    assert_agrees(block, x)
    monkeypatch.setattr(Scaled, "forward", lambda self, x: self.b(self.a(x)))
    assert_agrees(block, x)


SETTINGS = ModuleType("settings")


class Namespace:
    factor = 1.0


class Reading(Own):
    """Reads a number from one of the places that a unit's author may change later."""

    table, hidden, config = {"factor": 1.0}, (nn.Hardtanh(),), SimpleNamespace(factor=1.0)

    def __init__(self, where):
        super().__init__()
        self.where = where

    def forward(self, x, options={"factor": 1.0}, plain=1.0):  # noqa: B006
        if self.where == "import":
            from settings import factor
        elif self.where == "module":
            factor = SETTINGS.factor
        elif self.where == "class":
            factor = Namespace.factor
        elif self.where == "hidden":
            factor = self.hidden[0].max_val
        elif self.where == "default":
            factor = plain
        else:
            factor = {"table": self.table, "options": options, "config": vars(self.config)}[self.where]["factor"]
        return factor * super().forward(x)


CHANGES = {
    "import": lambda patch: patch.setattr(SETTINGS, "factor", 0.0),
    "module": lambda patch: patch.setattr(SETTINGS, "factor", 0.0),
    "class": lambda patch: patch.setattr(Namespace, "factor", 0.0),
    "hidden": lambda patch: patch.setattr(Reading.hidden[0], "max_val", 0.0),
    "default": lambda patch: patch.setattr(Reading.forward, "__defaults__", ({"factor": 1.0}, 0.0)),
    "table": lambda patch: patch.setitem(Reading.table, "factor", 0.0),
    "options": lambda patch: patch.setitem(Reading.forward.__defaults__[0], "factor", 0.0),
    "config": lambda patch: patch.setattr(Reading.config, "factor", 0.0),
}


@pytest.mark.parametrize("where", CHANGES)
def test_a_number_that_changes_outside_of_the_unit_is_seen(where, monkeypatch):
    monkeypatch.setattr(SETTINGS, "factor", 1.0, raising=False)
    monkeypatch.setitem(sys.modules, "settings", SETTINGS)
    block, x = block_of(lambda: Reading(where), steps=2), numbers(4, 3)
    assert not torch.equal(block(x), x)
    assert block.stats.path == "native"
    CHANGES[where](monkeypatch)
    assert torch.equal(block(x), x)


class Drawing(Own):
    draw = staticmethod(random.random)

    def forward(self, x):
        return {"module": random.random, "numpy": np.random.rand, "bound": self.draw}[self.kind]() * super().forward(x)


@pytest.mark.parametrize("kind", ["module", "numpy", "bound"])
def test_numbers_that_python_draws_are_drawn_in_every_evaluation(kind):
    block, x, found = block_of(type(kind, (Drawing,), {"kind": kind}), steps=2), numbers(4, 3), []
    for is_fast in (True, False):
        random.seed(0)
        np.random.seed(0)
        with ad.fast_paths(is_fast):
            found.append(block(x))
    assert torch.equal(*found)


class Telling(Own):
    def forward(self, x):
        print(x.shape)  # noqa: T201
        return super().forward(x)


class Counter:
    calls = 0

    def count(self):
        self.calls += 1


class CountingOutside(Own):
    counter = Counter()

    def forward(self, x):
        self.counter.count()
        return super().forward(x)


def test_what_a_unit_does_to_the_world_happens_in_every_evaluation(capsys):
    for kind in (Telling, CountingOutside):
        block = block_of(kind, steps=2)
        block(numbers(4, 3))
        block(numbers(4, 3))
    assert capsys.readouterr().out.count("torch.Size") == 16
    assert CountingOutside.counter.calls == 16


def test_inference_mode_and_the_default_precision_are_seen():
    class Asking(Own):
        def forward(self, x):
            factor = 2.0 if torch.is_inference_mode_enabled() or torch.get_default_dtype() == torch.float64 else 1.0
            return factor * super().forward(x)

    block, x = block_of(Asking, steps=2), numbers(4, 3)
    with torch.no_grad():
        plain = block(x)
    with torch.inference_mode():
        doubled = block(x)
    assert not torch.equal(plain, doubled)
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.equal(block(x), doubled)
    finally:
        torch.set_default_dtype(torch.float32)
    assert block.stats.path == "native"


def test_a_block_that_nobody_holds_is_gone_and_little_is_kept_of_one_that_changes():
    block = block_of(steps=2)
    block(numbers(4, 3))
    unit = weakref.ref(block.unit)
    del block
    gc.collect()
    assert unit() is None

    class Scheduled(Own):
        factor = 1.0

        def forward(self, x):
            return self.factor * super().forward(x)

    block = block_of(Scheduled, steps=2)
    for i in range(100):
        block.unit.factor = float(i)
        block(numbers(1, 3))
    assert len(block.plan.kept["native"]) <= 64


def test_a_unit_that_asks_whether_x_is_a_tensor_gets_the_right_answer():
    class Asking(Own):
        def forward(self, x):
            return super().forward(x) if torch.is_tensor(x) and isinstance(x, torch.Tensor) else x

    assert_agrees(block_of(Asking, steps=2), numbers(4, 3))


def test_a_skip_connection_gets_its_warning():
    class Skip(Own):
        def forward(self, x):
            return x + super().forward(x)

    block = block_of(Skip, steps=2)
    with pytest.warns(AnydepthWarning, match="adds its input back"):
        block(numbers(4, 3).requires_grad_())


# Threads, processes, and what is missing


def test_no_bit_depends_on_the_number_of_threads(monkeypatch):
    monkeypatch.setattr("anydepth.fast.native.bound.SHARE", 1)
    block, x, before, found = (
        block_of("mlp", basis="linear", size=3, steps=5),
        numbers(300, 3),
        torch.get_num_threads(),
        [],
    )
    try:
        for threads in (1, 2, 3, 7):
            torch.set_num_threads(threads)
            found.append(results(block, x))
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        assert all(torch.equal(value, other[key]) for key, value in found[0].items())


@pytest.mark.parametrize("scheme", ["euler", "rk4"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_worked_out_again_backward_is_the_same_to_the_bit(scheme, dtype, monkeypatch):
    block, x = block_of("own", basis="linear", size=3, steps=5, scheme=scheme).to(dtype), numbers(71, 3).to(dtype)
    kept = results(block, x)
    monkeypatch.setattr("anydepth.fast.native.bound.MOST_RECORDS", 0)
    again = results(block, x)
    assert block.stats.path == "native"
    assert all(torch.equal(value, again[key]) for key, value in kept.items())


def test_several_threads_of_a_program_at_once(monkeypatch):
    monkeypatch.setattr("anydepth.fast.native.bound.SHARE", 1)
    blocks = [block_of(lambda width=width: Own(3, width), steps=5) for width in (4, 9, 17, 33)]
    x, before = numbers(200, 3), torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        expected = [results(block, x) for block in blocks]
        with ThreadPoolExecutor(4) as threads:
            for _ in range(5):
                for found, right in zip(threads.map(results, blocks, [x] * 4), expected, strict=True):
                    assert all(torch.equal(found[key], value) for key, value in right.items())
    finally:
        torch.set_num_threads(before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork")
def test_a_forked_process_goes_on(monkeypatch):
    monkeypatch.setattr("anydepth.fast.native.bound.SHARE", 1)
    block, x = block_of(steps=5), numbers(300, 3)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        expected = block(x)
        child = os.fork()
        if child == 0:
            os._exit(0 if torch.equal(block(x), expected) else 1)
        assert os.waitpid(child, 0)[1] == 0
    finally:
        torch.set_num_threads(before)


def test_without_numba_all_goes_the_general_path(monkeypatch):
    monkeypatch.setattr("anydepth.fast.chains._has_numba", lambda: False)
    block = block_of()
    block(numbers(2, 3))
    assert block.stats.path == "general"
    assert "anydepth[fast]" in block.stats.refused["native"]


def test_a_compilation_is_announced_in_one_line(monkeypatch, capsys):
    from anydepth.fast import announcing
    from anydepth.fast.native import solve_native

    monkeypatch.setattr(announcing, "_ANNOUNCED", set())
    monkeypatch.setattr(solve_native, "_kernel", cache(solve_native._kernel.__wrapped__))
    callback = solve_native.jit.callback
    monkeypatch.setattr(solve_native.jit, "callback", lambda function: (callback(function)[0], False))
    block = block_of(steps=2)
    for _ in range(2):
        block(numbers(2, 3)).sum().backward()
    assert capsys.readouterr().err.count("compiling the kernels for small fields in float64") == 1


def test_kernels_are_kept_where_they_can_be(monkeypatch, tmp_path):
    from anydepth.fast.native import jit

    def double(x):
        return x + x

    monkeypatch.setattr(jit.config, "CACHE_DIR", "")
    monkeypatch.setattr(jit, "folder", lambda: tmp_path / "kept")
    assert jit.kept(double)(2) == 4
    assert list((tmp_path / "kept").rglob("*.nbi"))
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(jit, "folder", lambda: tmp_path / "file" / "kept")
    assert jit.kept(double)(2) == 4


@pytest.mark.filterwarnings("ignore")
def test_a_sample_of_the_fuzzer():
    place = Path(__file__).parents[2] / "benchmarks" / "fuzz_native.py"
    spec = importlib.util.spec_from_file_location("fuzz_native", place)
    fuzz = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = fuzz
    spec.loader.exec_module(fuzz)
    for seed in range(20):
        case = fuzz.Case(seed)
        assert case.gap()[0] <= 1 or case.is_rounding(), case.what
