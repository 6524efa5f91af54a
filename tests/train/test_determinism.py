"""What is equal to the bit, and what to which tolerance: the table of docs/reliability.md."""

import pytest
import torch
from safetensors.torch import load_file

import anydepth as ad
from anydepth.train.training import train
from crashing import remains
from small_runs import tiny

GROWN = ('refine={"at": [2], "unit": "step"}', "model.options.basis=linear", "data.crop=1", "training.epochs=2")
"""Six steps with a refinement and random crops."""
DOUBLE = ("training.precision=float64",)


def weights(folder):
    return load_file(folder / "model.safetensors")


def difference(one, two):
    """Largest difference of any tensor, relative to its largest value or 0.01."""
    a, b = weights(one), weights(two)
    assert a.keys() == b.keys()
    return max(float((a[n] - b[n]).abs().max() / a[n].abs().max().clamp_min(1e-2)) for n in a)


@pytest.fixture(scope="module")
def one_thread(tmp_path_factory):
    """The run that others are compared with: one thread, faster paths allowed, in float64."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("determinism") / "run"
    train(tiny(*GROWN, *DOUBLE), folder)
    return folder


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_the_same_seed_twice_is_the_same_bits(optimizer, tmp_path):
    config = tiny(*GROWN, f"optimizer.name={optimizer}", "optimizer.lr=0.01", "training.ema=0.5")
    for name in ("a", "b"):
        train(config, tmp_path / name)
    assert remains(tmp_path / "a") == remains(tmp_path / "b")
    train(config.model_copy(update={"seed": 1}), tmp_path / "c")
    assert remains(tmp_path / "c")[0] != remains(tmp_path / "a")[0]


def test_two_threads_twice_are_the_same_bits_and_one_thread_up_to_rounding(one_thread, tmp_path):
    config = tiny(*GROWN, *DOUBLE, "threads=2")
    for name in ("a", "b"):
        train(config, tmp_path / name)
    assert remains(tmp_path / "a") == remains(tmp_path / "b")
    assert difference(tmp_path / "a", one_thread) <= 1e-9


def test_without_faster_paths_it_is_the_same_up_to_rounding(one_thread, tmp_path):
    with ad.fast_paths(False):
        for name in ("a", "b"):
            train(tiny(*GROWN, *DOUBLE), tmp_path / name)
    assert remains(tmp_path / "a") == remains(tmp_path / "b")
    assert difference(tmp_path / "a", one_thread) <= 1e-9


def test_rounding_in_the_first_step_stays_rounding(one_thread, tmp_path, monkeypatch):
    """Weights moved by 1e-12 in the beginning: why the tolerances above are what can be promised."""
    from anydepth.train import training as loop

    prepare = loop.prepare

    def moved(*given):
        prepared = prepare(*given)
        with torch.no_grad():
            for parameter in prepared.model.parameters():
                parameter.mul_(1 + 1e-12 * torch.randn_like(parameter))
        return prepared

    monkeypatch.setattr(loop, "prepare", moved)
    train(tiny(*GROWN, *DOUBLE), tmp_path / "run")
    assert 0 < difference(tmp_path / "run", one_thread) <= 1e-9


def test_evaluating_changes_nothing_and_is_the_same_bits_in_any_batch(one_thread):
    """One example alone, and among others: the norms of evaluation look at nobody else."""
    model = ad.load(one_thread).eval()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    x = torch.randn(8, 1, 8, 8, dtype=torch.float64)
    with torch.no_grad():
        together, again = model(x), model(x)
        alone = torch.cat([model(row[None]) for row in x])
    assert torch.equal(together, again)
    torch.testing.assert_close(alone, together, rtol=1e-12, atol=1e-12)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


@pytest.mark.slow
def test_compiled_is_the_same_up_to_rounding(one_thread):
    model = ad.load(one_thread).eval()
    x = torch.randn(8, 1, 8, 8, dtype=torch.float64)
    compiled = torch.compile(model, backend="aot_eager")
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-12, atol=1e-12)
        assert torch.equal(compiled(x), compiled(x))
