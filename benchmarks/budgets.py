"""Ten budgets for one run: is every pick within its budget on fresh measurements, and as good as the sweep allows?

Run: .venv/bin/python benchmarks/budgets.py RUN [--data DIR] [--threads N] [--out FILE]

For every budget the pick is checked apart from the sweep that chose it: a budget is met if the drop on the test part,
the latency, measured afresh in turns with the source, and the parameters are all within it. A pick is near the best
when what it was picked by is within 10 % of that of the best form of the sweep that fits the budget by the rule that
picks, where a drop is kept if its upper bound is. For a drop it is also told how far the pick is from the best form
whose drop on the test part is within the budget, which nobody can know who chooses, and what would have been picked by
drops as measured.
"""

import argparse
import json
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path

from anydepth import artifact
from anydepth.deploy.sweeps.budget import Budget
from anydepth.deploy.sweeps.pick import ROUNDS, pick
from anydepth.deploy.sweeps.result import FormRow, Sweep
from anydepth.deploy.sweeps.sweep import sweep, threads_set_to
from anydepth.deploy.sweeps.sweep_inputs import inputs_of_run
from anydepth.errors import BudgetError
from anydepth.measure.form_meter import FormMeter
from anydepth.measure.paired import drop_of, loss_in
from anydepth.runs.folder import open_run
from anydepth.surgery.forms import in_form

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


def is_near(table: Sweep, budget: Budget, picked: FormRow) -> bool:
    """Whether the pick is within 10 % of the best row that fits, in what it was picked by."""
    best = table.ranked(budget)[0]
    if budget.is_drop_alone:
        return picked.parameters <= (1 + NEAR) * best.parameters
    mine, its = loss_in(table.metric, picked.value), loss_in(table.metric, best.value)
    return mine <= its + NEAR * abs(its)


@dataclass(frozen=True)
class Check:
    """One run: what picks see, and what they are judged by."""

    table: Sweep
    meter: FormMeter
    drops: dict[str, float]
    """Of every form on the test part."""

    def budget(self, budget: Budget) -> dict[str, object]:
        """What became of one budget."""
        meter = self.meter
        try:
            picked = pick(self.table, budget, lambda row: meter.cost(in_form(meter.model, row.form)).latency_ms)
        except BudgetError as error:
            return {"budget": budget.describe(), "is_met": False, "reason": str(error)}
        found = {"budget": budget.describe(), **self._verdict(budget, picked.row)}
        return found | (self._by_test(budget, picked.row) if budget.max_drop is not None else {})

    def _verdict(self, budget: Budget, row: FormRow) -> dict[str, object]:
        model, table, drop = in_form(self.meter.model, row.form), self.table, self.drops[row.name]
        fresh = self.meter.cost(model).latency_ms
        is_small = budget.max_params is None or sum(p.numel() for p in model.parameters()) <= budget.max_params
        is_quick, is_timely = (
            budget.max_latency_ms is None or fresh <= (1 + late) * budget.max_latency_ms for late in (LATE, 0)
        )
        return {
            "picked": row.name,
            "parameters": row.parameters,
            f"{table.split}_{table.metric}": row.value,
            f"{table.split}_drop": round(table.drop(row), 4),
            "most_drop": round(table.most_drop(row), 4),
            "test_drop": round(drop, 4) if isfinite(drop) else None,
            "fresh_latency_ms": round(fresh, 4),
            "is_met": is_quick and is_small and budget.tolerates(drop),
            "is_met_to_the_letter": is_timely and is_small and budget.tolerates(drop),
            "is_near_the_best": is_near(table, budget, row),
            "best_on_the_sweep": table.ranked(budget)[0].name,
        }

    def _by_test(self, budget: Budget, row: FormRow) -> dict[str, object]:
        """How far from the best whose drop on the test part is within the budget; and the pick by measured drops."""
        measured = self.table.ranked(replace(budget, confidence=0.0))[0]
        told = {"as_measured": measured.name, "as_measured_test_drop": round(self.drops[measured.name], 4)}
        rows = [
            each
            for each in self.table.rows
            if budget.affords(each.parameters, each.latency_ms) and budget.tolerates(self.drops[each.name])
        ]
        if not rows:
            return told
        if budget.is_drop_alone:
            best = min(rows, key=lambda each: (each.parameters, each.latency_ms))
            return told | {"best_by_test": best.name, "times_its_parameters": row.parameters / best.parameters}
        best = min(rows, key=lambda each: self.drops[each.name])
        return told | {"best_by_test": best.name, "points_below_it": self.drops[row.name] - self.drops[best.name]}


def drops_on(test: FormMeter, table: Sweep) -> dict[str, float]:
    """Of all forms."""
    source, found = test.value(test.source_outputs), {}
    for row in table.rows:
        outputs = test.outputs(in_form(test.model, row.form))
        found[row.name] = drop_of(test.metric, None if outputs is None else test.value(outputs), source)
    return found


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
        meter, test = (
            inputs_of_run(run, given.data, part, None, table.settings["batch"], ROUNDS).meter
            for part in ("validation", "test")
        )
        check = Check(table, meter, drops_on(test, table))
        results = [check.budget(budget) for budget in budgets_for(table)]
    found = {
        "settings": table.settings,
        "split": table.split,
        "forms": len(table.rows),
        "test_source": test.value(test.source_outputs),
        "met": sum(bool(result["is_met"]) for result in results),
        "met_to_the_letter": sum(bool(result.get("is_met_to_the_letter")) for result in results),
        "near_the_best": sum(bool(result.get("is_near_the_best")) for result in results),
        "met_and_near": sum(bool(result["is_met"] and result["is_near_the_best"]) for result in results),
        "budgets": results,
    }
    if given.out is not None:
        artifact.write_json(given.out, found)
    print(json.dumps(found, indent=2))  # noqa: T201


if __name__ == "__main__":
    main()
