"""What a step of the optimiser does to the weights: optimiser, learning rate, penalty, average."""

from copy import deepcopy
from math import cos, pi, sqrt

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from anydepth.block.form import weights_of
from anydepth.runs.config import SGD, Adam, AdamW, Constant, Cosine, InverseSqrt, Step
from anydepth.surgery.blocks import blocks_in
from anydepth.surgery.parameters import ranks_of

Schedule = Constant | Step | Cosine | InverseSqrt


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


# Learning rate


def rate(schedule: Schedule, step: int, total: int, per_epoch: int) -> float:
    """Factor on the learning rate for optimiser step `step` (from 0) of `total`."""
    if isinstance(schedule, InverseSqrt):
        now = step + 1
        return min(1.0, now / schedule.warmup) / sqrt(max(now, schedule.warmup))
    rising = min(1.0, (step + 1) / schedule.warmup) if schedule.warmup else 1.0
    return rising * _falling(schedule, step, total, per_epoch)


def _falling(schedule: Constant | Step | Cosine, step: int, total: int, per_epoch: int) -> float:
    if isinstance(schedule, Step):
        passed = sum(step >= place for place in places(schedule.milestones, schedule.unit, per_epoch))
        return schedule.factor**passed
    if isinstance(schedule, Cosine):
        length = max(1, total - schedule.warmup)
        done = min(1.0, max(0, step - schedule.warmup) / length)
        return schedule.final + (1 - schedule.final) * 0.5 * (1 + cos(pi * done))
    return 1.0


def places(at: tuple[int, ...], unit: str, per_epoch: int) -> list[int]:
    """The steps, counted from 0, before which something happens."""
    return [place * (per_epoch if unit == "epoch" else 1) for place in at]


# Penalty and average


def penalty(model: nn.Module, initial: float, evolution: float) -> Tensor | None:
    """initial |w0|^2 + evolution |p|^2 of all that evolves (ANODEV2 eq 5a); None where there is nothing to add."""
    if not initial and not evolution:
        return None
    blocks = blocks_in(model).values()
    held = [b.held(name) for b in blocks for name, function in b.functions.items() if not function.is_linear]
    parts = [(initial, first) for first, *_ in held if initial]
    parts += [(evolution, tensor) for _, *own in held for tensor in own if evolution]
    terms = [factor * tensor.square().sum() for factor, tensor in parts]
    return torch.stack(terms).sum() if terms else None


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
