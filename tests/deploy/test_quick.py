"""Frozen networks of small fields answer by the native path in the process that froze them, and are plain elsewhere."""

import pickle
from copy import deepcopy

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import anydepth as ad

pytest.importorskip("numba")


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 7), nn.Linear(7, 3)

    def forward(self, x):
        return self.b(torch.tanh(self.a(x)))


def net(**options):
    torch.manual_seed(0)
    block = ad.ContinuousBlock(Own, "linear", 3, scheme="euler", steps=4, **options)
    return nn.Sequential(nn.Linear(5, 3), block, nn.ReLU(), nn.Linear(3, 2)).eval()


def twin_of(frozen):
    cells = type(frozen).forward.__closure__
    return next(cell.cell_contents for cell in cells if hasattr(cell.cell_contents, "fields"))


def calls_of_twin(frozen, x, monkeypatch):
    """The answer, and how often the twin was asked."""
    twin, asked = twin_of(frozen), []
    other = twin.other
    monkeypatch.setattr(twin, "other", lambda *inputs: asked.append(1) or other(*inputs))
    with torch.no_grad():
        return frozen(x), len(asked)


def test_the_answer_is_the_native_one(monkeypatch):
    model, x = net(), torch.randn(6, 5)
    frozen = ad.freeze(model)
    found, asked = calls_of_twin(frozen, x, monkeypatch)
    with torch.no_grad():
        torch.testing.assert_close(found, model(x), rtol=0, atol=0)
    assert asked == 1


def test_the_graph_is_plain(monkeypatch):
    frozen = ad.freeze(net())
    assert not any(isinstance(module, ad.ContinuousBlock) for module in frozen.modules())
    x = torch.randn(6, 5)
    found, _ = calls_of_twin(frozen, x, monkeypatch)
    for other in (deepcopy(frozen), pickle.loads(pickle.dumps(frozen))):  # noqa: S301
        assert "anydepth" not in other.code
        assert other.__class__.forward.__closure__ is None
        with torch.no_grad():
            torch.testing.assert_close(other(x), found, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("how", ["written", "moved", "replaced", "loaded"])
def test_what_somebody_changes_is_seen(how, monkeypatch):
    frozen, x = ad.freeze(net()), torch.randn(6, 5)
    name, weight = next((n, p) for n, p in frozen.named_parameters() if p.dim() == 2)
    before = calls_of_twin(frozen, x, monkeypatch)[0]
    if how == "written":
        with torch.no_grad():
            weight.mul_(2)
    elif how == "moved":
        weight.data = 2 * weight.data
    elif how == "replaced":
        setattr(
            frozen.get_submodule(name.rpartition(".")[0]), name.rpartition(".")[2], nn.Parameter(2 * weight.detach())
        )
    else:
        frozen.load_state_dict({n: 2 * t if n == name else t for n, t in frozen.state_dict().items()})
    found, asked = calls_of_twin(frozen, x, monkeypatch)
    assert asked == 0
    assert not torch.allclose(found, before)


def test_other_precisions_and_watchers_get_the_graph(monkeypatch):
    frozen, x = ad.freeze(net()), torch.randn(6, 5)
    with FlopCounterMode(display=False) as counter:
        assert calls_of_twin(frozen, x, monkeypatch)[1] == 0
    assert counter.get_total_flops() > 0
    monkeypatch.undo()
    double = frozen.double()
    assert double(x.double()).dtype is torch.float64


def test_without_the_native_path_the_graph_answers(monkeypatch):
    frozen, x = ad.freeze(net()), torch.randn(6, 5)
    with ad.fast_paths(False):
        calls_of_twin(frozen, x, monkeypatch)
        monkeypatch.undo()
        assert calls_of_twin(frozen, x, monkeypatch)[1] == 0


def test_it_is_traced_and_exported_as_plain_layers():
    frozen, x = ad.freeze(net()), torch.randn(6, 5)
    program = torch.export.export(frozen, (x,))
    with torch.no_grad():
        torch.testing.assert_close(program.module()(x), frozen(x), rtol=1e-5, atol=1e-6)


def test_images_have_no_twin():
    block = ad.ContinuousBlock(lambda: ad.units.PreactConv(4), "constant", 2, scheme="euler", steps=2)
    assert type(ad.freeze(block)).forward.__closure__ is None
