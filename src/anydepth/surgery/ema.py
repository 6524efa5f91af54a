"""A moving average of a model that follows its blocks when they are refined or run with another solver."""

from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from anydepth.block.block import ContinuousBlock
from anydepth.block.form import weights_of
from anydepth.errors import ConfigError
from anydepth.surgery.blocks import blocks_in


class EMA(nn.Module):
    """average <- decay * average + (1 - decay) * model, for every floating-point tensor; call it as the model.

    Functions of depth are averaged as functions: when a block has grown, the average takes on the new form first, which
    changes nothing on a nested size. Its state dict holds the form, as that of a model does.

    Args:
        model: what is averaged; the average starts with a copy of it.
        decay: from 0 to 1.
        warm_up: begin with a smaller decay, (1 + n) / (10 + n) at the n-th update, so that the start is forgotten.
    """

    updates: Tensor

    def __init__(self, model: nn.Module, decay: float = 0.999, warm_up: bool = False):
        super().__init__()
        if isinstance(model, (AveragedModel, EMA)):
            raise ConfigError(f"EMA averages a model, got a {type(model).__name__}; give the model that is trained")
        if not 0 <= decay <= 1:
            raise ConfigError(f"decay must be from 0 to 1, got {decay!r}")
        self.decay, self.warm_up = decay, warm_up
        self.average = deepcopy(model).requires_grad_(False).eval()
        self.register_buffer("updates", torch.zeros((), dtype=torch.long))

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Take in the model as it is now."""
        follow(self.average, model)
        count = int(self.updates)
        decay = min(self.decay, (1 + count) / (10 + count)) if self.warm_up else self.decay
        current = weights_of(model)
        for name, mean in weights_of(self.average).items():
            value = current[name].to(mean.device)
            if mean.is_floating_point():
                mean.lerp_(value.to(mean.dtype), 1 - decay)
            else:
                mean.copy_(value)
        self.updates += 1

    def forward(self, *args: object, **kwargs: object) -> object:
        """The averaged model on these inputs."""
        return self.average(*args, **kwargs)

    def train(self, mode: bool = True) -> "EMA":
        """An average is not trained: it stays in eval mode."""
        return super().train(False)


def follow(average: nn.Module, model: nn.Module) -> None:
    """Give the blocks of an average the functions and solvers of a model's blocks, its own values moved to them."""
    mine, theirs = blocks_in(average), blocks_in(model)
    if mine.keys() != theirs.keys():
        raise ConfigError(f"the average has blocks {sorted(mine)}, the model {sorted(theirs)}; average the same model")
    for name, block in theirs.items():
        _follow(mine[name], block)


def _follow(own: ContinuousBlock, block: ContinuousBlock) -> None:
    moving = {n: f for n, f in block.functions.items() if f != own.functions[n]}
    if moving:
        own.move(moving, "interpolate")
    if own.solver != block.solver:
        own.set_solver(**block.solver.describe())


def teach_averaged_model() -> None:
    """From now on PyTorch's AveragedModel follows blocks that were refined, as EMA does.

    It pairs the tensors of two models by their order and would fail on those that have grown, with an error that does
    not say why. It has no hook for that, so its method is replaced, once, when the first block is refined.
    """
    if AveragedModel.update_parameters is not _update_parameters:
        AveragedModel.update_parameters = _update_parameters


_plain_update = AveragedModel.update_parameters


def _update_parameters(self: AveragedModel, model: nn.Module) -> None:
    """Take on the form of the model's blocks, then average as PyTorch does; blocks are paired by their order too."""
    mine, theirs = list(blocks_in(self.module).values()), list(blocks_in(model).values())
    if len(mine) == len(theirs):
        for own, block in zip(mine, theirs, strict=True):
            if own.functions.keys() == block.functions.keys():
                _follow(own, block)
    _plain_update(self, model)
