"""The plain ResNet of the zoo as continuous blocks."""

import torch

from anydepth.block.form import forms_of
from anydepth.zoo.models.image_network import ImageNetwork
from anydepth.zoo.models.resnet import ResNet


def as_blocks(resnet: ResNet) -> ImageNetwork:
    """The same function as continuous blocks: Euler, constants, size = steps = scale (ContinuousNet section 4.3)."""
    config = resnet.config
    layers = config["layers"]
    shape = {"size": layers, "steps": layers, "scale": float(layers), "scheme": "euler", "first_stitch": False}
    kept = {key: config[key] for key in ("channels", "classes", "image", "pool")}
    twin = ImageNetwork(**kept, **shape)
    whole = resnet.state_dict()
    values = {name: tensor for name, tensor in whole.items() if not name.startswith("stages.")}
    chances = iter(resnet.chances)
    for number, stage in enumerate(resnet.stages):
        units = [unit.state_dict() for unit in stage]  # pyright: ignore[reportGeneralTypeIssues]
        for unit in units:
            unit["conv2.weight"] = unit["conv2.weight"] * next(chances)  # what eval mode multiplies by
        for name, first in units[0].items():
            rows = torch.stack([unit[name] for unit in units])
            told = first if name.endswith("num_batches_tracked") else rows.log() if "running_var" in name else rows
            values[f"blocks.{number}.unit.{name}"] = told
    twin.load_state_dict(values | forms_of(twin))
    return twin.train(resnet.training)
