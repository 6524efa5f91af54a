"""The page about extending anydepth: its module is loaded and its commands run, in a process of their own."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from command import assert_refused, run_command

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"

DRIVER = """
import contextlib, io, json, sys
from anydepth.cli.main import main
done = []
for words in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(words)
        except SystemExit as stopped:
            code = stopped.code or 0
    done.append([code, out.getvalue(), err.getvalue()])
print(json.dumps(done))
"""


def blocks(kind):
    return re.findall(rf"```{kind}\n(.*?)```", PAGE.read_text(), re.DOTALL)


def run_all(folder, commands):
    """Each command's exit code, standard output and standard error; one process, so that torch is imported once."""
    program = [sys.executable, "-c", DRIVER]
    done = subprocess.run(program, input=json.dumps(commands), cwd=folder, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The page's module in a folder, and what its commands did there."""
    folder = tmp_path_factory.mktemp("extending")
    (folder / "my_parts.py").write_text("\n".join(blocks("python")))
    commands = [line.split()[1:] for line in "".join(blocks("bash")).splitlines() if line.startswith("anydepth ")]
    commands += [["train", "moons-slow", "--import=my_parts", "--out", "runs/slow"]]
    commands += [["predict", "runs/moons", "x", "--import", "my_parts"]]
    return folder, dict(zip(map(" ".join, commands), run_all(folder, commands), strict=True))


def test_the_commands_of_the_page_work(made):
    _, done = made
    for words, (code, _, err) in done.items():
        assert code == (3 if words.startswith("predict") else 0), (words, err)
    assert done["hello --times 2 --import my_parts"][1].count("hello from torch") == 2


def test_own_parts_do_what_they_say(made):
    folder, _ = made
    lines = [json.loads(line) for line in (folder / "runs/slow/metrics.jsonl").read_text().splitlines()]
    assert [line["solver"]["to"] for line in lines if line["kind"] == "refine"] == ["rk4 x 2", "rk4 x 3"]
    lines = [json.loads(line) for line in (folder / "runs/deep/metrics.jsonl").read_text().splitlines()]
    steps = [line["steps"] for line in lines if line["kind"] == "control"]
    assert steps[0] == 3
    assert steps[-1] == 2


def test_a_run_says_what_it_needs(made, capsys, monkeypatch):
    """In this process, which has not imported the module."""
    folder, _ = made
    needs = json.loads((folder / "runs/deep/run.json").read_text())["needs"]
    assert {(need["kind"], need["name"]) for need in needs} == {
        ("model", "two_blocks"), ("unit", "damped"), ("dataset", "moons"), ("step controller", "countdown"),
    }  # fmt: skip
    assert {need["module"] for need in needs} == {"my_parts"}
    monkeypatch.chdir(folder.parent)
    for command in ("evaluate", "sweep", "report"):
        done = run_command(capsys, command, folder / "runs/moons")
        assert_refused(done, 2, "--import my_parts", "two_blocks")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("list", "--import", "no_such_module_here"), "no such module"),
        (("list", "--import", "no such"), "the name of a module"),
        (("list", "--import", "{broken}"), "ZeroDivisionError"),
        (("list", "--import", "nowhere.py"), "no such file"),
        (("list", "--import"), "needs the name"),
    ],
)
def test_modules_that_cannot_be_loaded(words, says, tmp_path, capsys):
    broken = tmp_path / "broken_parts.py"
    broken.write_text("1 / 0\n")
    assert_refused(run_command(capsys, *(word.format(broken=broken) for word in words)), 2, says)
