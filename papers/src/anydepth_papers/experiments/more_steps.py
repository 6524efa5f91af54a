"""Do more steps, or a higher order, help a net whose kernels stay, and one whose kernels evolve (ANODEV2 sec 1)?"""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from anydepth.depth.schemes import SCHEMES
from anydepth.runs.config import RunConfig
from anydepth.runs.folder import Run
from anydepth.runs.override import override
from anydepth_papers.experiments import EXPERIMENTS
from anydepth_papers.judge.experiment import Claim, ClaimVerdict, Experiment, Findings
from anydepth_papers.judge.rules import Judgement, all_of, better, no_worse, undecided
from anydepth_papers.judge.study import Study
from anydepth_papers.judge.wording import differences, spread
from anydepth_papers.nets.image_nets import uses_depth
from anydepth_papers.recipes.anodev2 import config

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KERNELS = ("stay", "evolve")
SOLVERS = (("euler", 1), ("euler", 2), ("euler", 5), ("midpoint", 2), ("rk4", 2))
ONE, TWO, FIVE, MIDPOINT, RK4 = SOLVERS
CONTROL = ("separate", *FIVE)
"""A plain ResNet of five units, x + f(x) each, with kernels of their own: what depth can give on this data."""
CELLS = (*((kernels, *solver) for kernels in KERNELS for solver in SOLVERS), CONTROL)
MARGIN = 1.0
"""Points that count as a gain."""
CLAIMS = {
    "stay": Claim(
        "With kernels that stay, 2 or 5 Euler steps are at most 1 point above one", "A sections 1, 2.1", "no gain"
    ),
    "stay, order": Claim(
        "With kernels that stay, 2 steps of midpoint or RK4 are at most 1 point above 2 of Euler",
        "A sections 1, 2.1",
        "no gain",
    ),
    "evolve": Claim(
        "With kernels that evolve, 5 Euler steps are better than one", "A section 1", "addresses the challenge"
    ),
    "evolve, order": Claim(
        "With kernels that evolve, 2 steps of RK4 are better than 2 of Euler", "A section 1", "addresses the challenge"
    ),
}
"""They decide only where the control is more than 5 points above one step."""


@dataclass(frozen=True)
class Settings:
    """Changes of the recipe of ANODE with ResNet-4."""

    changes: tuple[str, ...]


_DIGITS = ('data={"name":"digits","validation":0}', "optimizer.lr=0.05", 'schedule={"name":"cosine","warmup":20}')
SETTINGS = {
    "smoke": Settings((*_DIGITS, "data.limit=64", "model.options.width=2", "training.epochs=1", "training.batch=32")),
    "cpu": Settings((*_DIGITS, "model.options.width=4", "training.epochs=20", "training.batch=50")),
    "paper": Settings(()),
}
Cell = tuple[str, str, int]
Found = dict[Cell, list[float]]


def config_for(cell: Cell, seed: int, settings: Settings) -> RunConfig:
    """One batch norm per step, and gradients through the steps."""
    kernels, scheme, steps = cell
    one = {"basis": "constant", "size": steps if kernels == "separate" else 1}
    weights = {
        "conv*.weight": {"evolution": "rda"} if kernels == "evolve" else one,
        "*": {"basis": "constant", "size": steps},
    }
    start, scale = ("independent", steps) if kernels == "separate" else ("shared", 1)
    options = (
        f"model.options.weights={json.dumps(weights)}",
        f"model.options.init={start}",
        f"model.options.scale={scale}",
        f"model.options.scheme={scheme}",
        f"model.options.steps={steps}",
        f"model.segment={steps}",
    )
    return override(config("resnet4", "anode"), [*settings.changes, *options, f"seed={seed}"])


def run(study: Study) -> Findings:
    study.plan(len(CELLS) * len(study.seeds))
    found: Found = {cell: [] for cell in CELLS}
    for seed in study.seeds:
        for cell, values in found.items():
            title = "-".join(("more-steps", *map(str, cell)))
            made = config_for(cell, seed, study.settings)
            values.append(study.piece(f"{title}-{seed}", lambda t=title, c=made: _tested(study.trained(t, c))))
    rows = tuple(
        (
            kernels,
            f"{scheme} x {steps}",
            SCHEMES[scheme].stages * steps,
            float(np.mean(values)),
            min(values),
            max(values),
        )
        for (kernels, scheme, steps), values in found.items()
    )
    columns = ("kernels", "solver", "evaluations", "test accuracy (%)", "lowest", "highest")
    return Findings(columns, rows, verdicts_of(found), lambda: _draw(found), _notes(study.settings))


