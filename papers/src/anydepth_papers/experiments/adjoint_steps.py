"""How many steps does training with adjoint gradients need? (ContinuousNet, section 5.2: N >= 3 M).

The same net of M constants is trained with N = M, 2M, 3M and 4M steps, with gradients by the adjoint equation and by
back-propagation; a pair of runs shares its initial weights and the order of its data.
"""

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from anydepth.errors import NumericalError
from anydepth.runs.config import RunConfig
from anydepth.runs.override import override
from anydepth_papers.experiments import EXPERIMENTS
from anydepth_papers.judge.experiment import Claim, ClaimVerdict, Experiment, Findings
from anydepth_papers.judge.rules import Judgement, all_of, better, no_worse, undecided
from anydepth_papers.judge.study import Study
from anydepth_papers.judge.wording import spread
from anydepth_papers.nets.image_configs import image_config
from anydepth_papers.nets.image_nets import uses_depth

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FACTORS, ENOUGH = (1, 2, 3, 4), (3, 4)
"""N / M; those that are enough by the paper."""
GRADIENTS = ("backprop", "adjoint")
MARGIN = 2.0
"""Points; a point is five of the test images of digits."""
RESOLUTION = 100 / 540
"""Points that one test image is worth."""
SCALE = 4.0
"""Of the block, as the paper has it for CIFAR-100."""
CHANCE = 10.0
"""Accuracy of a training that left the numbers."""

UNITS = {"skip-init": "skip_init_conv", "no skip-init": "preact_conv"}
"""The paper's unit, and one whose block is no identity at the start: there the way back is harder."""


def _claims(unit: str, source: str) -> dict[tuple[str, str], Claim]:
    """By unit and N: with 3M and 4M steps adjoint gradients are enough, with fewer they are not."""
    printed = "N >= 3M" if source.startswith("C") else ""
    enough = f"With {unit} and N = 3M and 4M, adjoint gradients reach at most 2 points less than back-propagation"
    few = "adjoint gradients reach a lower accuracy than back-propagation, over seeds"
    return {
        (unit, "enough"): Claim(f"{enough}, over seeds", source, printed),
        **{(unit, n): Claim(f"With {unit} and N = {n}, {few}", source, printed) for n in ("M", "2M")},
    }


CLAIMS = _claims("skip-init", "C section 5.2") | _claims("no skip-init", "ours")
SETTINGS: dict[str, dict[str, Any]] = {
    "smoke": {"data": {"name": "digits", "limit": 64, "validation": 32}, "epochs": 1, "channels": [2], "size": 2},
    "cpu": {"data": {"name": "digits", "validation": 200}, "epochs": 5, "channels": [8], "size": 4},
    "paper": {
        "data": {"name": "cifar10", "validation": 5000, "crop": 4, "flip": True},
        "epochs": 90,
        "channels": [16, 32, 64],
        "size": 8,
        "pool": 8,
        "batch": 128,
    },
}
for _settings in SETTINGS.values():
    _settings |= {"pool": 4, "batch": 64, "warmup": 10} | _settings
Case = tuple[str, int, str]
"""Unit, N / M and gradient; N / M is 0 for the control: one constant and one step, trained from scratch."""
CONTROL = (0, "backprop")
Found = dict[Case, list[dict[str, Any]]]


def config_for(unit: str, factor: int, gradient: str, seed: int, settings: dict[str, Any]) -> RunConfig:
    """A ContinuousNet with RK4, M constants and `factor` times as many steps; the control where the factor is 0."""
    shape = {"basis": "constant", "size": settings["size"], "steps": factor * settings["size"], "scheme": "rk4"}
    stitch = {"stitch_scale": SCALE / settings["size"], "stitch_skip_init": unit == "skip-init"}
    config = image_config(seed, settings, (), unit=UNITS[unit], scale=SCALE, **stitch, **shape)
    shallow = [] if factor else ["model.options.size=1", "model.options.steps=1"]
    changes = [f"model.gradient={gradient}", "threads=1", f"evaluation.every={settings['epochs']}"]
    return override(config, [*changes, *shallow])


