"""The command line: output, exit codes, and the demonstration itself."""

import ctypes
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

import anydepth
from anydepth.demo import demo as experiment
from anydepth.report import page
from command import Done, assert_refused, run_command


def command(*arguments):
    program = [sys.executable, "-m", "anydepth", *arguments]
    one_thread = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    return subprocess.run(program, capture_output=True, text=True, check=False, timeout=600, env=one_thread)


def assert_shown(results, folder):
    """What the demonstration is there to show."""
    assert Path(results.pop("report")).stat().st_size > 50_000
    assert results["models"]["continuous"]["verdict"]["proper"]
    assert not results["models"]["resnet"]["verdict"]["proper"]
    net, control = results["models"]["continuous"], results["models"]["resnet"]
    assert net["accuracy"] >= 97
    assert net["accuracy"] - net["solvers"]["euler"][str(net["steps"])] <= 1
    assert net["accuracy"] - net["compressed"][str(net["half"]["size"])]["accuracy"] <= 1
    assert net["accuracy"] - net["identity"] >= 5
    assert net["half"]["size"] * 2 <= 9
    assert control["accuracy"] >= 97
    assert control["accuracy"] - control["compressed"]["4"]["accuracy"] >= 5
    forms = [*net["forms"].values(), *control["forms"].values(), results["shallow_resnet"]]
    assert all(set(form) == {"accuracy", "recalibrated", "evaluations", "milliseconds"} for form in forms)
    assert control["forms"]["half the steps"]["recalibrated"] > control["forms"]["half the steps"]["accuracy"]
    assert net["forms"]["half the functions and steps"]["evaluations"] * 2 == net["forms"]["as trained"]["evaluations"]
    assert json.loads((folder / "demo.json").read_text()) == results
    assert (folder / "demo.png").stat().st_size > 10_000
    model = anydepth.load(folder / "continuous")
    assert anydepth.summary(model).rows[0].form.weights == "linear:9"


def test_the_demonstration_shows_what_it_should(capsys, tmp_path, monkeypatch):
    """Both nets trained in full; the rest of the journey with fewer solvers, batches and images."""
    monkeypatch.setattr(experiment, "STEPS", (3, 4, 8, 16))
    monkeypatch.setattr(experiment, "_BATCHES", 1)
    monkeypatch.setattr(experiment, "_HALF_AS_DEEP", (*experiment._HALF_AS_DEEP, "training.epochs=1"))
    monkeypatch.setattr(page, "write_report", partial(page.write_report, examples=20))
    done = run_command(capsys, "demo", "--json", "--out", tmp_path / "demo")
    assert done.code == 0, done.err
    assert_shown(json.loads(done.out), tmp_path / "demo")


@pytest.mark.slow
def test_the_whole_demonstration_shows_what_it_should(tmp_path):
    done = command("demo", "--json", "--out", str(tmp_path / "demo"))
    assert done.returncode == 0, done.stderr
    assert_shown(json.loads(done.stdout), tmp_path / "demo")


def test_list_names_everything_as_json_on_standard_output(capsys):
    done = command("list", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["schemes"]["rk4"] == "order 4, 4 evaluations a step"
    assert done.stderr == ""
    people = run_command(capsys, "list")
    assert people.out == ""
    assert "discontinuous" in people.err


def test_version(capsys):
    assert run_command(capsys, "--version").out == f"anydepth {anydepth.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["demmo"], 2, "demmo"),
        (["demo", "--sead", "1"], 2, "--sead"),
        (["demo", "--seed", "x"], 2, "x"),
        (["demo", "--seed", "-1"], 2, "-1"),
        (["demo", "--out", "{file}/inside"], 6, "cannot make folder"),
        (["list", "extra"], 2, "extra"),
    ],
)
def test_errors_are_one_line_with_their_exit_code(arguments, code, says, capsys, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    assert_refused(run_command(capsys, *(argument.format(file=file) for argument in arguments)), code, says)


def test_a_process_ends_with_the_exit_code_and_one_line():
    done = command("demo", "--seed", "x")
    assert_refused(Done(done.returncode, done.stdout, done.stderr), 2, "x")


def test_debug_shows_the_traceback(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    out = tmp_path / "file" / "inside"
    for words in (("--debug", "demo", "--out", out), ("demo", "--out", out, "--debug")):
        done = run_command(capsys, *words)
        assert done.code == 6
        assert "Traceback" in done.err


def test_no_arguments_show_the_help(capsys):
    done = run_command(capsys)
    assert done.code == 0
    assert "Commands" in done.out


@pytest.mark.parametrize("own", [{}, {"MALLOC_TRIM_THRESHOLD_": "65536"}])
def test_freed_memory_is_kept_unless_the_user_says_otherwise(own):
    """In a process of its own: the setting is for good."""
    program = "from anydepth.cli.heap import keep_freed_memory; print(keep_freed_memory())"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    done = subprocess.run(
        [sys.executable, "-c", program], env=clean | own, capture_output=True, text=True, check=True
    ).stdout
    assert done.strip() == str(not own and sys.platform == "linux" and hasattr(ctypes.CDLL(None), "mallopt"))
