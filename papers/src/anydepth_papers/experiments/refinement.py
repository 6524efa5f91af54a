"""Refinement training against fixed depth: time, accuracy, weights, what a refinement does (ContinuousNet, Figs 7, 8).

Three twins of the refined net leave out its third, its second and third, and all refinements. Each shares weights and
data with it until then, so that what follows a refinement can be compared with the same net not refined.
"""

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from anydepth.runs.config import RunConfig
from anydepth.runs.folder import Run
from anydepth.runs.override import override
from anydepth_papers.experiments import EXPERIMENTS
from anydepth_papers.judge.experiment import ClaimVerdict, Experiment, Findings
from anydepth_papers.judge.study import Study
from anydepth_papers.nets.image_configs import image_config
from anydepth_papers.studies.refinement_claims import CLAIMS, NINTHS, Curves, judged
from anydepth_papers.studies.roughness import Stages, kernels_of, over_depth

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FINAL = 8
TWINS = {f"refined {count} times": NINTHS["refined"][:count] for count in range(len(NINTHS["refined"]))}
KINDS: dict[str, tuple[str, int, tuple[int, ...]]] = {
    "fixed": ("rk4", FINAL, ()),
    "euler": ("euler", FINAL, ()),
    "euler, tied start": ("euler", FINAL, ()),
    **{kind: ("rk4", 1, at) for kind, at in NINTHS.items()},
    **{kind: ("rk4", 1, at) for kind, at in TWINS.items()},
}
"""Scheme, size and steps at the start, and when the net is refined, in ninths of the training."""
COLOURS = {"fixed": "#c2571a", "euler": "#5b5b5b", "refined": "#0b6e99", "refined late": "#2a7f4f"}

