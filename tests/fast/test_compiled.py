"""ad.compile: one compiled step for every depth, with the results and gradients of the general path."""

import gc
import threading
import warnings
import weakref
from typing import Any

import pytest
import torch
from functorch.compile import make_boxed_func
from torch import Tensor, nn

import anydepth as ad
from anydepth.errors import AnydepthWarning
from anydepth.fast import stage_graphs
from anydepth.fast.stage_graphs import COMPILATIONS


class Normed(nn.Module):
    """A unit that the native kernels do not know."""

    def __init__(self, width: int = 4):
        super().__init__()
        self.norm, self.first, self.second = nn.GroupNorm(1, width), nn.Linear(width, 6), nn.Linear(6, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.nn.functional.gelu(self.first(self.norm(x))))


class Gated(Normed):
    def forward(self, t: Tensor, x: Tensor, gate: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        return super().forward(x) * torch.sigmoid(gate) * torch.cos(t)


def _as_traced(graph, _inputs, _is_back):
    """The traced graph itself: one test calls the compiler, which takes seconds, the others need not."""
    return make_boxed_func(graph.forward)


@pytest.fixture(autouse=True)
def _setting(monkeypatch, request):
    if "compiler" not in request.fixturenames:
        monkeypatch.setattr(stage_graphs, "_inductor", _as_traced)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def compiler() -> None:
    """For tests with Inductor itself."""


def _block(kind: Any = Normed, **options: Any) -> Any:
    torch.manual_seed(0)
    return ad.compile(ad.ContinuousBlock(kind, **options).double())


def _found(block: nn.Module, x: Tensor, *args: Tensor) -> list[Tensor]:
    block.zero_grad()
    x = x.detach().requires_grad_()
    out = block(x, *args)
    out.square().sum().backward()
    return [out.detach(), x.grad, *[p.grad for p in block.parameters()]]  # pyright: ignore[reportReturnType]


def _agrees(block: ad.ContinuousBlock, x: Tensor, *args: Tensor) -> None:
    found = _found(block, x, *args)
    assert block.stats.path == "compiled", block.stats.refused
    with ad.fast_paths(False):
        expected = _found(block, x, *args)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


def _x() -> Tensor:
    return torch.randn(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def test_one_compilation_serves_schemes_steps_sizes_refinements_and_gradient_modes():
    block, x = _block(basis="linear", size=3, scheme="euler", steps=3), _x()
    _agrees(block, x)
    before = COMPILATIONS[0]
    for scheme in ("rk4", "midpoint", "rk4_38"):
        ad.set_solver(block, scheme=scheme, steps=2)
        _agrees(block, x)
    ad.refine(block)
    _agrees(block, x)
    for segment in (1, 3):
        ad.set_gradient(block, "checkpoint", segment=segment)
        _agrees(block, x)
    assert COMPILATIONS[0] == before


def test_the_compiler_itself(compiler):
    block = _block(size=2, scheme="rk4", steps=2)
    _agrees(block, _x())
    with torch.no_grad():
        block(_x())
    assert block.stats.path == "compiled"


def test_answers_are_compiled_too_and_in_evaluation():
    block, x = _block(size=2, steps=2).eval(), _x()
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            found = block(x)
            assert block.stats.path == "compiled"
            with ad.fast_paths(False):
                torch.testing.assert_close(found, block(x), rtol=1e-10, atol=1e-12)


def test_time_arguments_frozen_weights_and_gradients_of_gradients():
    block, x = _block(Gated, size=2, steps=2, time=True), _x()
    gate = torch.randn(4, dtype=torch.float64, requires_grad=True)
    _agrees(block, x, gate)
    assert gate.grad is not None
    block.get_parameter("unit.first.weight").requires_grad_(False)
    x.requires_grad_()
    values = []
    for is_fast in (True, False):
        with ad.fast_paths(is_fast):
            wanted = [x, gate, *[p for p in block.parameters() if p.requires_grad]]
            first = torch.autograd.grad(block(x, gate).square().sum(), wanted, create_graph=True)
            total = torch.stack([g.square().sum() for g in first]).sum()
            values.append(torch.autograd.grad(total, wanted))
    for a, b in zip(*values, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-10)


def test_a_gradient_that_is_shared_by_two_weights_is_not_added_twice():
    class Twins(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Parameter(torch.randn(4)), nn.Parameter(torch.randn(4))
            self.norm = nn.GroupNorm(1, 4)

        def forward(self, x: Tensor) -> Tensor:
            return torch.nn.functional.gelu(self.norm(x)) + self.a + self.b

    _agrees(_block(Twins, steps=4), _x())


def test_a_changed_unit_is_compiled_anew():
    block, x = _block(steps=2), _x()
    _agrees(block, x)
    block.unit.norm.eps = 0.5
    _agrees(block, x)


first = object()
"""Has the name of an attribute of the unit, and nothing to do with it."""


class Draws(Normed):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(torch.nn.functional.dropout(x))


class Branches(Normed):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) if x.sum() > 0 else x * 2


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x)


@pytest.mark.parametrize("kind", [Draws, Branches, Counts])
def test_what_cannot_be_compiled_runs_as_before_with_one_line(kind):
    block = _block(kind, steps=2)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(3):
            block(_x())
    lines = [str(one.message) for one in told if issubclass(one.category, AnydepthWarning)]
    assert block.stats.path == "general"
    assert len(lines) == 1
    assert "runs without the compiler" in lines[0]
    assert "\n" not in lines[0]


def test_without_a_compiler_it_runs_as_before(monkeypatch):
    def missing(*_args, **_kwargs):
        raise RuntimeError("no working C++ compiler found")

    monkeypatch.setattr(stage_graphs, "_compiled", missing)
    block = _block(steps=2)
    with pytest.warns(AnydepthWarning, match="no working C"):
        block(_x())
    assert block.stats.path == "general"


def test_autocast_and_the_switch_lead_back():
    block: Any = ad.compile(ad.ContinuousBlock(Normed, steps=2))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        block(torch.randn(3, 4))
    assert block.stats.path == "general"
    ad.compile(block, enabled=False)
    block(torch.randn(3, 4))
    assert block.stats.path == "general"
    assert "was not called" in block.explain(torch.randn(3, 4))


def test_a_compiled_block_that_nobody_holds_is_gone():
    block = _block(steps=2)
    _found(block, _x())
    unit = weakref.ref(block.unit)
    del block
    gc.collect()
    assert unit() is None


def test_threads_share_a_compilation():
    block, x = _block(basis="linear", size=2, steps=2), _x()
    expected, before, found = _found(block, x), COMPILATIONS[0], []

    def work() -> None:
        torch.set_num_threads(1)
        found.append(torch.autograd.grad(block(x).square().sum(), list(block.parameters())))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert COMPILATIONS[0] == before
    for each in found:
        for a, b in zip(each, expected[2:], strict=True):
            torch.testing.assert_close(a, b)
