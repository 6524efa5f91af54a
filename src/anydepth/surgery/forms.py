"""One word for the form of a whole model, and sizes that hold for all of its blocks."""

from typing import Any

from torch import nn

from anydepth.surgery.blocks import blocks_of

MIXED = "each its own"
"""The name for the basis of a model that has several."""


def own_basis(model: nn.Module) -> str:
    """The basis of all weights, if it is one."""
    told = (f.describe() for block in blocks_of(model).values() for f in block.functions.values())
    names = {str(description.get("basis", MIXED)) for description in told}
    return names.pop() if len(names) == 1 else MIXED


def sizes_up_to(model: nn.Module, size: int) -> dict[str, Any]:
    """For `compress`: no tensor grows by it, those that are smaller than the size stay as large as they are."""
    return {
        name: {tensor: min(size, function.size) for tensor, function in block.functions.items()}
        for name, block in blocks_of(model).items()
    }
