"""Several processes train what one process trains."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from datetime import timedelta

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from anydepth.data.order import Draw, batches
from anydepth.errors import ConfigError, RankLostError
from anydepth.train.ranks import Ranks, connected
from anydepth.train.training import train
from crashing import remains, start, wait_for_step, words_of
from processes import ranks
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
    for process in ranks(folder.with_suffix(".told"), processes, *words_of(folder, settings)):
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
    return folder


@pytest.mark.parametrize(
    ("settings", "tolerance"),
    [
        pytest.param(("training.precision=float64", "training.epochs=7"), 1e-9, marks=pytest.mark.slow),
        pytest.param(
            ('training={"steps": 5, "batch": 16}',),
            1e-5,
            marks=pytest.mark.slow,
        ),
        pytest.param(
            ("training.precision=float64", "model.options.size=4", "training.any_depth={}"),
            1e-9,
            marks=pytest.mark.slow,
        ),
        pytest.param(
            ("training.precision=float64", "model.options.scheme=rk4", "model.gradient=checkpoint"),
            1e-9,
            marks=pytest.mark.slow,
        ),
    ],
    ids=["float64, 21 steps", "float32, 5 steps", "any depth", "checkpoint"],
)
def test_two_ranks_train_what_one_trains(settings, tolerance, tmp_path):
    """Without a kill; `make test` has the one below."""
    config = tiny(*GROWN, *settings)
    train(config, tmp_path / "one")
    run_on(tmp_path / "two", config, 2)
    assert_same_training(tmp_path / "one", tmp_path / "two", tolerance)


def assert_same_training(one, two, tolerance):
    """The same weights, events and test loss, but for rounding."""
    assert difference(one, two) <= tolerance
    lines, others = (remains(folder)[2] for folder in (one, two))
    assert [line["kind"] for line in lines] == [line["kind"] for line in others]
    assert lines[-1]["test_loss"] == pytest.approx(others[-1]["test_loss"], rel=max(tolerance, 1e-6))


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
def test_a_killed_rank_ends_the_run_and_two_ranks_resume_what_one_trains(is_exact, tmp_path):
    """Killed under torchrun, which ends the other rank; resumed without."""
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
    assert_same_training(tmp_path / "run", tmp_path / "one", 1e-9)
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


@pytest.fixture
def deaf():
    """A port where connections are made, and cut at once, as by a first rank that dies while the others connect."""
    with socket.socket() as listening:
        listening.bind(("localhost", 0))
        listening.listen()

        def cut():
            with suppress(OSError):
                while True:
                    listening.accept()[0].close()

        threading.Thread(target=cut, daemon=True).start()
        yield str(listening.getsockname()[1])
        listening.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({}, RankLostError, "could not meet the other ranks"),
        ({"RANK": "0"}, RankLostError, "(?i)address already in use"),
        ({"RANK": "x"}, ConfigError, "RANK is 'x'"),
        ({"RANK": "2"}, ConfigError, "RANK is '2'"),
        ({"RANK": None}, ConfigError, "RANK is not set"),
        ({"WORLD_SIZE": "two"}, ConfigError, "WORLD_SIZE is 'two'"),
        ({"WORLD_SIZE": "-1"}, ConfigError, "WORLD_SIZE is '-1'"),
        ({"MASTER_PORT": "none"}, ConfigError, "MASTER_PORT is 'none'"),
        ({"MASTER_ADDR": None}, ConfigError, "MASTER_ADDR is not set"),
    ],
)
def test_ranks_that_cannot_meet_say_so(given, error, said, deaf, monkeypatch):
    told = {"MASTER_ADDR": "localhost", "MASTER_PORT": deaf, "WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1"} | given
    for name, value in told.items():
        monkeypatch.delenv(name, raising=False) if value is None else monkeypatch.setenv(name, value)
    monkeypatch.setattr("anydepth.train.ranks._PATIENCE", timedelta(seconds=1))
    with pytest.raises(error, match=said), connected(torch.device("cpu")):
        pass


def test_what_does_not_work_over_ranks_is_refused():
    with pytest.raises(ConfigError, match="too few for 32 ranks"):
        Ranks(0, 32).check(tiny(), 16)
    for mode in ("adjoint", "kkt"):
        with pytest.raises(ConfigError, match=f"{mode}.*several ranks; use 'checkpoint'"):
            Ranks(0, 2).check(tiny(f"model.gradient={mode}"), 16)
        Ranks(0, 1).check(tiny(f"model.gradient={mode}"), 16)


LOST = """
import os, signal, sys
from anydepth.cli.main import main
from anydepth.zoo import synced
if os.environ["RANK"] == "1":
    add_up, left = synced.add_up, [{after}]
    def die(x):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return add_up(x)
    synced.add_up = die
main(sys.argv[1:])
"""


@pytest.mark.parametrize("after", [30, *(pytest.param(n, marks=pytest.mark.slow) for n in (3, 31, 32, 33, 40))])
def test_a_rank_lost_inside_a_synced_norm_is_told_as_that(after, tmp_path):
    """In forward or in backward: exit 6, never an error about shapes."""
    config = tiny("training.epochs=40")
    (tmp_path / "config.json").write_text(json.dumps(config.plain()))
    words = ["train", str(tmp_path / "config.json"), "--out", str(tmp_path / "run")]
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    program = [sys.executable, "-c", LOST.format(after=after), *words]
    both = [
        subprocess.Popen(program, env=os.environ | shared | {"RANK": rank}, text=True, **pipes) for rank in ("0", "1")
    ]
    (_, err), _ = (process.communicate(timeout=300) for process in both)
    assert both[1].returncode == -signal.SIGKILL
    assert both[0].returncode == 6, err
    assert "another rank was lost" in err
    assert "Traceback" not in err


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]
