"""Killed and resumed equals uninterrupted, to the bit; a full or broken disk loses nothing."""

import errno
import hashlib
import json
import os
import random
import shutil
import signal
import time
from itertools import product

import pytest
import torch

from anydepth import artifact
from anydepth.errors import (
    AnydepthWarning,
    ConfigError,
    DataError,
    FolderInUseError,
    ModelFileError,
    StorageError,
)
from anydepth.runs.checkpoint_files import manifests, read_checkpoint, write_checkpoint
from anydepth.runs.folder import open_run
from anydepth.runs.lock import locked
from anydepth.train.training import train
from cases import slow_but
from crashing import POINTS, config, kill_after, orphans, remains, start, train_and_crash, wait_for_step


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The run that nothing interrupts."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    train(config(), folder)
    return remains(folder)


OFTEN = [pytest.param(times, marks=pytest.mark.soak) for times in range(1, 40) if times not in (1, 4)]


@pytest.mark.parametrize("times", [1, 4, *OFTEN])
@pytest.mark.parametrize("point", POINTS)
def test_a_crash_at_a_named_point_changes_nothing(point, times, whole, tmp_path):
    was_reached = train_and_crash(tmp_path / "run", config(), point, times)
    assert was_reached or times > 1 or point == "voucher staged"
    train(config(), tmp_path / "run", resume=True)
    assert remains(tmp_path / "run") == whole
    assert orphans(tmp_path / "run") == []


@pytest.mark.parametrize("tries", [12, pytest.param(400, marks=pytest.mark.soak)])
def test_crashes_one_after_the_other_change_nothing(tries, whole, tmp_path):
    generator, crashes = random.Random(0), 0
    for _ in range(tries):
        crashes += train_and_crash(tmp_path / "run", config(), generator.choice(POINTS[:6]), generator.randint(1, 2))
    train(config(), tmp_path / "run", resume=True)
    assert crashes >= 3
    assert remains(tmp_path / "run") == whole


@pytest.fixture(scope="module")
def whole_process(tmp_path_factory):
    """The run that nothing interrupts, in a process like those that are killed."""
    folder = tmp_path_factory.mktemp("whole") / "process"
    process = start(folder, config("training.epochs=12"))
    assert process.communicate()[1] is not None
    assert process.returncode == 0
    return remains(folder)


@pytest.mark.parametrize("kills", [2, pytest.param(200, marks=pytest.mark.soak)])
def test_killed_processes_resume_to_the_same_bits(kills, whole_process, tmp_path):
    """Real SIGKILLs, at random moments of the training and twice within one epoch."""
    folder, settings, generator = tmp_path / "run", config("training.epochs=12"), random.Random(1)
    for number in range(kills):
        process = start(folder, settings)
        if wait_for_step(folder, 1 if number == 0 else 2, process):
            kill_after(process, generator.uniform(0, 0.5))
        process.communicate()
    process = start(folder, settings)
    _, err = process.communicate()
    assert process.returncode == 0, err
    assert remains(folder) == whole_process
    assert orphans(folder) == []


KILLED_AT = """
import os, signal, sys
from anydepth import artifact
from anydepth.cli.main import main
left = [{times}]
def watcher(point):
    if point == {point!r}:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
artifact.watchers.append(watcher)
main(sys.argv[1:])
"""


