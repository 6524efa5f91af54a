"""Constants or hats, fixed depth or refinement: what makes a net compressible (Stateful ODE-Nets, Table 4)?"""

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from anydepth.reproduce import EXPERIMENTS
from anydepth.reproduce.experiment import Claim, Experiment, Findings, Verdict
from anydepth.reproduce.images import image_config
from anydepth.reproduce.study import Study
from anydepth.surgery.resize import compress
from anydepth.surgery.summary import summary
from anydepth.train.config import RunConfig
from anydepth.train.evaluate import evaluate
from anydepth.train.runs import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZES = {"constant": (1, 8, 4), "linear": (2, 9, 5)}
"""Functions at the start of growth, at the end of training, and halved (17 -> 9 and 9 -> 5 hats in the paper)."""
SCHEDULES = ("fixed", "refined")
CELLS = [(basis, schedule) for basis in SIZES for schedule in SCHEDULES]

_COMMON = {"batch": 64, "warmup": 40}
_SMOKE = _COMMON | {
    "data": {"name": "digits", "limit": 200, "validation": 50},
    "epochs": 4,
    "at": [1, 2, 3],
    "channels": [4],
    "pool": 4,
}
_CPU = _COMMON | {
    "data": {"name": "cifar10", "limit": 5000, "validation": 1000, "crop": 4, "flip": True},
    "epochs": 9,
    "at": [2, 5, 8],
    "channels": [8, 16],
    "pool": 8,
}
_PAPER = _COMMON | {
    "data": {"name": "cifar10", "validation": 5000, "crop": 4, "flip": True},
    "epochs": 200,
    "at": [20, 40, 70],
    "channels": [16, 32, 64],
    "pool": 8,
}


def config_for(basis: str, schedule: str, seed: int, settings: dict[str, Any]) -> RunConfig:
    """Midpoint, 8 steps and the full size from the start, or grown to them."""
    start, end, _ = SIZES[basis]
    if schedule == "fixed":
        return image_config(seed, settings, (), basis=basis, size=end, steps=8, scheme="midpoint")
    return image_config(seed, settings, settings["at"], basis=basis, size=start, steps=1, scheme="midpoint")


def run(study: Study) -> Findings:
    study.plan(len(CELLS) * len(study.seeds))
    found: dict[str, list[dict[str, Any]]] = {_name(*cell): [] for cell in CELLS}
    for seed in study.seeds:
        for basis, schedule in CELLS:
            config = config_for(basis, schedule, seed, study.settings)
            title = f"basis-{basis}-{schedule}"
            found[_name(basis, schedule)].append(
                study.piece(
                    f"{title}-{seed}", lambda b=basis, t=title, c=config: _examine(study, b, study.trained(t, c))
                )
            )
    rows = tuple(
        (
            name,
            *(float(np.mean([one[key] for one in seeds])) for key in ("trained", "half", "drop")),
            float(np.std([one["drop"] for one in seeds])),
            f"{seeds[0]['parameters']:,} -> {seeds[0]['parameters at half']:,}",
        )
        for name, seeds in found.items()
    )
    data = json.dumps(study.settings["data"])
    notes = (
        f"Midpoint with 8 steps, channels {study.settings['channels']}, {study.settings['epochs']} epochs, "
        f"data {data}; test accuracy in per cent on all test images, read after training. Halving projects 8 constants "
        "onto 4, 9 hats onto 5."
    )
    columns = ("net", "trained", "halved", "drop", "spread of drop", "parameters")
    return Findings(columns, rows, _verdicts(found), lambda: _draw(found), notes)


def _name(basis: str, schedule: str) -> str:
    return f"{'hats' if basis == 'linear' else 'constants'}, {schedule}"


def _examine(study: Study, basis: str, run: Run) -> dict[str, Any]:
    model, test = run.model(), run.dataset(study.data).part("test")
    small = compress(model, size=SIZES[basis][2])
    trained, half = (
        round(evaluate(net, test, run.facts, run.config.evaluation.batch).value, 3) for net in (model, small)
    )
    return {
        "trained": trained,
        "half": half,
        "drop": trained - half,
        "parameters": summary(model).parameters,
        "parameters at half": summary(small).parameters,
    }


def _verdicts(found: dict[str, list[dict[str, Any]]]) -> tuple[Verdict, ...]:
    drops = {name: float(np.mean([one["drop"] for one in seeds])) for name, seeds in found.items()}
    shown = ", ".join(f"{name} {drop:.2f}" for name, drop in drops.items())
    by_schedule = np.mean(
        [drops["constants, fixed"] - drops["constants, refined"], drops["hats, fixed"] - drops["hats, refined"]]
    )
    by_basis = np.mean(
        [drops["constants, fixed"] - drops["hats, fixed"], drops["constants, refined"] - drops["hats, refined"]]
    )
    return (
        Verdict(
            Claim(
                "Refined hats lose far less than constants of fixed depth when halved",
                "S Table 4, c1 and c2",
                "92.4 -> 91.8 against 94.1 -> 60.5 %",
            ),
            f"points lost on average: {shown}",
            drops["hats, refined"] <= drops["constants, fixed"] / 3,
        ),
        Verdict(
            Claim("It is the basis as well as the schedule that helps", "S Table 4, which changes both"),
            f"of the points lost, the schedule saves {by_schedule:.2f} and the basis {by_basis:.2f} on average",
            bool(by_schedule > 0 and by_basis > 0),
        ),
    )


def _draw(found: dict[str, list[dict[str, Any]]]) -> "Figure":
    import matplotlib.pyplot as plt

    figure, place = plt.subplots(figsize=(7, 4), constrained_layout=True)
    for x, (name, seeds) in enumerate(found.items()):
        colour = "#0b6e99" if "refined" in name else "#c2571a"
        for one in seeds:
            place.plot([x - 0.15, x + 0.15], [one["trained"], one["half"]], "o-", color=colour, alpha=0.8)
    place.set_xticks(range(len(found)), list(found))
    place.set(ylabel="test accuracy (%)", title="As trained (left), with half of the basis functions (right)")
    place.grid(alpha=0.25, axis="y")
    return figure


EXPERIMENTS.add(
    "basis-schedule",
    Experiment(
        "Constants or hats, fixed depth or refinement",
        "Stateful ODE-Nets, Table 4",
        {"smoke": _SMOKE, "cpu": _CPU, "paper": _PAPER},
        run,
    ),
)
