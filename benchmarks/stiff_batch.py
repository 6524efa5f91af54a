"""A batch with one stiff and 127 gentle examples: steps of its own for every example, against torchode and torchdiffeq.

Prints, for every problem and solver: steps of the stiff and of a gentle example, calls of the field, rows that it was
evaluated on in all (the work), the largest error against a fine solution relative to the tolerance, and the median of
the ratios of times in turns to ours. All use the fifth-order method of Dormand and Prince with the same tolerances.
Run: .venv/bin/python benchmarks/stiff_batch.py  (torchode and torchdiffeq: pip install 'anydepth-papers[bench]')
"""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Tensor

import anydepth as ad
from anydepth.depth.schemes import SCHEMES
from anydepth.depth.times import exact as exact_time
from anydepth.measure.cost import interleaved
from anydepth.solve.adaptive import Adaptive, Tolerance
from anydepth.solve.odeint import FunctionField, FunctionRows
from anydepth.solve.per_example import PerExample
from anydepth_papers.bench.peers import missing

RTOL, ATOL = 1e-5, 1e-7
COUNT, STIFF = 128, 7
DOUBLE, WIDTH = torch.float64, 256
Field = Callable[[Tensor, Tensor, Tensor], Tensor]


def relaxation(t: Tensor, y: Tensor, rate: Tensor) -> Tensor:
    return -rate * (y - torch.cos(t.reshape(-1, 1)))


def van_der_pol(t: Tensor, y: Tensor, rate: Tensor) -> Tensor:
    return torch.stack([y[:, 1], rate[:, 0] * (1 - y[:, 0] ** 2) * y[:, 1] - y[:, 0]], 1)


def wide_net() -> Field:
    """A field that costs something: relaxation to what a net of width 256 says."""
    draw = torch.Generator().manual_seed(0)
    first, second = (torch.randn(*shape, generator=draw, dtype=DOUBLE) / 16 for shape in ((8, WIDTH), (WIDTH, WIDTH)))
    last = torch.randn(WIDTH, 8, generator=draw, dtype=DOUBLE) / 16
    return lambda t, y, rate: -rate * (y - torch.tanh(torch.tanh(y @ first) @ second) @ last)


@dataclass
class Problem:
    f: Field
    width: int
    gentle: float
    stiff: float
    end: float
    calls: list[int] = field(default_factory=list)

    def given(self) -> tuple[Tensor, Tensor]:
        draw = torch.Generator().manual_seed(1)
        y0 = 1 + torch.rand(COUNT, self.width, generator=draw, dtype=DOUBLE)
        rate = self.gentle * (1 + 0.5 * torch.rand(COUNT, 1, generator=draw, dtype=DOUBLE))
        rate[STIFF] = self.stiff
        return y0, rate

    def counted(self, t: Tensor, y: Tensor, rate: Tensor) -> Tensor:
        self.calls.append(len(y))
        return self.f(t, y, rate)


PROBLEMS = {
    "relaxation": Problem(relaxation, 1, 1.0, 300.0, 5.0),
    "Van der Pol": Problem(van_der_pol, 2, 1.0, 60.0, 5.0),
    "net of width 256": Problem(wide_net(), 8, 1.0, 100.0, 2.0),
}
TOLERANCE = Tolerance(RTOL, ATOL, 10**6, per_example=True)


def ours(f: Field, y0: Tensor, rate: Tensor, end: float, per_example: bool = True) -> Tensor:
    def shared(t: Tensor, y: Tensor, rate: Tensor) -> Tensor:
        return f(t.expand(len(y)) if t.dim() == 0 else t, y, rate)

    options: dict[str, Any] = {"rtol": RTOL, "atol": ATOL, "per_example": per_example}
    return ad.odeint(shared, y0, (0, end), args=(rate,), max_steps=100_000, **options)[-1]


def torchode(f: Field, y0: Tensor, rate: Tensor, end: float) -> Any:
    import torchode as to

    term = to.ODETerm(f, with_args=True)  # pyright: ignore
    solver = to.AutoDiffAdjoint(to.Dopri5(term), to.IntegralController(ATOL, RTOL, term=term))  # pyright: ignore
    start = torch.zeros(len(y0), dtype=DOUBLE)
    problem = to.InitialValueProblem(y0=y0, t_start=start, t_end=start + end)  # pyright: ignore
    return solver.solve(problem, args=rate)


