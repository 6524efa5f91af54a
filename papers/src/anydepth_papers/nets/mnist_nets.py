"""The nets of the MNIST study, and the forms they are looked at in."""

from copy import deepcopy
from typing import Any

import torch
from torch import nn

from anydepth.block.form import forms_of as saved_forms_of
from anydepth.block.form import weights_of
from anydepth.recipes import RECIPES
from anydepth.runs.config import RefineSettings, RunConfig
from anydepth.runs.override import override
from anydepth.surgery.blocks import blocks_of
from anydepth.surgery.resize import compress, set_solver
from anydepth.zoo.models.image_network import ImageNetwork

GROWN, RESNET, HALF_RESNET, FLAT = "hats (RK4)", "ResNet-8", "ResNet-4", "ResNet-1"
UNITS = {RESNET: 8, HALF_RESNET: 4, FLAT: 1}
"""Residual units of the ResNets: all have the stem, the stitch, the unit and the head of the continuous net."""
SOLVERS = (("euler", 8), ("euler", 4), ("midpoint", 8), ("midpoint", 4), ("rk4_38", 4))
"""Other solvers with at least 4 steps."""
FEW = (("midpoint", 2), ("rk4", 2), ("rk4", 1))
"""Solvers with 8 and 4 evaluations, beside Euler and midpoint above."""
SHORT = (1, 2, 4)
"""Euler steps, alone and with projection to as many constants."""


def config_for(name: str, seed: int, scale: str, settings: dict[str, Any]) -> RunConfig:
    """All nets of a scale train for the same epochs on the same data; only the continuous one grows."""
    recipe = RECIPES["stateful-mnist" if scale == "paper" else "stateful-mnist-cpu"]()
    config = override(recipe, [f"seed={seed}", *settings["changes"]])
    if name == GROWN:
        grows = RefineSettings(**settings["refine"]) if "refine" in settings else config.refine
        return config.model_copy(update={"refine": grows})
    units = UNITS[name]
    shape = {"basis": "constant", "size": units, "steps": units, "scheme": "euler", "scale": float(units)}
    model = config.model.model_copy(update={"options": config.model.options | shape})
    return config.model_copy(update={"refine": RefineSettings(), "model": model})


def forms_of(name: str, model: nn.Module) -> dict[str, nn.Module]:
    """What is looked at in a net."""
    assert isinstance(model, ImageNetwork)
    forms: dict[str, nn.Module] = {"as trained": model}
    if name == GROWN:
        return forms | _of_hats(model)
    return forms | _of_resnet(model) if name == RESNET else forms


def _of_hats(model: ImageNetwork) -> dict[str, nn.Module]:
    block = next(iter(blocks_of(model).values()))
    size, steps = block.size, block.steps or 1
    half, fewer = (size + 1) // 2, max(1, steps // 2)
    solvers = [(scheme, n) for scheme, n in (*SOLVERS, *FEW) if n <= steps]
    short = [n for n in SHORT if n <= fewer]
    return {
        "half of K": compress(model, size=half),
        "half of K, interpolated": compress(model, size=half, method="interpolate"),
        "half of N": set_solver(deepcopy(model), steps=fewer),
        "half of K and N": compress(model, size=half, steps=fewer),
        "a quarter of K and N": compress(model, size=max(2, (half + 1) // 2), steps=max(1, fewer // 2)),
        **{f"{scheme} x {n}": set_solver(deepcopy(model), scheme, n) for scheme, n in solvers},
        **{f"euler x {n}": set_solver(deepcopy(model), "euler", n) for n in short},
        **{f"euler x {n}, K = N constants": compress(model, "constant", n, n, "euler") for n in short},
    }


def _of_resnet(model: ImageNetwork) -> dict[str, nn.Module]:
    """With half of the functions, and with half of the units in every way that needs no training."""
    half = model.config["size"] // 2
    return {
        "half of K": compress(model, size=half),
        "skipped to half": skipped(model, half),
        "stretched to half": set_solver(deepcopy(model), steps=half),
        "merged to half": compress(model, size=half, steps=half),
        "projected to half": compress(model, "linear", max(2, half), half),
    }


def skipped(model: ImageNetwork, units: int) -> ImageNetwork:
    """A ResNet without some of its units: those that stay are spread evenly, the first and the last among them."""
    before = model.config["size"]
    places = torch.linspace(0, before - 1, units).round().long() if units > 1 else torch.zeros(1, dtype=torch.long)
    short = ImageNetwork(**model.config | {"size": units, "steps": units, "scale": float(units)})
    values = weights_of(model)
    lifted = [f"{name}.unit.{key}" for name, block in blocks_of(model).items() for key in block.lifted]
    short.load_state_dict(values | {name: values[name][places] for name in lifted} | saved_forms_of(short))
    return short.train(model.training)
