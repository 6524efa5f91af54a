"""Commands that make folders or files make them whole or not at all, wherever they are killed."""

import errno
import hashlib
import os
from functools import cache

import pytest

from anydepth import artifact
from anydepth.artifact import digest
from anydepth.artifact.writing import hold
from anydepth.cli.main import main
from anydepth.deploy.export.ports import Port
from anydepth.deploy.export.sheet import Sheet, read_export, write_export
from anydepth.deploy.sweeps.sweep_file import read_sweep
from anydepth.errors import ConfigError, ModelFileError, StorageError
from anydepth.report.overview import write_overview
from anydepth.runs.folder import new_run, open_run, save_derived
from anydepth.train.training import train
from command import assert_refused, run_command
from crashing import Crash
from small_runs import tiny


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A trained run, never to be changed."""
    folder = tmp_path_factory.mktemp("source") / "run"
    train(tiny("model.options.basis=constant", "model.options.size=2", "training.epochs=1"), folder)
    return folder


def hashes(folder):
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.rglob("*")) if p.is_file()}


def points_of(work, place):
    """The named points that a piece of work passes, in order."""
    seen = []
    artifact.watchers.append(seen.append)
    try:
        work(place)
    finally:
        artifact.watchers.pop()
    return seen


def killed(work, place, count):
    """The work, ended as by a kill at the n-th named point that it passes."""
    left = [count]

    def watcher(_point):
        left[0] -= 1
        if left[0] == 0:
            raise Crash

    artifact.watchers.append(watcher)
    try:
        with pytest.raises(Crash):
            work(place)
    finally:
        artifact.watchers.pop()


def command(*words):
    with pytest.raises(SystemExit) as stopped:
        main([str(word) for word in words])
    assert not stopped.value.code


def compress(source, place):
    command("compress", source, "--size", 1, "--out", place / "made", "--json")


@cache
def exported(source):
    """What `anydepth export` writes, with two solvers; by hand, for tracing takes a second."""
    run = open_run(source)
    port = Port(name="images", dtype="float32", shape=("batch", 1, 8, 8))
    scores = Port(name="scores", dtype="float32", shape=("batch", 10))
    told = {
        "kind": "torch.export",
        "opset": None,
        "model_sha256": run.model_hash(),
        "inputs": (port,),
        "output": scores,
    }
    told |= {"preparation": "", "facts": run.facts, "versions": {}, "parity": None}
    return {name: (name.encode(), Sheet(**told, solver=(name,), sha256=digest(name.encode()))) for name in ("a", "b")}


def export(source, place, solver="b"):
    write_export(place / "made.pt2", *exported(source)[solver])


def sweep(source, place):
    grid = ("--sizes", "1", "--steps", "1", "--schemes", "euler", "--rounds", 1, "--no-data")
    command("sweep", source, *grid, "--out", place / "made", "--json")


def report(source, place):
    command("report", source.parent, "--out", place / "made.html", "--json")


def check_compressed(place):
    if (place / "made").exists():
        made = open_run(place / "made")
        assert made.model() is not None
        assert made.is_derived


def check_exported(place):
    if (place / "made.pt2").exists():
        read_export(place / "made.pt2")


def check_swept(place):
    if (place / "made" / "sweep-no-data.json").exists():
        read_sweep(place / "made" / "sweep-no-data.json")


def check_reported(place):
    if (place / "made.html").exists():
        assert (place / "made.html").read_text().rstrip().endswith("</html>")


WORK = {
    "compress": (compress, check_compressed),
    "export": (export, check_exported),
    "sweep": (sweep, check_swept),
    "report": (report, check_reported),
}


@pytest.mark.parametrize("name", WORK)
def test_killed_at_any_point_it_is_whole_or_nothing_and_made_again(name, source, tmp_path, capsys):
    """Then it is made again over what is left, and nothing of the killed one stays."""
    work, check = WORK[name]
    before = hashes(source)
    count = len(points_of(lambda place: work(source, place), tmp_path / "whole"))
    wanted = sorted(p.relative_to(tmp_path / "whole") for p in (tmp_path / "whole").rglob("*"))
    assert count >= 3
    for number in range(1, count + 1, 1 if count < 10 else 4):
        place = tmp_path / f"{number}"
        killed(lambda place: work(source, place), place, number)
        check(place)
        if name == "compress" and (place / "made").exists():
            continue
        work(source, place)
        check(place)
        assert sorted(p.relative_to(place) for p in place.rglob("*")) == wanted
    assert hashes(source) == before


def test_an_export_killed_over_an_older_one_leaves_one_of_the_two(source, tmp_path):
    count = len(points_of(lambda place: export(source, place), tmp_path / "whole"))
    for number in range(1, count + 1):
        place = tmp_path / f"{number}"
        export(source, place, "a")
        killed(lambda place: export(source, place), place, number)
        content, sheet = read_export(place / "made.pt2")
        assert sheet.solver[0] == content.decode()
        export(source, place)
        assert sorted(p.name for p in place.iterdir()) == ["made.pt2", "made.pt2.json"]


def half_made(source, folder):
    """What a compress that was killed left in older versions: the record, and no model."""
    parent = open_run(source)
    new_run(folder, parent.config, parent.facts, parent, {"operation": "compress", "size": 1})
    return folder


def test_a_half_made_folder_is_recognised_and_replaced(source, tmp_path, capsys):
    half = half_made(source, tmp_path / "made")
    assert_refused(run_command(capsys, "evaluate", half), 4, "make it again from its parent")
    compress(source, tmp_path)
    assert open_run(half).model() is not None
    assert_refused(run_command(capsys, "compress", source, "--size", 1, "--out", half), 2, "holds a run already")


@pytest.mark.parametrize("is_whole", [False, True])
def test_what_was_compressed_is_never_trained_into(is_whole, source, tmp_path):
    folder = tmp_path / "made"
    if is_whole:
        save_derived(open_run(source), folder, open_run(source).model(), {"operation": "compress"})
    else:
        half_made(source, folder)
    before = hashes(folder)
    with pytest.raises(ConfigError, match="made from another run"):
        train(open_run(source).config, folder, resume=True)
    assert {p: h for p, h in hashes(folder).items() if not p.endswith(".lock")} == before


def test_other_files_are_not_mixed_with_a_new_run(source, tmp_path, capsys):
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "notes.txt").write_text("mine")
    words = ("compress", source, "--size", 1, "--out")
    assert_refused(run_command(capsys, *words, tmp_path / "made"), 2, "not empty")
    (tmp_path / "file").write_text("")
    assert_refused(run_command(capsys, *words, tmp_path / "file"), 2, "is a file")
    (tmp_path / "empty").mkdir()
    assert run_command(capsys, *words, tmp_path / "empty").code == 0
    (tmp_path / "here").mkdir()
    os.chdir(tmp_path / "here")
    assert_refused(run_command(capsys, *words, "."), 2, "current folder")


def test_a_full_disk_leaves_nothing_and_names_the_folder(source, tmp_path, capsys, monkeypatch):
    def full(_descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    done = run_command(capsys, "compress", source, "--size", 1, "--out", tmp_path / "made")
    assert_refused(done, 6, f"{tmp_path}/made/run.json", "No space")
    assert list(tmp_path.iterdir()) == []


def test_what_a_living_process_fills_is_left_alone(tmp_path):
    """And what a dead one left is cleared, links and other files excepted."""
    target = tmp_path / "made.json"
    names = [f".made.json.{number:08x}.tmp" for number in range(3)]
    for name in names[:2]:
        (tmp_path / name).write_text("")
    (tmp_path / names[2]).symlink_to(tmp_path / "victim")
    (tmp_path / ".other.json.00000000.tmp").write_text("")
    with open(tmp_path / names[0]) as file:
        hold(file.fileno())
        artifact.write_json(target, {})
        assert {p.name for p in tmp_path.iterdir()} == {names[0], names[2], ".other.json.00000000.tmp", "made.json"}


def test_a_folder_that_cannot_be_renamed_is_an_error_and_leaves_nothing(tmp_path, monkeypatch):
    def busy(*_):
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    monkeypatch.setattr(os, "rename", busy)
    with pytest.raises(StorageError, match="cannot make folder"), artifact.whole_folder(tmp_path / "made") as staging:
        (staging / "file").write_text("")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_being_made_is_no_run_of_an_overview(source, tmp_path, capsys):
    runs = tmp_path / "runs"
    killed(lambda place: compress(source, place), runs, 1)
    with pytest.raises(ModelFileError, match="no run in"):
        write_overview(runs)
