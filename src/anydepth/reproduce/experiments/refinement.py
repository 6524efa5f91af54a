"""Refinement training against fixed depth: time, accuracy, and what a refinement alone does (ContinuousNet, Fig 7)."""

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from anydepth.reproduce import EXPERIMENTS
from anydepth.reproduce.experiment import Claim, Experiment, Findings, Verdict
from anydepth.reproduce.images import image_config
from anydepth.reproduce.study import Study
from anydepth.train.config import RunConfig
from anydepth.train.runs import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FINAL = 8
SCHEDULES = {"fixed": (), "refined": (2, 5, 8), "refined late": (5, 7, 8)}
"""When the model grows, in ninths of the training: the paper's proportions, and ours."""


_SMOKE = {
    "data": {"name": "digits", "limit": 64, "validation": 32},
    "epochs": 9,
    "channels": [4],
    "pool": 4,
    "batch": 64,
    "warmup": 4,
}
_CPU = {
    "data": {"name": "mnist", "limit": 3000, "validation": 200, "crop": 2},
    "epochs": 9,
    "channels": [8],
    "pool": 7,
    "batch": 32,
    "warmup": 20,
}
_PAPER = {
    "data": {"name": "cifar10", "validation": 5000, "crop": 4, "flip": True},
    "epochs": 90,
    "channels": [16, 32, 64],
    "pool": 8,
    "batch": 128,
    "warmup": 20,
}


def config_for(kind: str, seed: int, settings: dict[str, Any]) -> RunConfig:
    """A net with RK4 and constants: grown from 1 to 8 steps, or with 8 from the start."""
    size = FINAL if kind == "fixed" else 1
    at = [ninth * settings["epochs"] // 9 for ninth in SCHEDULES[kind]]
    return image_config(seed, settings, at, basis="constant", scheme="rk4", size=size, steps=size)


def run(study: Study) -> Findings:
    settings: dict[str, Any] = study.settings
    study.plan(len(SCHEDULES) * len(study.seeds))
    found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in SCHEDULES}
    for seed in study.seeds:
        for kind in SCHEDULES:
            config = config_for(kind, seed, settings)
            title = f"refinement-{kind}".replace(" ", "-")
            found[kind].append(study.piece(f"{title}-{seed}", lambda t=title, c=config: _read(study.trained(t, c))))
    rows = tuple(
        (
            kind,
            float(np.mean([one["accuracy"] for one in seeds])),
            float(np.std([one["accuracy"] for one in seeds])),
            float(np.mean([one["seconds"] for one in seeds])),
            float(np.mean(_ratios(found, kind, "seconds"))),
            float(np.mean(_ratios(found, kind, "evaluations"))),
        )
        for kind, seeds in found.items()
    )
    columns = ("training", "test accuracy (%)", "spread", "seconds", "time / fixed", "evaluations / fixed")
    notes = (
        f"RK4, constants, channels {settings['channels']}, {settings['epochs']} epochs, data "
        f"{json.dumps(settings['data'])}. Refined: 1, 2, 4, 8 steps and constants for 2, 3, 3 and 1 ninths of the "
        "epochs, the paper's proportions; refined late: for 5, 2, 1 and 1 ninths. Fixed: 8 from the start. The time is "
        "that of training, validation included."
    )
    return Findings(columns, rows, _verdicts(found), lambda: _draw(found), notes)


def _read(run: Run) -> dict[str, Any]:
    """Time, evaluations and accuracy of a run, and its curves."""
    lines = run.metrics()
    epochs = [line for line in lines if line["kind"] == "epoch"]
    refined = [line for line in lines if line["kind"] == "refine"]
    return {
        "accuracy": lines[-1]["test_accuracy"],
        "seconds": epochs[-1]["seconds"],
        "evaluations": sum(line["nfe"] for line in epochs),
        "curve": [(line["seconds"], line["validation_accuracy"]) for line in epochs],
        "losses": [(line["validation_before_loss"], line["validation_after_loss"]) for line in refined],
        "next": [
            (before["train_loss"], after["train_loss"])
            for line in refined
            for before, after in [_around(epochs, line["step"])]
        ],
    }


