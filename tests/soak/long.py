"""Threads, forks and interrupts in a pass; memory over many steps; the tests that `make test` leaves out."""

import ast
import gc
import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import torch

import anydepth as ad

ROOT = Path(__file__).parents[2]


def attacks(number, tries, _work):
    """Readers beside threads that infer, Ctrl-C, forks: benchmarks/attacks.py counts what was wrong."""
    words = ["--rounds", str(tries), "--interrupts", str(20 * tries), "--forks", str(max(1, tries // 10))]
    program = [sys.executable, str(ROOT / "benchmarks" / "attacks.py"), *words]
    found = json.loads(subprocess.run(program, capture_output=True, text=True, check=True).stdout)
    assert found["readers"]["wrong"] == found["readers"]["raised"] == 0, found["readers"]
    assert found["interrupts"]["harmed"] == 0, found["interrupts"]
    assert found["hanging forks"]["block"] <= found["hanging forks"]["bare unit"], found["hanging forks"]


def served(number, tries, work):
    """16 clients at a server, a fifth of their requests malformed: benchmarks/serve_attack.py counts what was wrong."""
    words = ["--run", str(work / "served"), "--seconds", str(tries)]
    program = [sys.executable, str(ROOT / "benchmarks" / "serve_attack.py"), *words]
    found = json.loads(subprocess.run(program, stdout=subprocess.PIPE, text=True, check=True).stdout)
    assert found["server_errors_but_503"] == found["wrong_answers"] == found["accepted_but_not_answered"] == 0, found
    assert tries < 100 or found["memory_growth_percent"] < 5, found
    return sum(found["statuses"].values())


def memory(number, tries, _work):
    """A block in training, on every path: the process grows by less than 8 MB after the first tenth of the steps."""
    for maker, shape in ((lambda: ad.units.MLP(8, 16, 1), (16, 8)), (lambda: ad.units.PreactConv(4), (4, 4, 8, 8))):
        block = ad.ContinuousBlock(maker, "linear", 3, scheme="rk4", steps=2)
        optimizer = torch.optim.SGD(block.parameters(), lr=1e-4)
        settled = 0
        for step in range(tries):
            optimizer.zero_grad()
            block(torch.randn(shape)).square().mean().backward()
            optimizer.step()
            if step == tries // 10:
                gc.collect()
                settled = resident()
        gc.collect()
        assert resident() - settled < 8 * 2**20, f"{(resident() - settled) / 2**20:.1f} MB more"


def resident() -> int:
    """Bytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def cases_of(files: str, named: str = ""):
    """A part made of tests, slow ones too: files of tests/, cases by pytest's -k. A case that passes is an input."""

    def run(_number, _tries, _work):
        words = [*(f"tests/{file}" for file in files.split()), "-m", "not soak", "-p", "no:cacheprovider", "--tb=line"]
        words += ["-k", named] if named else []
        done = subprocess.run([sys.executable, "-m", "pytest", *words], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-350:]
        return int(re.findall(r"(\d+) passed", done.stdout)[-1])

    return run


MARKS = re.compile(r"\b(slow|slow_but|soak|fuzz)\b")


@cache
def unused():
    """What `make test` leaves out, in pieces: of every file its slow tests, and each test marked soak or fuzz."""
    found = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if not MARKS.search(path.read_text()):
            continue
        marked = {word for node in ast.parse(path.read_text()).body for word in names_of(node)}
        for node in ast.parse(path.read_text()).body:
            said = decorators(node)
            if isinstance(node, ast.FunctionDef) and re.search(rf"\b(soak|fuzz|{'|'.join(marked) or 'soak'})\b", said):
                found.append((f"{path}::{node.name}", "soak or fuzz"))
        found.append((str(path), "slow and not soak and not fuzz"))
    return found


def names_of(node):
    """Lists of cases at the top of a file of which some are marked soak or fuzz."""
    is_marked = isinstance(node, ast.Assign) and re.search(r"\b(soak|fuzz)\b", ast.unparse(node.value))
    return [ast.unparse(target) for target in node.targets] if is_marked else []


def decorators(node):
    return " ".join(ast.unparse(one) for one in getattr(node, "decorator_list", ()))


def left_out(number, tries, _work):
    """Pieces of what `make test` leaves out; a case that passes is an input."""
    passed = 0
    for what, marks in unused()[number : number + tries]:
        words = [what, "-m", marks, "--hypothesis-profile=soak", "-p", "no:cacheprovider", "--tb=line"]
        done = subprocess.run([sys.executable, "-m", "pytest", *words], cwd=ROOT, capture_output=True, text=True)
        nothing = 5  # pytest's code for no tests
        assert done.returncode in (0, nothing), f"{what}: {done.stdout[-350:]}"
        passed += sum(map(int, re.findall(r"(\d+) passed", done.stdout)[-1:]))
    return passed
