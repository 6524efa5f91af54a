"""A plain ResNet as continuous blocks, and made shorter in the ways a user has without retraining."""

from copy import deepcopy
from typing import Any

import torch
from torch import nn

from anydepth.surgery.resize import compress, set_solver
from anydepth.surgery.resnet_blocks import as_blocks
from anydepth.zoo.models.resnet import ResNet


def skipped(resnet: ResNet, layers: int) -> ResNet:
    """The net without some of its units: those that stay are spread evenly, the first and the last among them."""
    config: dict[str, Any] = resnet.config
    before: int = config["layers"]
    short = ResNet(**{**config, "layers": layers})
    places = torch.linspace(0, before - 1, layers).round().int().tolist() if layers > 1 else [0]
    whole = resnet.state_dict()
    values = {name: tensor for name, tensor in whole.items() if not name.startswith("stages.")}
    for stage in range(len(resnet.stages)):
        for new, old in enumerate(places):
            prefix = f"stages.{stage}.{old}."
            values |= {
                f"stages.{stage}.{new}.{name.removeprefix(prefix)}": tensor
                for name, tensor in whole.items()
                if name.startswith(prefix)
            }
    short.load_state_dict(values)
    count = len(resnet.stages)
    short.chances = [resnet.chances[stage * before + place] for stage in range(count) for place in places]
    return short.train(resnet.training)


def shortened(resnet: ResNet, layers: int) -> dict[str, nn.Module]:
    """A ResNet with fewer units a stage, in every way that needs no training.

    skipped: some units are left out; stretched: those that stay take steps that are as much longer; merged: units next
    to each other are averaged, and take longer steps; projected: the units' weights are projected onto hats.
    """
    blocks = as_blocks(resnet)
    return {
        "skipped": skipped(resnet, layers),
        "stretched": set_solver(deepcopy(blocks), steps=layers),
        "merged": compress(blocks, basis="constant", size=layers, steps=layers),
        "projected": compress(blocks, basis="linear", size=max(2, layers), steps=layers),
    }
