"""Ten budgets for one run: is every pick within its budget on fresh measurements, and as good as the sweep allows?

Run: .venv/bin/python benchmarks/budgets.py RUN [--data DIR] [--threads N] [--out FILE]

For every budget the pick is checked apart from the sweep that chose it: its accuracy on the test part beside that of
the run itself, and its latency measured afresh in turns with the source. A pick is near the best when what it was
picked by is within 10 % of that of the best form of the sweep that fits the budget.
"""

import argparse
import json
from math import isfinite
from pathlib import Path

from anydepth import artifact
from anydepth.deploy.sweeps.bench import Bench
from anydepth.deploy.sweeps.budget import Budget
from anydepth.deploy.sweeps.candidates import made
from anydepth.deploy.sweeps.inputs import given_by_run
from anydepth.deploy.sweeps.metrics import drop_of, loss_in
from anydepth.deploy.sweeps.pick import ROUNDS, Picked, pick
from anydepth.deploy.sweeps.sweep import sweep, threads_set_to
from anydepth.deploy.sweeps.table import Row, Sweep
from anydepth.errors import BudgetError
from anydepth.train.runs import open_run

NEAR = 0.1
"""Share of the best feasible value that a pick may be off."""
LATE = 0.1
"""Share by which a fresh latency may exceed a budget before it counts as missed: the noise of a clock."""


def budgets_for(table: Sweep) -> list[Budget]:
    """Ten that range from tight to generous: three for parameters, three for latency, two for the drop, two mixed."""
    source = table.source
    sizes = sorted({row.parameters for row in table.rows})
    times = sorted(row.latency_ms for row in table.rows)

    def time(share: float) -> float:
        return round(1.15 * times[int(share * (len(times) - 1))], 6)

    return [
        Budget(max_params=sizes[0]),
        Budget(max_params=sizes[len(sizes) // 2]),
        Budget(max_params=source.parameters - 1 if len(sizes) > 1 else source.parameters),
        Budget(max_latency_ms=time(0.1)),
        Budget(max_latency_ms=time(0.4)),
        Budget(max_latency_ms=time(0.8)),
        Budget(max_drop=1.0),
        Budget(max_drop=5.0),
        Budget(max_params=sizes[len(sizes) // 2], max_latency_ms=time(0.5)),
        Budget(max_latency_ms=time(0.6), max_drop=5.0),
    ]


def is_near(table: Sweep, budget: Budget, picked: Row) -> bool:
    """Whether the pick is within 10 % of the best row that fits, in what it was picked by."""
    best = table.ranked(budget)[0]
    if budget.is_drop_alone:
        return picked.parameters <= (1 + NEAR) * best.parameters
    mine, its = loss_in(table.metric, picked.value), loss_in(table.metric, best.value)
    return mine <= its + NEAR * abs(its)


def checked(table: Sweep, budget: Budget, bench: Bench, test: Bench) -> dict[str, object]:
    """What became of one budget."""
    try:
        picked = pick(table, budget, lambda row: bench.cost(made(bench.model, row.candidate)).latency_ms)
    except BudgetError as error:
        return {"budget": budget.describe(), "is_met": False, "reason": str(error)}
    return {"budget": budget.describe(), **_verdict(table, budget, picked, bench, test)}


def _verdict(table: Sweep, budget: Budget, picked: Picked, bench: Bench, test: Bench) -> dict[str, object]:
    model = made(bench.model, picked.row.candidate)
    outputs = test.outputs(model)
    value = None if outputs is None else test.value(outputs)
    drop = drop_of(test.metric, value, test.value(test.source_outputs))
    fresh = bench.cost(model).latency_ms
    is_quick = budget.max_latency_ms is None or fresh <= (1 + LATE) * budget.max_latency_ms
    is_small = budget.max_params is None or sum(p.numel() for p in model.parameters()) <= budget.max_params
    return {
        "picked": picked.row.name,
        f"chosen_by_{table.split}_{table.metric}": picked.row.value,
        f"test_{test.metric}": value,
        "test_drop": round(drop, 4) if isfinite(drop) else None,
        "test_drop_within_budget": budget.tolerates(drop),
        "fresh_latency_ms": round(fresh, 4),
        "is_met": is_quick and is_small,
        "is_near_the_best": is_near(table, budget, picked.row),
        "best_on_the_sweep": table.ranked(budget)[0].name,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--out", type=Path, help="write the results as JSON")
    given = parser.parse_args()
    run = open_run(given.run)
    with threads_set_to(given.threads):
        table = sweep(run, data=given.data, rounds=given.rounds)
        bench, test = (
            given_by_run(run, given.data, part, None, table.settings["batch"], ROUNDS).bench
            for part in ("validation", "test")
        )
        results = [checked(table, budget, bench, test) for budget in budgets_for(table)]
    found = {
        "settings": table.settings,
        "split": table.split,
        "forms": len(table.rows),
        "test_source": test.value(test.source_outputs),
        "met": sum(bool(result["is_met"]) for result in results),
        "near_the_best": sum(bool(result.get("is_near_the_best")) for result in results),
        "drop_kept_on_test": sum(bool(result.get("test_drop_within_budget")) for result in results),
        "budgets": results,
    }
    if given.out is not None:
        artifact.write_json(given.out, found)
    print(json.dumps(found, indent=2))  # noqa: T201


if __name__ == "__main__":
    main()
