"""How the cost of a training step grows: with the number of steps, of basis functions, of examples, of channels."""

from functools import partial
from math import log
from typing import Any

import torch

from anydepth.block.block import ContinuousBlock
from anydepth.zoo.units import PreactConv
from anydepth_papers.bench.sides import Sides, training_step

USUAL = {"steps": 8, "size": 8, "batch": 32, "width": 32}
"""What stays while one of them grows; width is channels, on 16 x 16."""
GROWTH = {
    "steps": (2, 4, 8, 16, 32),
    "size": (1, 2, 4, 8, 16, 32),
    "batch": (1, 4, 16, 64, 256),
    "width": (8, 16, 32, 64, 128),
}


def growing(axis: str) -> Sides:
    """One side for every value."""
    sides: Sides = {}
    for value in GROWTH[axis]:
        at = USUAL | {axis: value}
        block = ContinuousBlock(partial(PreactConv, at["width"]), "linear", at["size"], scheme="rk4", steps=at["steps"])
        x = torch.randn(at["batch"], at["width"], 16, 16).to(memory_format=torch.channels_last)
        sides[f"{axis} {value}"] = training_step(block, block.parameters(), x)
    return sides


def exponent(axis: str, found: dict[str, dict[str, Any]]) -> float:
    """The p of time ~ value^p, from the last value but two to the last."""
    early, late = GROWTH[axis][-3], GROWTH[axis][-1]
    times = [found[f"{axis} {value}"]["milliseconds"] for value in (early, late)]
    return round(log(times[1] / times[0]) / log(late / early), 3)
