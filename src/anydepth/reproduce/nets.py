"""The nets that the image studies share: trained once in a folder of results, then examined by each study."""

from collections.abc import Callable
from typing import Any

import numpy as np
from torch import nn

from anydepth.errors import NumericalError
from anydepth.recipes import RECIPES
from anydepth.reproduce.images import image_config
from anydepth.reproduce.study import Study
from anydepth.surgery.blocks import blocks_of
from anydepth.train.config import RunConfig
from anydepth.train.evaluate import Score, evaluate
from anydepth.train.override import override
from anydepth.train.runs import Run

SCALE = 4.0
"""Of the continuous nets, as in C's wide nets with 8 steps."""


def options_of(name: str, steps: int) -> dict[str, Any]:
    """Options of a net that has so many steps after training."""
    if name == "resnet":
        return {"basis": "constant", "size": steps, "steps": steps, "scheme": "euler", "scale": float(steps)}
    scheme = "euler" if name.endswith("euler") else "rk4"
    if name.startswith("hats"):
        return {"basis": "linear", "size": 2, "steps": 1, "scheme": scheme}
    stitches = {"stitch_scale": SCALE / steps, "stitch_skip_init": True}
    grown = {"basis": "constant", "size": 1, "steps": 1, "scheme": scheme, "scale": SCALE}
    return {"unit": "skip_init_conv", **grown, **stitches}


RECIPE = {
    "rk4": "continuousnet-cifar10",
    "euler": "continuousnet-cifar10-euler",
    "resnet": "resnet-cifar10",
    "hats-rk4": "stateful-cifar10-deep",
    "hats-euler": "stateful-cifar10-deep",
}
"""ContinuousNet with RK4 and with Euler, a ResNet (Euler, scale = steps), Stateful ODE-Nets with RK4 and with Euler;
their recipes at paper scale."""
TITLE = {
    "rk4": "ContinuousNet (RK4)",
    "euler": "ContinuousNet (Euler)",
    "resnet": "ResNet",
    "hats-rk4": "hats (RK4)",
    "hats-euler": "hats (Euler)",
}
COLOUR = {"rk4": "#0b6e99", "euler": "#c2571a", "resnet": "#5b5b5b", "hats-rk4": "#0b6e99", "hats-euler": "#c2571a"}

SMOKE: dict[str, Any] = {
    "data": {"name": "digits", "limit": 64, "validation": 32},
    "epochs": 3,
    "at": [1, 2],
    "channels": [2],
    "pool": 4,
    "batch": 32,
    "warmup": 0,
    "images": 32,
}
CPU: dict[str, Any] = {
    "data": {"name": "cifar10", "limit": 2000, "validation": 1000, "crop": 4, "flip": True},
    "epochs": 8,
    "at": [3, 5, 6],
    "channels": [8, 16],
    "pool": 8,
    "batch": 32,
    "warmup": 40,
    "images": 800,
}
PAPER: dict[str, Any] = {"images": 10_000}
SETTINGS = {"smoke": SMOKE, "cpu": CPU, "paper": PAPER}
"""`images`: how many of the test images are looked at."""


def net_config(name: str, seed: int, settings: dict[str, Any]) -> RunConfig:
    """A net of the studies: the paper's recipe, or the same in small."""
    if "data" not in settings:
        scheme = ["model.options.scheme=euler"] if name == "hats-euler" else []
        return override(RECIPES[RECIPE[name]](), [f"seed={seed}", *scheme])
    grows = () if name == "resnet" else settings["at"]
    small = image_config(seed, settings, grows, **options_of(name, final_steps(settings)))
    return override(small, [f"evaluation.every={settings['epochs']}", "evaluation.test=false", "evaluation.batch=100"])


def final_steps(settings: dict[str, Any]) -> int:
    """Steps after training; each refinement doubles them."""
    return 2 ** len(settings["at"])


def trained_net(study: Study, name: str, seed: int) -> Run:
    """The trained net; a second study in the same folder finds it there."""
    return study.trained(f"image-{name}", net_config(name, seed, study.settings))


def trained_steps(model: nn.Module) -> int:
    """Steps of the first block."""
    return next(iter(blocks_of(model).values())).steps or 1


Exam = Callable[[nn.Module], Score | None]


def exam(study: Study, run: Run) -> Exam:
    """A function that runs a model on the first test images; None where the outputs are not finite."""
    test = run.dataset(study.data).part("test")
    few = test.take(np.arange(min(len(test), study.settings["images"])))

    def examine(model: nn.Module) -> Score | None:
        try:
            return evaluate(model, few, run.facts, run.config.evaluation.batch)
        except NumericalError:
            return None

    return examine


def accuracy(score: Score | None) -> float:
    """In per cent; outputs that are not finite tell nothing, and count as 0."""
    return 0.0 if score is None else round(score.value, 3)


def examined(
    study: Study, names: tuple[str, ...], look: Callable[[nn.Module, Exam], dict[str, Any]]
) -> dict[str, list[dict[str, Any]]]:
    """What `look` finds in every net, by name and then by seed; every training and every look is a piece."""
    study.plan(2 * len(names) * len(study.seeds))
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for seed in study.seeds:
        for name in names:
            study.piece(f"train-{name}-{seed}", lambda n=name, s=seed: trained_net(study, n, s).metrics()[-1])
            found[name].append(study.piece(f"look-{name}-{seed}", lambda n=name, s=seed: _look(study, n, s, look)))
    return found


def _look(study: Study, name: str, seed: int, look: Callable[[nn.Module, Exam], dict[str, Any]]) -> dict[str, Any]:
    run = trained_net(study, name, seed)
    return look(run.model(), exam(study, run))


def setting_of(study: Study) -> str:
    """How the nets were made, for the notes of a study."""
    settings = study.settings
    if "data" not in settings:
        made = "The nets are those of the recipes"
    else:
        made = (
            f"Nets with channels {settings['channels']}, {settings['epochs']} epochs, batch {settings['batch']}, data "
            f"{settings['data']}; grown from 1 to {final_steps(settings)} steps at epochs {settings['at']}, the "
            "ResNet as deep from the start"
        )
    return (
        f"{made}. They are trained once and shared by the studies `weights`, `solvers`, `compression`, "
        "`schemes-compress` and `noise`; the time above includes the training of those that were not there yet. "
        f"Accuracy in per cent on the first {settings['images']:,} test images."
    )
