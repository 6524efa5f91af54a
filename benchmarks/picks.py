"""How often a picked form exceeds the drop that was asked for: validation images drawn anew, many times.

Run: .venv/bin/python benchmarks/picks.py RUN [--data DIR] [--threads N] [--draws N] [--out FILE]

The run's own validation images are all there is in this world, so that the true drop of every form is known. From them
so many are drawn, with replacement, and the smallest form is picked that keeps a drop by them. Budgets are hard ones:
just below the true drop of some form, so that this form must not be picked. `misses` are per cent of the picks that
exceed their budget, on average over these budgets and for the worst of them. Test images are not read.
"""

import argparse
import json
from functools import cache
from itertools import product
from pathlib import Path

import torch

from anydepth import artifact
from anydepth.deploy.sweeps.candidates import axes_of
from anydepth.deploy.sweeps.result import RIVALS
from anydepth.deploy.sweeps.sweep import threads_set_to
from anydepth.deploy.sweeps.sweep_inputs import inputs_of_run
from anydepth.measure.paired import Answers
from anydepth.runs.folder import Run, open_run
from anydepth.surgery.forms import form_of, in_form
from anydepth.surgery.summary import summary

COUNTS = (100, 200, 400, 1000, 3000)
"""Images drawn."""
RULES = {"as measured": None, "95 % of each": 0.95, "95 % of the pick": 1 - 0.05 / RIVALS}
"""The confidence in the bound of one form."""
LARGEST, BELOW = 20.0, 0.004
"""Points: the largest budget, and how far it is below a true drop."""


def answers(run: Run, data: Path | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Of every form what is lost (1) and gained (-1) on every image, the smallest first; and which is the source."""
    meter = inputs_of_run(run, data, "validation", None, 1, 1).meter
    labels = torch.cat([part.targets.cpu() for part in meter.examples or ()])
    source, rows = form_of(meter.model), []
    for candidate in [source, *(form for form in axes_of(meter.model).candidates() if form != source)]:
        model = meter.model if candidate == source else in_form(meter.model, candidate)
        outputs = meter.outputs(model)
        if outputs is not None:
            told = summary(model)
            right = torch.cat([out.argmax(-1) for out in outputs]) == labels
            rows.append((told.parameters, told.nfe, candidate == source, right.int()))
    first = rows[0][-1]
    rows.sort(key=lambda row: row[:2])
    return torch.stack([first - row[-1] for row in rows]), torch.tensor([row[2] for row in rows])


@cache
def bound(count: int, lost: int, gained: int, confidence: float | None) -> float:
    drop = 100 * (lost - gained) / count
    return drop if confidence is None else Answers(count, lost, gained).upper(confidence)


def misses(
    changes: torch.Tensor, is_source: torch.Tensor, count: int, confidence: float | None, draws: int
) -> list[float]:
    """Per cent of picks that exceed a budget, for every budget."""
    true = 100 * changes.double().mean(1)
    limits = sorted({round(drop - BELOW, 3) for drop in true.tolist() if 0.05 < drop < LARGEST})
    generator, missed = torch.Generator().manual_seed(0), torch.zeros(len(limits))
    for _ in range(draws):
        drawn = changes[:, torch.randint(changes.shape[1], (count,), generator=generator)]
        pairs = zip((drawn == 1).sum(1).tolist(), (drawn == -1).sum(1).tolist(), strict=True)
        bounds = torch.tensor([bound(count, *pair, confidence) for pair in pairs]).masked_fill(is_source, 0.0)
        for place, limit in enumerate(limits):
            missed[place] += true[(bounds <= limit).int().argmax()] > limit
    return (100 * missed / draws).tolist()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--out", type=Path, help="write the results as JSON")
    given = parser.parse_args()
    with threads_set_to(given.threads):
        changes, is_source = answers(open_run(given.run), given.data)
    told = {}
    for count, (name, confidence) in product(COUNTS, RULES.items()):
        shares = misses(changes, is_source, count, confidence, given.draws)
        share = {"mean": round(sum(shares) / len(shares), 1), "worst": round(max(shares), 1)}
        told[f"{count} images, {name}"] = share
    found = {"forms": len(changes), "images": changes.shape[1], "draws": given.draws, "misses": told}
    if given.out is not None:
        artifact.write_json(given.out, found)
    print(json.dumps(found, indent=2))  # noqa: T201


if __name__ == "__main__":
    main()
