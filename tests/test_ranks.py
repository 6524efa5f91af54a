"""Several processes train what one process trains."""

import os
import re
import signal
import subprocess

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from anydepth.data.order import Draw, batches
from anydepth.errors import ConfigError
from anydepth.train.ranks import Ranks
from anydepth.train.training import train
from crashing import remains, start, wait_for_step
from small_runs import tiny

GROWN = ('refine={"at": [2], "unit": "step"}', "model.options.basis=linear", "data.crop=1")


def difference(one, two):
    """Largest difference of any tensor, relative to its largest value.

    A bias before a batch norm has a zero gradient but for rounding, so values below 0.01 count as 0.01.
    """
    a, b = (load_file(folder / "model.safetensors") for folder in (one, two))
    assert a.keys() == b.keys()
    return max(
        float((a[n].double() - b[n].double()).abs().max() / a[n].double().abs().max().clamp_min(1e-2)) for n in a
    )


def run_on(folder, settings, processes):
    process = start(folder, settings, processes=processes)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return folder


@pytest.mark.parametrize(
    ("settings", "tolerance"),
    [
        (("training.precision=float64", "training.epochs=7"), 1e-9),
        pytest.param(
            ('training={"steps": 5, "batch": 16}',),
            1e-5,
            marks=pytest.mark.slow,
        ),
        pytest.param(
            ("training.precision=float64", "model.options.scheme=rk4", "model.gradient=checkpoint"),
            1e-9,
            marks=pytest.mark.slow,
        ),
    ],
    ids=["float64, 21 steps", "float32, 5 steps", "checkpoint"],
)
def test_two_ranks_train_what_one_trains(settings, tolerance, tmp_path):
    config = tiny(*GROWN, *settings)
    train(config, tmp_path / "one")
    run_on(tmp_path / "two", config, 2)
    assert difference(tmp_path / "one", tmp_path / "two") <= tolerance
    one, two = (remains(tmp_path / name)[2] for name in ("one", "two"))
    assert [line["kind"] for line in one] == [line["kind"] for line in two]
    assert one[-1]["test_loss"] == pytest.approx(two[-1]["test_loss"], rel=max(tolerance, 1e-6))


@pytest.mark.slow
def test_two_ranks_take_the_same_adaptive_steps(tmp_path):
    flow = '{"scheme": "bosh32", "rtol": 1e-3, "atol": 1e-4}'
    config = tiny(
        "data.name=spheres", "data.limit=64", "model.name=flow", f"model.options={flow}", "training.precision=float64"
    )
    train(config, tmp_path / "one")
    run_on(tmp_path / "two", config, 2)
    assert difference(tmp_path / "one", tmp_path / "two") <= 1e-9
    one, two = (remains(tmp_path / name)[2] for name in ("one", "two"))
    assert [line.get("nfe") for line in one if line["kind"] == "epoch"] == [
        line.get("nfe") for line in two if line["kind"] == "epoch"
    ]


@pytest.mark.parametrize("is_exact", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_killed_rank_ends_the_run_and_it_resumes(is_exact, tmp_path):
    config = tiny(*GROWN, "training.epochs=8", "checkpoint_minutes=0", "training.precision=float64")
    train(config, tmp_path / "one")
    process = start(tmp_path / "run", config, processes=2)
    assert wait_for_step(tmp_path / "run", 3, process)
    workers = re.findall(
        r"\d+", subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout
    )
    os.kill(int(workers[-1]), signal.SIGKILL)
    process.communicate(timeout=60)  # the other rank does not wait for it
    assert process.returncode != 0
    run_on(tmp_path / "run", config, 2)
    assert difference(tmp_path / "run", tmp_path / "one") <= 1e-9
    if is_exact:
        run_on(tmp_path / "whole", config, 2)
        assert remains(tmp_path / "run") == remains(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 3])
def test_a_run_goes_on_with_another_number_of_ranks(processes, tmp_path):
    config = tiny(
        *GROWN, "training.epochs=40", "checkpoint_minutes=0", "training.precision=float64", "training.batch=12"
    )
    train(config, tmp_path / "whole")
    process = start(tmp_path / "run", config, processes=2)
    assert wait_for_step(tmp_path / "run", 5, process)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    run_on(tmp_path / "run", config, processes)
    assert difference(tmp_path / "run", tmp_path / "whole") < 1e-6


@pytest.mark.parametrize("world", [1, 2, 3, 4, 7])
def test_the_ranks_share_every_batch_in_its_order(world):
    for batch in batches(Draw(3, 1), 100, 16):
        parts = [Ranks(rank, world).share(batch) for rank in range(world)]
        assert np.array_equal(np.concatenate(parts), batch)
        assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_unequal_shares_are_weighed():
    losses, counts = torch.tensor([2.0, 5.0]), [3, 1]
    weighed = [float(loss) * Ranks(0, 2).weight(count, 4) for loss, count in zip(losses, counts, strict=True)]
    assert np.mean(weighed) == pytest.approx((2.0 * 3 + 5.0) / 4)


def test_what_does_not_work_over_ranks_is_refused():
    with pytest.raises(ConfigError, match="too few for 32 ranks"):
        Ranks(0, 32).check(tiny(), 16)
    with pytest.raises(ConfigError, match="adjoint"):
        Ranks(0, 2).check(tiny("model.gradient=adjoint"), 16)