_SMOKE = {
    "data": {"name": "digits", "limit": 64, "validation": 32},
    "epochs": 9,
    "channels": [2],
    "pool": 4,
    "batch": 64,
    "warmup": 4,
}
_CPU = {
    "data": {"name": "mnist", "limit": 3000, "validation": 1000, "crop": 2},
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
    """A net of constants: grown from 1 to 8 steps, or with 8 from the start."""
    scheme, size, ninths = KINDS[kind]
    at = [ninth * settings["epochs"] // 9 for ninth in ninths]
    init = "shared" if "tied" in kind else "independent"
    config = image_config(seed, settings, at, basis="constant", scheme=scheme, size=size, steps=size, init=init)
    return override(config, ["threads=1"])


def run(study: Study) -> Findings:
    settings: dict[str, Any] = study.settings
    study.plan(len(KINDS) * len(study.seeds))
    found = {kind: [piece_of(study, kind, seed) for seed in study.seeds] for kind in KINDS}
    curves = Curves(found)
    columns = (
        "training",
        "test accuracy (%)",
        "lowest",
        "highest",
        "seconds",
        "time / fixed",
        "evaluations / fixed",
        "roughness",
    )
    rows = tuple(_row(curves, kind) for kind in KINDS)
    notes = (
        f"Constants, channels {settings['channels']}, {settings['epochs']} epochs, one thread, data "
        f"{json.dumps(settings['data'])}. RK4, except where Euler is said.",
        "Refined: 1, 2, 4, 8 steps and constants for 2, 3, 3 and 1 ninths of the epochs, the paper's proportions; "
        "refined late: for 5, 2, 1 and 1 ninths. Fixed and euler: 8 from the start (tied start: all alike). Refined "
        "k times: as refined, without its later refinements. Refined 0 times is the control of depth 1: nets that are "
        "not more than 5 points above it decide nothing about depth.",
        "The time is that of training, validation included. Evaluations are those of the unit in training.",
        "Roughness as in the study `weights`; a function with one constant has none.",
    )
    verdicts = tuple(ClaimVerdict(claim, *judged(curves, name)) for name, claim in CLAIMS.items())
    return Findings(columns, rows, verdicts, lambda: _draw(curves), notes)


def piece_of(study: Study, kind: str, seed: int) -> dict[str, Any]:
    title = f"refinement-{kind}".replace(",", "").replace(" ", "-")
    config = config_for(kind, seed, study.settings)
    stages = Stages(study.folder_of(title, config), study.folder / "stages" / f"{title}-{seed}")
    return study.piece(f"{title}-{seed}", lambda: _read(study.trained(title, config, stages), stages))


def _read(run: Run, stages: Stages) -> dict[str, Any]:
    """Curves of a run over its epochs, what its refinements did, and its weights."""
    lines = run.metrics()
    epochs = [line for line in lines if line["kind"] == "epoch"]
    refined = [line for line in lines if line["kind"] == "refine"]
    names = ("seconds", "train_loss", "validation_accuracy", "validation_loss")
    return {
        "accuracy": lines[-1]["test_accuracy"],
        "seconds": epochs[-1]["seconds"],
        "evaluations": epochs[-1]["evaluations"],
        "epochs": {name: [line[name] for line in epochs] for name in names},
        "refined": [round(line["step"] / epochs[0]["step"]) for line in refined],
        "losses": [(line["validation_before_loss"], line["validation_after_loss"]) for line in refined],
        "stages": [*stages.noted(), over_depth(kernels_of(run.model()))],
    }


def _row(curves: Curves, kind: str) -> tuple[Any, ...]:
    values = curves.values(kind, "accuracy")
    means = (float(np.mean(v)) for v in (curves.values(kind, "seconds"), *curves.costs(kind), curves.roughness(kind)))
    return kind, float(np.mean(values)), min(values), max(values), *means


PANELS = {"time": "seconds of the epoch", "accuracy": "validation accuracy (%)", "loss": "training loss"}


def _draw(curves: Curves) -> "Figure":
    """Left the three panels of Fig 7, right the weights at every stage as in Fig 8."""
    import matplotlib.pyplot as plt

    stages = curves.found["refined"][0]["stages"]
    left, rows = list(PANELS), len(PANELS) * len(stages)
    mosaic: list[Any] = [[*[left[i * 3 // rows]] * 2, str(i * len(stages) // rows)] for i in range(rows)]
    figure, places = plt.subplot_mosaic(mosaic, figsize=(11, 7.5), constrained_layout=True)
    for kind, colour in COLOURS.items():
        for number, one in enumerate(curves.found[kind]):
            _draw_epochs(places, one["epochs"], colour, kind if number == 0 else "_")
    for name, label in PANELS.items():
        places[name].set(ylabel=label)
        places[name].grid(alpha=0.25)
        for at in curves.found["refined"][0]["refined"]:
            places[name].axvline(at + 0.5, color=COLOURS["refined"], linewidth=0.7, linestyle=":")
    places["loss"].set(xlabel="epoch (dotted: the net `refined` is refined)", yscale="log")
    places["time"].legend(fontsize=8)
    for number, stage in enumerate(stages):
        _draw_weights(places[str(number)], stage["lines"])
    places["0"].set_title("Weights before each refinement, and at the end", fontsize=9)
    places[str(len(stages) - 1)].set_xlabel("depth t")
    return figure


def _draw_epochs(places: dict[str, "Axes"], epochs: dict[str, list[float]], colour: str, label: str) -> None:
    """A label that begins with _ is not shown."""
    each = np.diff([0, *epochs["seconds"]])
    curves = {"time": each, "accuracy": epochs["validation_accuracy"], "loss": epochs["train_loss"]}
    for name, values in curves.items():
        places[name].plot(range(1, len(each) + 1), values, color=colour, alpha=0.8, label=label)


def _draw_weights(place: "Axes", lines: list[list[float]]) -> None:
    for line in lines:
        place.stairs(line, np.linspace(0, 1, len(line) + 1).tolist(), baseline=None, color=COLOURS["refined"])
    place.set_ylabel(f"M = {len(lines[0])}")
    place.grid(alpha=0.25)


EXPERIMENTS.add(
    "refinement",
    Experiment(
        "Refinement training against fixed depth",
        "ContinuousNet, sections 4.4 and 5.2, Figs 7 and 8",
        {"smoke": _SMOKE, "cpu": _CPU, "paper": _PAPER},
        run,
        seeds=4,
    ),
)