def _around(epochs: list[dict[str, Any]], step: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The epochs that end at a step and after it."""
    place = max(i for i, line in enumerate(epochs) if line["step"] <= step)
    return epochs[place], epochs[place + 1]


def _ratios(found: dict[str, list[dict[str, Any]]], kind: str, what: str) -> list[float]:
    return [one[what] / fixed[what] for one, fixed in zip(found[kind], found["fixed"], strict=True)]


def _verdicts(found: dict[str, list[dict[str, Any]]]) -> tuple[Verdict, ...]:
    time, work = _ratios(found, "refined", "seconds"), _ratios(found, "refined", "evaluations")
    late = _ratios(found, "refined late", "seconds")
    means = {kind: float(np.mean([one["accuracy"] for one in seeds])) for kind, seeds in found.items()}
    gaps = {kind: mean - means["fixed"] for kind, mean in means.items()}
    changes = [after / before - 1 for one in found["refined"] for before, after in one["losses"]]
    gains = [after < before for one in found["refined"] for before, after in one["next"]]
    return (
        Verdict(
            Claim("Refinement training saves time", "C section 5.2", "608 against 1053 minutes: 0.58"),
            f"{np.mean(time):.2f} of the time of fixed depth",
            float(np.mean(time)) < 1,
        ),
        Verdict(
            Claim("It takes at most 1.1 times what the evaluations of the unit predict", "ours"),
            f"they predict {np.mean(work):.3f}, it takes {np.mean(time):.3f} ({np.mean(time) / np.mean(work):.2f} x); "
            "the rest of the net, validation and checkpoints cost the same at every depth",
            float(np.mean(time)) <= 1.1 * float(np.mean(work)),
        ),
        Verdict(
            Claim("and costs no accuracy", "C Table 1", "93.57 against 93.84 % (Euler)"),
            f"{gaps['refined']:+.2f} points on average",
            gaps["refined"] >= -0.5,
        ),
        Verdict(
            Claim("A later schedule needs at most 0.35 of the time at the same accuracy", "ours"),
            f"{np.mean(late):.2f} of the time, {gaps['refined late']:+.2f} points",
            float(np.mean(late)) <= 0.35 and gaps["refined late"] >= -0.5,
        ),
        Verdict(
            Claim("A refinement alone hardly changes the loss", "C section 4.4; S eq 25"),
            f"validation loss changes by {100 * min(changes):+.1f} to {100 * max(changes):+.1f} %",
            max(abs(change) for change in changes) < 0.1,
        ),
        Verdict(
            Claim("Accuracy and loss improve immediately after refinement", "C Fig 7"),
            f"training loss is lower in the epoch after {sum(gains)} of {len(gains)} refinements",
            all(gains),
        ),
    )


def _draw(found: dict[str, list[dict[str, Any]]]) -> "Figure":
    import matplotlib.pyplot as plt

    figure, place = plt.subplots(figsize=(7, 4), constrained_layout=True)
    colours = {"fixed": "#c2571a", "refined": "#0b6e99", "refined late": "#2a7f4f"}
    for kind, seeds in found.items():
        for i, one in enumerate(seeds):
            times, values = zip(*one["curve"], strict=True)
            place.plot(times, values, color=colours[kind], alpha=0.8, label=kind if i == 0 else None)
    place.set(xlabel="training time (s)", ylabel="validation accuracy (%)")
    place.set_title("Grown while training, or deep from the start")
    place.set_ylim(bottom=70)
    place.grid(alpha=0.25)
    place.legend()
    return figure


EXPERIMENTS.add(
    "refinement",
    Experiment(
        "Refinement training against fixed depth",
        "ContinuousNet, sections 4.4 and 5.2, Fig 7",
        {"smoke": _SMOKE, "cpu": _CPU, "paper": _PAPER},
        run,
    ),
)
