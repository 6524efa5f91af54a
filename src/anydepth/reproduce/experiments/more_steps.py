"""Do more steps, or a higher order, help a net whose kernels stay, and one whose kernels evolve (ANODEV2 sec 1)?"""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from anydepth.recipes.anodev2 import config
from anydepth.reproduce import EXPERIMENTS
from anydepth.reproduce.experiment import Claim, Experiment, Findings, Verdict
from anydepth.reproduce.judging import RULE, differences, is_above, spread
from anydepth.reproduce.study import Study
from anydepth.train.config import RunConfig
from anydepth.train.override import override
from anydepth.train.runs import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KERNELS = {"stay": {"basis": "constant", "size": 1}, "evolve": {"evolution": "rda"}}
SOLVERS = (("euler", 1), ("euler", 2), ("euler", 5), ("midpoint", 2), ("rk4", 2))
FIRST = SOLVERS[0]
MARGIN = 1.0
"""Points that count as a gain."""


@dataclass(frozen=True)
class Settings:
    """Changes of the recipe of ANODE with ResNet-4."""

    changes: tuple[str, ...]


_DIGITS = ('data={"name":"digits","validation":0}', "optimizer.lr=0.05", 'schedule={"name":"cosine","warmup":20}')
SETTINGS = {
    "smoke": Settings((*_DIGITS, "data.limit=64", "model.options.width=2", "training.epochs=1", "training.batch=32")),
    "cpu": Settings((*_DIGITS, "training.epochs=20", "training.batch=50")),
    "paper": Settings(()),
}


def config_for(kernels: str, scheme: str, steps: int, seed: int, settings: Settings) -> RunConfig:
    """One batch norm per step, and gradients through the steps."""
    weights = {"conv*.weight": KERNELS[kernels], "*": {"basis": "constant", "size": steps}}
    options = (
        f"model.options.weights={json.dumps(weights)}",
        f"model.options.scheme={scheme}",
        f"model.options.steps={steps}",
        f"model.segment={steps}",
    )
    return override(config("resnet4", "anode"), [*settings.changes, *options, f"seed={seed}"])


def run(study: Study) -> Findings:
    cells = [(kernels, *solver) for kernels in KERNELS for solver in SOLVERS]
    study.plan(len(cells) * len(study.seeds))
    found: dict[tuple[str, str, int], list[float]] = {cell: [] for cell in cells}
    for seed in study.seeds:
        for cell in cells:
            kernels, scheme, steps = cell
            title = f"more-steps-{kernels}-{scheme}-{steps}"
            made = config_for(kernels, scheme, steps, seed, study.settings)
            found[cell].append(study.piece(f"{title}-{seed}", lambda t=title, c=made: _tested(study.trained(t, c))))
    rows = tuple(
        (kernels, f"{scheme} x {steps}", float(np.mean(values)), min(values), max(values))
        for (kernels, scheme, steps), values in found.items()
    )
    columns = ("kernels", "solver", "test accuracy (%)", "lowest", "highest")
    notes = (
        f"ResNet-4 by the recipe `anodev2-resnet4-anode`; changes: {', '.join(study.settings.changes) or 'none'}. One "
        f"batch norm per step. A gain is a mean of at least {MARGIN:g} point above one Euler step, and decided. {RULE}"
    )
    return Findings(columns, rows, _verdicts(found), lambda: _draw(found), notes)


def _tested(run: Run) -> float:
    return next(line["test_accuracy"] for line in run.metrics() if "test_accuracy" in line)


def _verdicts(found: dict[tuple[str, str, int], list[float]]) -> tuple[Verdict, ...]:
    gains = {
        kernels: {
            f"{scheme} x {steps}": differences(found[kernels, scheme, steps], found[kernels, *FIRST])
            for scheme, steps in SOLVERS[1:]
        }
        for kernels in KERNELS
    }
    told = {
        kernels: "points above one Euler step: "
        + ", ".join(f"{name} {spread(values)}" for name, values in some.items())
        for kernels, some in gains.items()
    }
    helps = {
        kernels: any(float(np.mean(values)) >= MARGIN and is_above(values) for values in some.values())
        for kernels, some in gains.items()
    }
    plain = Claim("More steps or a higher order do not help where kernels stay", "A section 1", "no gain")
    mended = Claim("Kernels that evolve mend that", "A section 1", "addresses the challenge")
    return (
        Verdict(plain, told["stay"], not helps["stay"]),
        Verdict(mended, told["evolve"], helps["evolve"] if not helps["stay"] else None),
    )


def _draw(found: dict[tuple[str, str, int], list[float]]) -> "Figure":
    import matplotlib.pyplot as plt

    figure, place = plt.subplots(figsize=(7, 4), constrained_layout=True)
    for kernels, colour, shift in (("stay", "#c2571a", -0.08), ("evolve", "#0b6e99", 0.08)):
        for x, (scheme, steps) in enumerate(SOLVERS):
            values: list[Any] = found[kernels, scheme, steps]
            label = f"kernels {kernels}" if x == 0 else None
            place.plot([x + shift] * len(values), values, "o", color=colour, alpha=0.8, label=label)
    place.set_xticks(range(len(SOLVERS)), [f"{scheme} x {steps}" for scheme, steps in SOLVERS])
    place.set(ylabel="test accuracy (%)")
    place.legend()
    place.grid(alpha=0.25, axis="y")
    return figure


EXPERIMENTS.add(
    "more-steps",
    Experiment("More steps and higher order, with kernels that stay or evolve", "ANODEV2, section 1", SETTINGS, run),
)