def torchdiffeq(f: Field, y0: Tensor, rate: Tensor, end: float) -> Tensor:
    from torchdiffeq import odeint

    times = torch.tensor([0.0, end], dtype=DOUBLE)
    return odeint(lambda t, y: f(t.expand(len(y)), y, rate), y0, times, rtol=RTOL, atol=ATOL, method="dopri5")[-1]  # pyright: ignore


def one_step_for_all(f: Field, y0: Tensor, rate: Tensor, end: float) -> Tensor:
    return ours(f, y0, rate, end, per_example=False)


def sides() -> dict[str, Callable[..., Any]]:
    own: dict[str, Callable[..., Any]] = {"anydepth": ours, "anydepth, one step for all": one_step_for_all}
    others = {"torchode": torchode, "torchdiffeq": torchdiffeq}
    return own | {name: run for name, run in others.items() if missing(name) is None}


def measured(problem: Problem, rounds: int) -> dict[str, Any]:
    y0, rate = problem.given()
    fine: dict[str, Any] = {"rtol": 1e-11, "atol": 1e-13, "per_example": True, "max_steps": 10**6}
    exact = ad.odeint(problem.f, y0, (0, problem.end), args=(rate,), **fine)[-1]
    found = {side: counted(side, run, problem, exact) for side, run in sides().items()}
    found["anydepth"] |= evaluations(problem)
    runs = {side: partial(run, problem.f, y0, rate, problem.end) for side, run in sides().items()}
    seconds = interleaved(runs, rounds)
    for side, times in seconds.items():
        ratios = [mine / its for mine, its in zip(times, seconds["anydepth"], strict=True)]
        found[side] |= {"milliseconds": round(1e3 * median(times), 1), "ratio": round(median(ratios), 3)}
    return found


def counted(side: str, run: Callable[..., Any], problem: Problem, exact: Tensor) -> dict[str, Any]:
    """Calls of the field and rows in all, and the largest error over the tolerance."""
    problem.calls.clear()
    answer = run(problem.counted, *problem.given(), problem.end)
    end = answer.ys[:, -1] if side == "torchode" else answer
    error = float(((end - exact).abs() / (ATOL + RTOL * exact.abs())).amax())
    found: dict[str, Any] = {"calls": len(problem.calls), "rows": sum(problem.calls), "error": round(error, 2)}
    if side == "torchode":
        found |= spread(answer.stats["n_steps"], "steps")
    return found


def evaluations(problem: Problem) -> dict[str, Any]:
    """Of every example in a batch, and alone."""
    y0, rate = problem.given()
    field = FunctionField(problem.f, False, (y0,), (), (rate,))
    run = PerExample(FunctionRows(field), SCHEMES["dopri54"], TOLERANCE, "odeint")
    (_, (together,)) = run.states((y0,), (Fraction(0), exact_time(problem.end)))
    alone = torch.zeros(COUNT, dtype=torch.int64)
    gap = 0.0
    for i in range(COUNT):
        field = FunctionField(problem.f, False, (y0[i : i + 1],), (), (rate[i : i + 1],))
        one = Adaptive(field, SCHEMES["dopri54"], Tolerance(RTOL, ATOL, 10**6), "odeint")
        (_, (end,)) = one.states((y0[i : i + 1],), (Fraction(0), exact_time(problem.end)))
        alone[i] = one.stats.evaluations
        gap = max(gap, float((end - together[i : i + 1]).abs().amax() / (ATOL + RTOL * end.abs().amax())))
    told = {"same evaluations as alone": int((run.spent.evaluations == alone).sum()), "gap to alone": gap}
    return spread(run.spent.accepted + run.spent.rejected, "steps") | spread(alone, "evaluations alone") | told


def spread(counts: Tensor, what: str) -> dict[str, float]:
    gentle = counts[torch.arange(COUNT) != STIFF].double().mean()
    return {f"{what}, stiff": int(counts[STIFF]), f"{what}, gentle": round(float(gentle), 1)}


def main(rounds: int) -> None:
    torch.set_num_threads(1)
    for name, problem in PROBLEMS.items():
        for side, told in measured(problem, rounds).items():
            print(f"{name}; {side}:", json.dumps(told), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