def run(study: Study) -> Findings:
    cases: list[Case] = [*product(UNITS, FACTORS, GRADIENTS), *((unit, *CONTROL) for unit in UNITS)]
    study.plan(len(cases) * len(study.seeds))
    found: Found = {case: [] for case in cases}
    for seed in study.seeds:
        for case in cases:
            config, key = config_for(*case, seed, study.settings), _key(*case)
            found[case].append(study.piece(f"{key}-{seed}", lambda c=config, k=key: _trained(study, k, c)))
    columns = ("unit", "N / M", "gradient", "test accuracy (%)", "lowest", "highest", "training loss", "seconds")
    settings = study.settings
    notes = (
        f"RK4, {settings['size']} constants, channels {settings['channels']}, scale {SCALE:g}, "
        f"{settings['epochs']} epochs, data {settings['data']['name']}.",
        f"Accuracy on all test images; a training that leaves the numbers counts as {CHANCE:g} %.",
        "N / M = 0 is the control, one constant and one step from scratch: where back-propagation with N = 3M and 4M "
        "is not more than 5 points above it, the net does not use its depth and decides nothing.",
        "The seconds are those of training; the adjoint keeps no activations and computes them again.",
        "Settings were fixed after a trial with seed 100, which is not among those judged; units without skip-init "
        "were added because that trial showed hardly a difference with skip-init (93.3 against 94.4 % with N = M).",
    )
    rows = tuple(_row(case, seeds) for case, seeds in found.items())
    verdicts = tuple(ClaimVerdict(claim, *judged_on(found, *name)) for name, claim in CLAIMS.items())
    return Findings(columns, rows, verdicts, lambda: _draw(found), notes)


def _key(unit: str, factor: int, gradient: str) -> str:
    return f"{unit.replace(' ', '-')}-{gradient}-{factor}"


def _trained(study: Study, key: str, config: RunConfig) -> dict[str, float | None]:
    try:
        lines = study.trained(f"adjoint-steps-{key}", config).metrics()
    except NumericalError:
        return {"accuracy": CHANCE, "loss": None, "seconds": None}
    last = [line for line in lines if line["kind"] == "epoch"][-1]
    return {"accuracy": lines[-1]["test_accuracy"], "loss": last["train_loss"], "seconds": last["seconds"]}


def _row(case: Case, seeds: list[dict[str, Any]]) -> tuple[Any, ...]:
    unit, factor, gradient = case
    values = [one["accuracy"] for one in seeds]
    loss, seconds = (_mean([one[key] for one in seeds]) for key in ("loss", "seconds"))
    return unit, factor, gradient, float(np.mean(values)), min(values), max(values), loss, seconds


def _mean(values: list[float | None]) -> float | None:
    """Of the trainings that came to their end."""
    there = [value for value in values if value is not None]
    return float(np.mean(there)) if there else None


def judged_on(found: Found, unit: str, name: str) -> tuple[str, Judgement]:
    factors = ENOUGH if name == "enough" else (int(name.removesuffix("M") or 1),)
    told, parts = [], []
    for factor in factors:
        exact, mine = ([one["accuracy"] for one in found[unit, factor, g]] for g in GRADIENTS)
        told.append(f"{spread(mine)} against {spread(exact)} % with N = {factor}M")
        if name == "enough":
            parts.append(no_worse(mine, exact, MARGIN, paired=True, resolution=RESOLUTION))
        else:
            parts.append(better(exact, mine, paired=True, resolution=RESOLUTION))
    return "; ".join(told), _idle(found, unit) or all_of(*parts)


def _idle(found: Found, unit: str) -> Judgement | None:
    """Undecided where nets with exact gradients and enough steps do not use their depth; else None."""
    shallow = dict(enumerate(one["accuracy"] for one in found[unit, *CONTROL]))
    deep = {f"N = {n}M": dict(enumerate(one["accuracy"] for one in found[unit, n, "backprop"])) for n in ENOUGH}
    idle = [name for name in deep if not uses_depth(deep, name, shallow, float)]
    why = (
        f"{', '.join(idle)}: not 5 points above a net of depth 1 trained from scratch ({spread([*shallow.values()])} %)"
    )
    return undecided(why) if idle else None


def _draw(found: Found) -> "Figure":
    import matplotlib.pyplot as plt

    figure, places = plt.subplots(1, len(UNITS), figsize=(9, 3.4), sharey=True, constrained_layout=True)
    for place, unit in zip(places, UNITS, strict=True):
        for gradient, colour in zip(GRADIENTS, ("#5b5b5b", "#c2571a"), strict=True):
            values = np.array([[one["accuracy"] for one in found[unit, factor, gradient]] for factor in FACTORS])
            place.plot(FACTORS, values, ".", color=colour, alpha=0.5)
            place.plot(FACTORS, values.mean(axis=1), "-", color=colour, label=gradient)
        place.set(title=unit, xlabel="N / M", xticks=FACTORS)
        place.grid(alpha=0.25)
        place.legend()
    places[0].set_ylabel("test accuracy (%)")
    return figure


EXPERIMENTS.add(
    "adjoint-steps",
    Experiment("Training with adjoint gradients", "ContinuousNet, section 5.2", SETTINGS, run, seeds=5),
)
