"""The page about extending anydepth: its module is loaded and its commands run, in a process of their own."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import anydepth as ad
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
    needs = json.loads((folder / "runs/cos/run.json").read_text())["needs"]
    assert {"kind": "basis", "name": "cos", "module": "my_parts"} in needs
    monkeypatch.chdir(folder.parent)
    for command in ("evaluate", "sweep", "report"):
        done = run_command(capsys, command, folder / "runs/moons")
        assert_refused(done, 2, "--import my_parts", "two_blocks")


LAWS = """
import anydepth as ad, my_parts, torch
from anydepth.depth.transfer import transfer
from anydepth.depth.bases import make_basis
torch.manual_seed(0)
x = torch.randn(5, 8)
with torch.no_grad():
    blocks = my_parts.cosine_blocks()
    first, refined, back = (block(x) for block in blocks)
assert [block.size for block in blocks] == [2, 4, 2]
assert (first - refined).abs().max() < 1e-5 and (first - back).abs().max() < 1e-5
for size in (2, 4, 16):
    small, large = make_basis("cos", size), make_basis("cos", size).refined()
    there, again = transfer(small, large, "project"), transfer(large, small, "project")
    assert abs(there[:size] - torch.eye(size).numpy()).max() < 1e-12 and abs(there[size:]).max() < 1e-12
    assert abs(again[:, :size] - torch.eye(size).numpy()).max() < 1e-12 and abs(again[:, size:]).max() < 1e-12
"""


def test_the_basis_of_the_page_keeps_the_laws_of_bases(made):
    folder, _ = made
    done = subprocess.run([sys.executable, "-c", LAWS], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_run_says_that_it_needs_a_basis(made, capsys, tmp_path):
    """Also where all else that it is made of is there."""
    folder, _ = made
    shutil.copytree(folder / "runs/cos", tmp_path / "cos")
    record = json.loads((tmp_path / "cos/run.json").read_text())
    record["needs"] = [need for need in record["needs"] if need["kind"] == "basis"]
    (tmp_path / "cos/run.json").write_text(json.dumps(record))
    assert_refused(run_command(capsys, "evaluate", tmp_path / "cos"), 2, "needs basis 'cos'", "--import my_parts")


def test_a_model_whose_basis_is_not_loaded_says_so(made):
    folder, _ = made
    with pytest.raises(ad.ModelFileError, match=r"unknown .*the module that registers it"):
        ad.load(folder / "runs/cos")


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