@pytest.mark.soak  # the same points are tried in one process above
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("point", POINTS)
def test_a_process_killed_at_a_named_point_resumes_to_the_same_bits(point, times, whole_process, tmp_path):
    folder, settings = tmp_path / "run", config("training.epochs=12")
    killed = start(folder, settings, code=KILLED_AT.format(point=point, times=times))
    killed.communicate()
    assert killed.returncode in (-signal.SIGKILL, 0)
    process = start(folder, settings)
    _, err = process.communicate()
    assert process.returncode == 0, err
    assert remains(folder) == whole_process
    assert orphans(folder) == []


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)]
)
def test_a_signal_finishes_the_step_saves_and_exits(number, code, tmp_path):
    folder, settings = tmp_path / "run", config("training.epochs=400", "checkpoint_minutes=60", "refine.at=[]")
    process = start(folder, settings)
    deadline = time.monotonic() + 60
    while not (folder / "metrics.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    lines = err.strip().splitlines()
    assert "which is saved; continue with --resume" in lines[-1]
    saved, _ = newest_whole(folder)
    assert f"after step {saved.contents.progress.step} of" in lines[-1]


@pytest.mark.slow
def test_a_second_signal_stops_at_once(tmp_path):
    code = (
        "import os, signal, sys, time, torch\n"
        "from anydepth.train.trainer import Trainer\n"
        "from anydepth.cli.main import main\n"
        "def endless(*_):\n"
        "    for _ in range(2):\n"
        "        os.kill(os.getpid(), signal.SIGTERM); time.sleep(0.2)\n"
        "    os._exit(1)\n"
        "Trainer.take_step = endless\n"
        "main(sys.argv[1:])\n"
    )
    process = start(tmp_path / "run", config(), code=code)
    process.communicate(timeout=60)
    assert process.returncode == 143


# Two processes


def test_a_folder_in_use_is_refused_and_the_lock_dies_with_its_process(tmp_path):
    folder, settings = tmp_path / "run", config("training.epochs=4000", "checkpoint_minutes=60")
    first = start(folder, settings)
    deadline = time.monotonic() + 60
    while not (folder / "metrics.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    with pytest.raises(FolderInUseError, match="in use by another process"):
        train(settings, folder, resume=True)
    second = start(folder, settings)
    _, err = second.communicate(timeout=60)
    assert second.returncode == 7, err
    assert len(err.strip().splitlines()) == 1
    first.kill()
    first.communicate()
    with locked(folder):
        pass


# Disks that fail


def failing(kind, after):
    """A replacement for os.fsync that fails from the n-th call on."""
    real, calls = os.fsync, [0]

    def fsync(descriptor):
        calls[0] += 1
        if calls[0] > after:
            raise OSError(kind, os.strerror(kind))
        real(descriptor)

    return fsync


FAILURES = [*((errno.ENOSPC, after) for after in (0, 7, 12, 30)), (errno.EIO, 7), (errno.EROFS, 12)]
ALL_FAILURES = product((errno.ENOSPC, errno.EIO, errno.EROFS), (0, 7, 12, 30))


@pytest.mark.parametrize(("kind", "after"), slow_but(FAILURES, ALL_FAILURES))
def test_a_failing_disk_ends_the_run_and_the_last_checkpoint_holds(kind, after, whole, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing(kind, after))
        with pytest.raises(StorageError, match=os.strerror(kind)) as caught:
            train(config(), folder)
    assert caught.value.exit_code == 6
    assert not list(folder.rglob(f"*{artifact.TEMPORARY}"))
    if after > 8:
        assert newest_whole(folder)[0] is not None
    if (folder / "run.json").exists():
        train(config(), folder, resume=True)
        assert remains(folder) == whole
        assert orphans(folder) == []


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError):
        train(config(), tmp_path / "file" / "run")


# Damaged checkpoints


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A run with two checkpoints, stopped."""
    folder = tmp_path_factory.mktemp("stopped") / "run"
    train_and_crash(folder, config(), ".json renamed", 10)
    return folder


def newest_whole(folder):
    """The newest checkpoint that can be read, and how many newer ones cannot."""
    unusable = 0
    for path in manifests(folder):
        try:
            return read_checkpoint(path, open_run(folder).record_hash()), unusable
        except ModelFileError:
            unusable += 1
    return None, unusable


def step_of(folder):
    return newest_whole(folder)[0].contents.progress.step


def newest_files(folder):
    manifest = max((folder / "checkpoints").glob("*.json"))
    return manifest, manifest.with_suffix(".safetensors")


@pytest.mark.parametrize("which", [0, 1])
def test_truncated_checkpoints_are_noticed_and_the_one_before_is_used(which, stopped, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(stopped, folder)
    path = newest_files(folder)[which]
    content, newest = path.read_bytes(), step_of(folder)
    for length in range(0, len(content.rstrip()), 1024):
        path.write_bytes(content[:length])
        assert newest_whole(folder)[1] == 1
        assert step_of(folder) <= newest
    path.write_bytes(content)
    assert step_of(folder) == newest


@pytest.mark.parametrize("flips", [250, pytest.param(5000, marks=pytest.mark.soak)])
@pytest.mark.parametrize("which", [0, 1])
def test_flipped_bits_are_noticed(which, flips, stopped, tmp_path):
    folder, generator = tmp_path / "run", random.Random(which)
    shutil.copytree(stopped, folder)
    path = newest_files(folder)[which]
    content = path.read_bytes()
    step, whole = step_of(folder), newest_whole(folder)[0].contents
    for _ in range(flips):
        damaged = bytearray(content)
        damaged[generator.randrange(len(content))] ^= 1 << generator.randrange(8)
        path.write_bytes(damaged)
        found, unusable = newest_whole(folder)
        assert unusable == 1 or found.contents == whole, "only a flip between kinds of white space goes unnoticed"
        assert found.contents.progress.step <= step


def test_a_damaged_checkpoint_still_resumes_to_the_same_bits(whole, stopped, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(stopped, folder)
    newest_files(folder)[1].write_bytes(b"damaged")
    with pytest.warns(AnydepthWarning, match="cannot be used"):
        train(config(), folder, resume=True)
    assert remains(folder) == whole


def test_when_no_checkpoint_is_whole_the_run_is_refused(stopped, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(stopped, folder)
    for path in (folder / "checkpoints").glob("*.safetensors"):
        path.write_bytes(b"")
    with pytest.warns(AnydepthWarning), pytest.raises(ModelFileError, match="none of the checkpoints"):
        train(config(), folder, resume=True)


def test_newer_formats_are_refused(stopped, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(stopped, folder)
    for path in (folder / "checkpoints").glob("*.json"):
        values = json.loads(path.read_text()) | {"version": 99}
        path.write_text(json.dumps(artifact.sealed(values)))
    with pytest.warns(AnydepthWarning, match="use a newer anydepth"), pytest.raises(ModelFileError):
        train(config(), folder, resume=True)


# Resuming


def test_another_config_is_not_resumed(stopped, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(stopped, folder)
    with pytest.raises(ConfigError, match="another config: optimizer"):
        train(config("optimizer.lr=0.06"), folder, resume=True)


def test_resuming_a_finished_run_changes_nothing(tmp_path):
    folder = tmp_path / "run"
    train(config(), folder)
    before = {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}
    assert train(config(), folder, resume=True).metrics() == open_run(folder).metrics()
    assert before == {p: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.rglob("*") if p.is_file()}


PAIRS = [("adam", "constant"), ("adamw", "bspline"), ("adamw", "legendre"), ("adam", "discontinuous")]
ALL_PAIRS = product(("adam", "adamw"), ("constant", "bspline", "legendre", "discontinuous"))


@pytest.mark.parametrize(("optimizer", "basis"), slow_but(PAIRS, ALL_PAIRS))
def test_every_optimiser_and_basis_resumes_to_the_same_bits(optimizer, basis, tmp_path):
    settings = config(f"optimizer.name={optimizer}", "optimizer.lr=0.003", f"model.options.basis={basis}")
    train(settings, tmp_path / "whole")
    assert train_and_crash(tmp_path / "run", settings, "refinement logged", 2)
    train(settings, tmp_path / "run", resume=True)
    assert remains(tmp_path / "run") == remains(tmp_path / "whole")


def test_a_torn_line_of_metrics_is_mended(whole, stopped, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(stopped, folder)
    with open(folder / "metrics.jsonl", "a") as file:
        file.write('{"kind": "st')
    assert len(open_run(folder).metrics()) > 0
    train(config(), folder, resume=True)
    assert remains(folder) == whole


def test_a_checkpoint_whose_metrics_are_lost_gives_way_to_one_before(whole, stopped, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(stopped, folder)
    older = manifests(folder)[1]
    kept = read_checkpoint(older, open_run(folder).record_hash()).contents.metrics_bytes
    os.truncate(folder / "metrics.jsonl", kept)
    train(config(), folder, resume=True)
    assert remains(folder) == whole
    again = tmp_path / "again"
    shutil.copytree(stopped, again)
    (again / "metrics.jsonl").unlink()
    with pytest.warns(AnydepthWarning, match="metrics are lost"):
        train(config(), again, resume=True)
    assert remains(again)[:2] == whole[:2]


def test_checkpoints_that_cannot_be_used_make_room(stopped, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(stopped, folder)
    damaged = newest_files(folder)[1]
    damaged.write_bytes(b"damaged")
    with pytest.warns(AnydepthWarning, match="cannot be used"):
        train_and_crash(folder, config(), ".json renamed", 1)
    assert newest_whole(folder)[1] == 0
    assert not damaged.exists() or damaged.read_bytes() != b"damaged"


def test_other_data_is_not_resumed(stopped, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    shutil.copytree(stopped, folder)
    monkeypatch.setattr("anydepth.data.images.Images.digest", lambda self: "other")
    with pytest.raises(DataError, match="other data"):
        train(config(), folder, resume=True)


def test_what_is_left_of_another_run_is_not_mixed_in(stopped, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(stopped, folder)
    (folder / "run.json").unlink()
    with pytest.raises(ConfigError, match="holds a run already"):
        train(config("seed=5"), folder, resume=True)
    other = tmp_path / "other"
    train_and_crash(other, config("seed=5"), ".json renamed", 5)
    shutil.copy(folder / "checkpoints" / newest_files(folder)[0].name, other / "checkpoints")
    shutil.copy(folder / "checkpoints" / newest_files(folder)[1].name, other / "checkpoints")
    with pytest.warns(AnydepthWarning, match="another run"):
        train(config("seed=5"), other, resume=True)


def edited(folder, **changes):
    path = newest_files(folder)[0]
    values = {key: value for key, value in json.loads(path.read_text()).items() if key != "seal"}
    path.write_text(json.dumps(artifact.sealed(values | changes)))


@pytest.mark.parametrize(
    "changes",
    [
        {"sha256": None},
        {"tensors": 3},
        {"metrics_bytes": -1},
        {"metrics_bytes": 10**40},
        {"progress": {"step": -5, "level": 0, "sums": {"loss": 0.0, "right": 0.0, "count": 0}, "seconds": 0.0}},
        {"progress": {"step": 10**30, "level": 0, "sums": {"loss": 0.0, "right": 0.0, "count": 0}, "seconds": 0.0}},
        {"progress": {"step": 3, "level": 9, "sums": {"loss": 0.0, "right": 0.0, "count": 0}, "seconds": 0.0}},
        {"blocks": {}},
        {"average_blocks": None},
        {"extra": 1},
    ],
)
def test_crafted_manifests_give_way_to_the_one_before(changes, whole, stopped, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(stopped, folder)
    edited(folder, **changes)
    with pytest.warns(AnydepthWarning, match="cannot be used"):
        train(config(), folder, resume=True)
    assert remains(folder) == whole


FORGED = {
    "shape": lambda name, value: {name: torch.tensor(1.0)},
    "kind": lambda name, value: {name: value.long()},
    "name": lambda name, value: {name.replace("momentum_buffer", "exp_avg"): value},
    "more": lambda name, value: {name: value, name.replace("momentum_buffer", "step"): torch.tensor(1.0)},
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
def test_moments_that_would_fail_in_the_next_step_give_way_to_the_one_before(forge, whole, stopped, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(stopped, folder)
    newest = read_checkpoint(newest_files(folder)[0], open_run(folder).record_hash())
    step, level = newest.contents.progress.step, newest.contents.progress.level
    name = next(n for n, value in newest.tensors.items() if n.endswith("/momentum_buffer") and value.dim())
    forged = {n: value for n, value in newest.tensors.items() if n != name} | forge(name, newest.tensors[name])
    write_checkpoint(folder, step, level, newest._replace(tensors=forged))
    with pytest.warns(AnydepthWarning, match="cannot be used"):
        train(config(), folder, resume=True)
    assert remains(folder) == whole


def test_nothing_is_written_or_deleted_through_links(stopped, tmp_path):
    victim = tmp_path / "victim"
    victim.mkdir()
    for name in (".x.tmp", "other.safetensors", "step-000000001-level-000.safetensors"):
        (victim / name).write_text("mine")
    folder = tmp_path / "run"
    shutil.copytree(stopped, folder)
    shutil.rmtree(folder / "checkpoints")
    (folder / "checkpoints").symlink_to(victim)
    with pytest.raises(ModelFileError, match="is a link"):
        train(config(), folder, resume=True)
    (folder / "checkpoints").unlink()
    (folder / "metrics.jsonl").unlink()
    (folder / "metrics.jsonl").symlink_to(victim / "new")
    with pytest.raises((ModelFileError, StorageError)):
        train(config(), folder, resume=True)
    assert sorted(path.name for path in victim.iterdir()) == [
        ".x.tmp",
        "other.safetensors",
        "step-000000001-level-000.safetensors",
    ]


@pytest.mark.parametrize(
    "odd",
    [
        *({"seconds": value} for value in (None, "a", [], 10**400)),
        {"parameters": "a"},
        {"solver": 3},
        {"train_loss": {}},
        {"epoch": None},
    ],
)
def test_metrics_that_cannot_be_shown_are_refused(odd, stopped, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(stopped, folder)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    epoch = next(line for line in lines if line["kind"] == "epoch")
    (folder / "metrics.jsonl").write_text(json.dumps(epoch | odd) + "\n")
    with pytest.raises(ModelFileError, match=f"line 1 has {next(iter(odd))}"):
        open_run(folder).metrics()


@pytest.mark.parametrize("line", ["[]", '{"a": 1}', '{"kind": "epoch"}', "[" * 10_000, '{"kind": ["epoch"]}', "{"])
def test_crafted_metrics_are_refused(line, stopped, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(stopped, folder)
    (folder / "metrics.jsonl").write_text(line + "\n")
    with pytest.raises(ModelFileError, match="line 1"):
        open_run(folder).metrics()
