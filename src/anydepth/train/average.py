"""A moving average of a model's weights and state."""

from copy import deepcopy

import torch
from torch import nn

from anydepth.block.form import weights_of


def averaged_copy(model: nn.Module) -> nn.Module:
    """A model to keep the average in; it takes no gradients."""
    return deepcopy(model).requires_grad_(False).eval()


@torch.no_grad()
def update_average(average: nn.Module, model: nn.Module, decay: float, step: int) -> None:
    """average <- d average + (1 - d) model, with a smaller d at first, so that the start is forgotten."""
    decay = min(decay, (1 + step) / (10 + step))
    current = weights_of(model)
    for name, mean in weights_of(average).items():
        if mean.is_floating_point():
            mean.lerp_(current[name].to(mean.dtype), 1 - decay)
        else:
            mean.copy_(current[name])