def _notes(settings: Settings) -> tuple[str, ...]:
    return (
        f"ResNet-4 by the recipe `anodev2-resnet4-anode`; changes: {', '.join(settings.changes) or 'none'}.",
        "Every net is trained with the solver that it is tested with; evaluations are those of the unit for one image.",
        "One batch norm per step. `separate`, the control: a plain ResNet, x + f(x) with kernels of its own for every "
        "unit.",
        "Seeds are paired: runs of one seed share the order of the data and, but for `separate`, the initial weights.",
        "The claims decide only where the control is more than 5 points above one step: else depth does not pay here.",
    )


def _tested(run: Run) -> float:
    return next(line["test_accuracy"] for line in run.metrics() if "test_accuracy" in line)


def verdicts_of(found: Found) -> tuple[ClaimVerdict, ...]:
    """By the seeds' test accuracies."""
    parts = {
        "stay": [_gain(found, "stay", solver, ONE) for solver in (TWO, FIVE)],
        "stay, order": [_gain(found, "stay", solver, TWO) for solver in (MIDPOINT, RK4)],
        "evolve": [_gain(found, "evolve", FIVE, ONE)],
        "evolve, order": [_gain(found, "evolve", RK4, TWO)],
    }
    pays = does_depth_pay(found)
    return tuple(_verdict(claim, parts[name], name.startswith("evolve"), pays) for name, claim in CLAIMS.items())


Solver = tuple[str, int]


def _gain(found: Found, kernels: str, solver: Solver, base: Solver) -> tuple[str, list[float], list[float]]:
    return f"{solver[0]} x {solver[1]}", found[kernels, *solver], found[kernels, *base]


def _verdict(
    claim: Claim, parts: list[tuple[str, list[float], list[float]]], is_gain_claimed: bool, pays: bool
) -> ClaimVerdict:
    told = ", ".join(f"{name} {spread(differences(after, before))} points" for name, after, before in parts)
    judge = _better if is_gain_claimed else _no_gain
    judgement = all_of(*(judge(after, before) for _, after, before in parts))
    if not pays:
        judgement = undecided(
            "five units with kernels of their own are not 5 points above one: depth does not pay here"
        )
    return ClaimVerdict(claim, told, judgement)


def _better(after: list[float], before: list[float]) -> Judgement:
    return better(after, before, paired=True)


def _no_gain(after: list[float], before: list[float]) -> Judgement:
    return no_worse(before, after, MARGIN, paired=True)


def does_depth_pay(found: Found) -> bool:
    """Whether five units with their own kernels are more than 5 points above one."""
    one, own = dict(enumerate(found["stay", *ONE])), dict(enumerate(found[CONTROL]))
    return bool(uses_depth({"separate": own}, "separate", one, float))


def _draw(found: Found) -> "Figure":
    import matplotlib.pyplot as plt

    figure, place = plt.subplots(figsize=(7, 4), constrained_layout=True)
    looks = {"stay": ("#c2571a", -0.1), "evolve": ("#0b6e99", 0.0), "separate": ("#5b5b5b", 0.1)}
    seen: set[str] = set()
    for (kernels, scheme, steps), values in found.items():
        colour, shift = looks[kernels]
        label: Any = None if kernels in seen else f"kernels {kernels}"
        x = SOLVERS.index((scheme, steps)) + shift
        place.plot([x] * len(values), values, "o", color=colour, alpha=0.8, label=label)
        seen.add(kernels)
    place.set_xticks(range(len(SOLVERS)), [f"{scheme} x {steps}" for scheme, steps in SOLVERS])
    place.set(ylabel="test accuracy (%)")
    place.legend()
    place.grid(alpha=0.25, axis="y")
    return figure


EXPERIMENTS.add(
    "more-steps",
    Experiment(
        "More steps and higher order, with kernels that stay or evolve", "ANODEV2, section 1", SETTINGS, run, seeds=5
    ),
)
