"""Nets that packages bring: runs by name, copied once, checked against their hash."""

from pathlib import Path
from shutil import copytree

import pytest

from anydepth import artifact
from anydepth.errors import ModelFileError
from anydepth.runs.folder import open_run
from anydepth.runs.shipped import FILES, NETS, ShippedNet, cache, located
from anydepth.surgery.store import MODEL, TENSORS
from anydepth.train.training import train
from command import run_command
from small_runs import tiny


@pytest.fixture
def net(tmp_path, monkeypatch):
    """A net that a package could bring, registered for one test."""
    folder = train(tiny("training.epochs=1"), tmp_path / "package").folder
    made = ShippedNet("A small net.", folder, artifact.digest((folder / MODEL).read_bytes()))
    monkeypatch.setenv("ANYDEPTH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(NETS, "_parts", {"small": made})
    return made


def test_a_name_is_a_copy_of_the_run_and_the_package_stays_as_it_was(net):
    place = located(Path("small"))
    assert place.parent == cache()
    assert {file.name for file in place.iterdir()} == set(FILES)
    assert all((place / name).read_bytes() == (net.folder / name).read_bytes() for name in FILES)
    assert open_run(place).is_over
    (place / "sweep.json").write_text("{}")
    assert located(Path("small")) == place
    assert (place / "sweep.json").exists()


def test_a_folder_of_that_name_comes_first_and_other_names_stay(net, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("small").mkdir()
    for path in (Path("small"), Path("other"), Path("runs/small")):
        assert located(path) == path
    assert not cache().exists()


def test_a_damaged_copy_is_made_again(net):
    place = located(Path("small"))
    (place / MODEL).write_bytes(b"{}")
    assert open_run(located(Path("small"))).model() is not None


def test_a_process_that_was_faster_is_no_error(net):
    def faster(point):
        if point == "folder filled":
            (staging,) = (folder for folder in cache().iterdir() if artifact.is_staging(folder))
            copytree(staging, cache() / f"small-{net.seal[:12]}")

    artifact.watchers.append(faster)
    try:
        assert open_run(located(Path("small"))).is_over
    finally:
        artifact.watchers.remove(faster)


def test_a_damaged_package_is_told(net, monkeypatch):
    (net.folder / MODEL).write_bytes(b"{}")
    with pytest.raises(ModelFileError, match="net 'small' is damaged"):
        located(Path("small"))
    assert not any(cache().iterdir())


def test_tensors_that_do_not_fit_their_description_are_refused(net):
    content = bytearray((net.folder / TENSORS).read_bytes())
    content[-1] ^= 1
    (net.folder / TENSORS).write_bytes(content)
    with pytest.raises(ModelFileError):
        open_run(located(Path("small"))).model()


def test_commands_take_the_name(net, capsys):
    done = run_command(capsys, "evaluate", "small", "--steps", "1", "--json")
    assert done.code == 0
    assert "midpoint x 1" in done.out
