"""Threads, forks and interrupts in a pass; memory over many steps; the tests that `make test` leaves out."""

import gc
import json
import re
import subprocess
import sys
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


def left_out(number, _tries, _work):
    """pytest -m "slow or soak or fuzz"; one try is the whole of it."""
    words = ["-m", "slow or soak or fuzz", "--hypothesis-profile=soak", "-p", "no:cacheprovider", "--tb=line"]
    done = subprocess.run([sys.executable, "-m", "pytest", *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-350:]
