"""Optimisers from their settings."""

import torch
from torch import nn
from torch.optim import Optimizer

from anydepth.surgery.parameters import ranks_of
from anydepth.train.config import SGD, Adam, AdamW


def make_optimizer(model: nn.Module, settings: SGD | Adam | AdamW) -> Optimizer:
    """An optimiser over all parameters; its groups survive growth of the model."""
    groups = _groups(model, settings)
    if isinstance(settings, SGD):
        return torch.optim.SGD(groups, lr=settings.lr, momentum=settings.momentum, nesterov=settings.nesterov)
    kind = torch.optim.AdamW if isinstance(settings, AdamW) else torch.optim.Adam
    return kind(groups, lr=settings.lr, betas=settings.betas, eps=settings.eps)


def _groups(model: nn.Module, settings: SGD | Adam | AdamW) -> list[dict]:
    decayed, spared = [], []
    for parameter, rank in ranks_of(model).items():
        (spared if settings.decay == "weights" and rank < 2 else decayed).append(parameter)
    groups = [{"params": decayed, "weight_decay": settings.weight_decay}, {"params": spared, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]


def set_rate(optimizer: Optimizer, lr: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = lr
