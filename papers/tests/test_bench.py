"""The benchmark: what is compared is the same thing, and what is reported is what was measured."""

import json

import pytest
import torch

import anydepth as ad
from anydepth.errors import ConfigError
from anydepth.measure.cost import interleaved
from anydepth_papers.bench import run
from anydepth_papers.bench.cases import CASES
from anydepth_papers.bench.goals import is_met, with_goals
from anydepth_papers.bench.page import END, START, draw, rewrite
from anydepth_papers.bench.peers import solvers
from anydepth_papers.bench.scaling import GROWTH, exponent, growing
from anydepth_papers.bench.sides import Loop, ThreeEighths, answer, answers, close, use_precision
from anydepth_papers.bench.timing import fastest, ratios
from command import assert_refused, run_command


def test_ratios_are_taken_round_by_round():
    seconds = {"a": [1.0, 2.0, 4.0], "b": [2.0, 4.0, 8.0]}
    found = ratios(seconds, "a")
    assert found["b"]["ratio"] == found["b"]["ratio_low"] == found["b"]["ratio_high"] == 2
    assert (found["a"]["milliseconds_low"], found["a"]["milliseconds"]) == (1000, 2000)
    assert fastest(seconds, "") == "a"
    assert ratios({"a": [1.0]}, "a")["a"]["ratio_high"] == 1


def test_sides_take_turns():
    order = []
    interleaved({name: lambda name=name: order.append(name) for name in "ab"}, 2, warm_up=1)
    assert "".join(order) == "ababab"


@pytest.mark.parametrize("scheme", ["euler", "rk4", "rk4_38"])
def test_peers_solve_the_same_equation(scheme):
    unit, x, ends = ad.units.MLP(2, 8, 2), torch.randn(5, 2), torch.tensor([0.0, 1.0])
    wanted = ad.odeint(lambda t, y: unit(y), x, ends, method=scheme, steps=8)[-1]
    found = solvers(scheme, 8)
    assert scheme == "rk4" or "torchdiffeq" in found
    for solver in found.values():
        torch.testing.assert_close(solver(unit)(x), wanted, rtol=1e-5, atol=1e-6)
    by_hand = {"euler": Loop, "rk4_38": ThreeEighths}
    if scheme in by_hand:
        torch.testing.assert_close(by_hand[scheme](unit, 8)(x), wanted, rtol=1e-5, atol=1e-6)


def test_frozen_sides_answer_what_the_block_answers():
    block = ad.ContinuousBlock(lambda: ad.units.Encoder(8, heads=2), size=2, scheme="euler", steps=2)
    x, mask = torch.randn(3, 5, 8), torch.arange(5) < torch.tensor([[5], [1], [3]])
    found = [side() for side in answers(block, False, x, mask).values()]
    torch.testing.assert_close(found[0], found[1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_every_case_has_its_base(name):
    sides = CASES[name].make(False)
    close(sides)
    assert any(side.startswith(CASES[name].base) for side in sides)
    assert len(sides) > 1


def test_growth_is_an_exponent():
    values = GROWTH["batch"]
    found = {f"batch {value}": {"milliseconds": 3.0 * value**2} for value in values}
    assert exponent("batch", found) == 2
    assert list(growing("steps")) == [f"steps {value}" for value in GROWTH["steps"]]


def test_bench_tells_people_and_programs(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "absent", lambda: {"torchode": "not installed"})
    words = ("bench", "--only", "small field, inf*", "--rounds", 1, "--quick")
    people = run_command(capsys, *words, "--out", tmp_path / "results.json")
    assert people.code == 0, people.err
    assert people.out == ""
    assert "torchode is left out: not installed" in people.err
    kept = json.loads((tmp_path / "results.json").read_text())
    monkeypatch.setattr(run, "measure_apart", run.measure)
    done = run_command(capsys, *words, "--json")
    found = json.loads(done.out)
    assert done.err == ""
    assert found.keys() == kept.keys() == {"about", "skipped", "cases"}
    case = found["cases"]["small field, inference"]
    assert case["base"] == "torchdiffeq"
    assert case["sides"]["torchdiffeq"]["ratio"] == 1
    assert case["sides"]["anydepth frozen"]["milliseconds"] > 0
    assert_refused(run_command(capsys, "bench", "--only", "nothing"), 2, "nothing", "small field")


def test_a_side_that_fails_is_left_out_with_its_reason(monkeypatch):
    def broken():
        raise RuntimeError("no\ncompiler")

    case = run.CASES["checkpoint"]
    sides = {"backprop": lambda: None, "checkpoint": broken}
    monkeypatch.setitem(run.CASES, "checkpoint", type(case)(lambda compiled: dict(sides), "backprop"))
    found = run.measure("checkpoint", 2)
    assert list(found["sides"]) == ["backprop"]
    assert found["failed"] == {"checkpoint": "RuntimeError: no compiler"}


def test_a_process_that_fails_is_told():
    with pytest.raises(RuntimeError, match="'no such case' ended with 1"):
        run.measure_apart("no such case", 1, quick=True)


def test_goals_are_told_beside_ratios_and_pages_are_written_from_results(tmp_path):
    sides = {"anydepth": {"ratio": 0.5}, "anydepth frozen": {"ratio": 0.6}, "resnet": {"ratio": 1.0}}
    found = with_goals("inference 16ch-32px", sides)
    assert [row.get("goal") for row in found.values()] == [None, 0.5, None]
    assert not is_met(found["anydepth frozen"])
    assert with_goals("small field", {"anydepth, own class": {"ratio": 0.1}})["anydepth, own class"]["goal"] == 0.15
    spread = {"ratio": 1.0, "ratio_low": 1.0, "ratio_high": 1.0, "milliseconds": 2.0, "goal": 1.2}
    about = {"date": "today", "cores": 2, "threads": 2, "torch": "2", "rounds": 1, "cpu": "a processor"}
    case = {"base": "batch 1", "sides": {"batch 1": spread, "batch 4": spread}, "failed": {}, "exponent": 0.5}
    results = {"about": about, "cases": {"checkpoint": case, "growth batch": case}}
    page = tmp_path / "page.md"
    page.write_text(f"above\n{START}\nold\n{END}\nbelow")
    rewrite(page, results)
    text = page.read_text()
    assert text.startswith("above")
    assert text.endswith("below")
    assert "| 1.20 |" in text
    assert "old" not in text
    assert "batch^0.50" in text
    draw(results, tmp_path / "growth.png")
    assert (tmp_path / "growth.png").stat().st_size > 1000
    page.write_text("no marks")
    with pytest.raises(ConfigError, match="no place for tables"):
        rewrite(page, results)


def test_sides_in_another_precision_and_on_another_device(capsys):
    seen = []

    layer = torch.nn.Linear(2, 2)
    use_precision("bf16")
    try:
        answer(lambda x: seen.append(layer(x).dtype) or x, torch.ones(1, 2))()
    finally:
        use_precision("float32")
    assert seen == [torch.bfloat16]
    with torch.device("meta"):
        sides = CASES["resnet 16ch-32px"].make(False)
        assert sides["resnet channels-last"]() is None
    if not torch.cuda.is_available():
        assert_refused(run_command(capsys, "bench", "--device", "cuda"), 2, "no GPU", "--device cpu")
    assert_refused(run_command(capsys, "bench", "--precision", "fp8"), 2, "fp8", "bf16")


def test_results_that_are_not_there_are_told(capsys, tmp_path):
    assert_refused(run_command(capsys, "bench", "--tables", tmp_path / "none.json"), 2, "none.json", "bench --out")
