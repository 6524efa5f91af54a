"""Smoothing: a trained net taught to survive other depths and sizes, by itself as it was."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from math import cos, isfinite, pi
from typing import TypeVar

import torch
from torch import Tensor, nn

from anydepth.data.order import in_steps
from anydepth.data.table import IGNORED, Batch
from anydepth.errors import ConfigError, NumericalError, ShapeError
from anydepth.measure.answers import answer
from anydepth.measure.distillation import divergence
from anydepth.measure.evaluation import fitting, nfe_of
from anydepth.surgery.forms import form_of
from anydepth.surgery.views import PartialForm, smaller_sizes
from anydepth.train.any_depth import AsItIs, Sandwich, passes
from anydepth.train.depth_penalties import roughness
from anydepth.train.smoothing_state import SmoothingState

Model = TypeVar("Model", bound=nn.Module)
Epoch = Callable[[int], Sequence[Batch]]
"""The batches of an epoch, in its order."""
Report = Callable[[str, float], None]


@dataclass(frozen=True)
class Smoothing:
    """How a net is smoothed."""

    epochs: int = 10
    penalty: float = 3e-3
    """Factor on the squared differences over depth of the kernels, times their number; see `roughness`."""
    draws: int = 1
    """How many forms are drawn in every step, beside the model as it is; 0: none."""
    distill: bool = True
    """Learn from the teacher; else from labels."""
    lr: float = 0.02
    momentum: float = 0.9
    clip: float = 5.0
    """Largest norm of the gradient: what is drawn first may be far from anything that makes sense."""
    temperature: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, value in (("epochs", self.epochs), ("draws", self.draws)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise ConfigError(f"{name} must be a whole number of at least 0, got {value!r}")
        for name, value, least in (("penalty", self.penalty, 0.0), ("lr", self.lr, 1e-12), ("clip", self.clip, 1e-12)):
            if not isfinite(value) or value < least:
                raise ConfigError(f"{name} must be a finite number of at least {least:g}, got {value!r}")


def smoothed(
    model: Model,
    epoch: Epoch,
    forms: tuple[PartialForm, ...],
    settings: Smoothing,
    teacher: nn.Module,
    classes: bool,
    report: Report = lambda what, share: None,
    state: SmoothingState | None = None,
) -> tuple[Model, int]:
    """A copy of a model, fine-tuned; and the evaluations of units that took, the teacher's among them.

    With a state it resumes a smoothing that was stopped.
    """
    student, taught = deepcopy(model).train(), deepcopy(teacher).eval().requires_grad_(False)
    optimizer = torch.optim.SGD(student.parameters(), lr=settings.lr, momentum=settings.momentum, nesterov=True)
    drawing = Sandwich(forms, max(0, settings.draws - 1), sandwich=False, finest=0.5, seed=settings.seed)
    first = epoch(0) if settings.epochs else ()
    done, spent = (0, 0) if state is None else state.restore(student, optimizer)
    total = settings.epochs * len(first)
    for step, number, batch in in_steps(done, total, len(first), lambda n: epoch(n) if n else first):
        torch.manual_seed(settings.seed * 1_000_003 + step)
        rate = settings.lr * 0.5 * (1 + cos(pi * step / total))
        for group in optimizer.param_groups:
            group["lr"] = rate
        spent += _step(student, taught, fitting(student, batch), drawing, step, settings, classes, optimizer)
        report(f"smoothing, epoch {number + 1}", (step + 1) / total)
        if state is not None:
            state.keep(student, optimizer, step + 1, spent, total)
    for mine, its in zip(student.modules(), model.modules(), strict=True):
        mine.training = its.training
    return student, spent


def _step(
    student: nn.Module,
    teacher: nn.Module,
    batch: Batch,
    drawing: Sandwich,
    step: int,
    settings: Smoothing,
    classes: bool,
    optimizer: torch.optim.Optimizer,
) -> int:
    """One step of the optimiser; returns the evaluations that it took."""
    goal, spent = None, 0
    if settings.distill:
        with torch.no_grad():
            goal = answer(teacher, fitting(teacher, batch).inputs)
        spent += nfe_of(teacher)
    optimizer.zero_grad()
    drawn = (drawing if settings.draws else AsItIs()).drawn(student, step)
    for place, (share, _) in enumerate(passes(student, drawn)):
        outputs = answer(student, batch.inputs)
        spent += nfe_of(student)
        loss = share * _loss(outputs, goal, batch.targets, classes, settings.temperature)
        rough = None if place or not settings.penalty else roughness(student)
        (loss if rough is None else loss + settings.penalty * rough).backward()
    norm = torch.nn.utils.clip_grad_norm_(student.parameters(), settings.clip)
    if not bool(norm.isfinite()):
        raise NumericalError(f"the gradient is not finite at step {step + 1} of smoothing; try a smaller lr or penalty")
    optimizer.step()
    return spent


def _loss(outputs: Tensor, goal: Tensor | None, targets: Tensor, classes: bool, temperature: float) -> Tensor:
    if goal is None:
        if classes:
            fits = targets.reshape(-1)
            return nn.functional.cross_entropy(outputs.flatten(0, -2).float(), fits, ignore_index=IGNORED)
        return (outputs - targets).square().mean()
    if goal.shape != outputs.shape:
        raise ShapeError(
            f"the teacher gives {tuple(goal.shape)}, the model {tuple(outputs.shape)}; take a teacher of the same task"
        )
    if not classes:
        return (outputs - goal).square().mean()
    if targets.shape == outputs.shape[:-1] and not targets.is_floating_point() and targets.dim() > 1:
        counted = targets != IGNORED
        outputs, goal = outputs[counted], goal[counted]
    return divergence(outputs, goal, temperature)


def smoothing_forms(model: nn.Module) -> tuple[PartialForm, ...]:
    """Half and a quarter of the steps, of the size, and of both, where there are such."""
    own = form_of(model)
    steps = [n for n in ((own.steps or 1) // 2, (own.steps or 1) // 4) if n]
    sizes = list(smaller_sizes(model)[:2])
    both = [PartialForm(steps=n, size=k) for n, k in zip(steps, sizes, strict=False)]
    return (*(PartialForm(steps=n) for n in steps), *(PartialForm(size=k) for k in sizes), *both)


def shuffled(batches: Sequence[Batch], seed: int) -> Epoch:
    """The same batches in another order every epoch."""

    def epoch(number: int) -> Sequence[Batch]:
        draw = torch.Generator().manual_seed(1_000_003 * seed + number)
        return [batches[i] for i in torch.randperm(len(batches), generator=draw).tolist()]

    return epoch
