"""ad.compile: one compiled step for every depth, size and refinement of a model's blocks."""

from torch import nn

from anydepth.surgery.blocks import blocks_of


def compile(model: nn.Module, enabled: bool = True) -> nn.Module:
    """Run the model's blocks by compiled steps, and return the model; nothing is compiled before the first pass.

    A unit's stage and its gradient are traced and compiled by Inductor once for a shape of x, with the weights as
    inputs: another number of steps, another size or `refine` compile nothing. torch.compile of a block unrolls all of
    its steps, and begins anew after each change. Units that cannot be traced, or that native kernels run faster, run as
    before; for the former there is one line of warning. `block.stats.path` says which path a pass took.

    Args:
        enabled: False takes it back.
    """
    for block in blocks_of(model).values():
        block.is_compiled = enabled
    return model
