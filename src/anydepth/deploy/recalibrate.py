"""Recalibration: running statistics estimated afresh from data, without labels and without touching a weight."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn

from anydepth.block.block import ContinuousBlock
from anydepth.data.dataset import Dataset
from anydepth.data.order import Draw
from anydepth.data.order import batches as batches_of_epoch
from anydepth.data.table import Augment, Batch
from anydepth.deploy.sweeps.sweep_inputs import SweepInputs, inputs_of_run
from anydepth.errors import NumericalError
from anydepth.json_values import JsonObject
from anydepth.measure.answers import outputs_of
from anydepth.measure.evaluation import fitting
from anydepth.measure.paired import loss_in
from anydepth.measure.predictions import examples_of
from anydepth.runs.folder import Run

Model = TypeVar("Model", bound=nn.Module)

BATCHES = 100
"""Training batches of a run that statistics are taken from, at most."""


def recalibrate(model: Model, batches: Iterable[object]) -> Model:
    """Estimate the running statistics of all normalisation layers again from batches, in place.

    Statistics are plain averages over the batches, as functions of depth inside blocks. What they were before does not
    matter: depths that the solver does not read get the mean over those it does. Weights and all other state stay as
    they are, to the bit, and so does everything if something goes wrong.

    Args:
        batches: inputs, pairs of inputs and labels, or dicts of keywords; labels are not looked at.
    """
    norms = _norms(model)
    if not norms:
        return model
    examples = examples_of(batches)
    before = {name: tensor.clone() for name, tensor in model.named_buffers()}
    try:
        with _estimating(model, norms):
            _reset(model, norms)
            _average(model, norms, examples[:1])
            _level(model, norms)
            _average(model, norms, examples)
        _check(model)
    except BaseException:
        with torch.no_grad():
            for name, tensor in model.named_buffers():
                tensor.copy_(before[name])
        raise
    return model


def training_batches(run: Run, root: Path | None, dataset: Dataset | None = None) -> list[Batch]:
    """Random batches of a run's training part, augmented as in its training: statistics of plain images are others."""
    table, data = (dataset or run.dataset(root)).part("train"), run.config.data
    draw, augment = Draw(run.config.seed, 0), Augment(data.crop, data.flip, data.hide)
    chosen = batches_of_epoch(draw, len(table), run.config.training.batch, table.lengths)[:BATCHES]
    return [table.batch(indices, run.facts, augment if any(augment) else None, draw) for indices in chosen]


@dataclass(frozen=True)
class Recalibrated:
    """A model, recalibrated unless that made it worse, and what recalibrating it gained."""

    model: nn.Module
    metric: str
    split: str
    before: float | None
    """None: not finite."""
    after: float | None
    is_kept: bool

    def describe(self) -> JsonObject:
        """JSON values."""
        return {name: getattr(self, name) for name in ("metric", "split", "before", "after", "is_kept")}


def recalibrated(run: Run, model: nn.Module, root: Path | None, given: SweepInputs | None = None) -> Recalibrated:
    """A model made from a run's, recalibrated on the run's training part and judged on its validation part.

    Args:
        given: the run's model on its validation part, if it was read before.
    """
    if given is None or given.dataset is None:
        given = inputs_of_run(run, root, "validation", None, 1, 1)
    found = recalibrate(deepcopy(model), training_batches(run, root, given.dataset))
    outputs = [given.meter.outputs(each) for each in (model, found)]
    before, after = (None if each is None else given.meter.value(each) for each in outputs)
    metric = given.meter.metric
    is_kept = loss_in(metric, after) <= loss_in(metric, before)
    return Recalibrated(found if is_kept else model, metric, str(given.split), before, after, is_kept)


def _norms(model: nn.Module) -> list[nn.Module]:
    """Layers that keep a running mean and variance, and say how fast."""
    return [
        module
        for module in model.modules()
        if module._buffers.get("running_mean") is not None
        and module._buffers.get("running_var") is not None
        and hasattr(module, "momentum")
    ]


@contextmanager
def _estimating(model: nn.Module, norms: Sequence[nn.Module]) -> Iterator[None]:
    """Normalisation layers and the blocks around them in training mode, all else in eval mode; no gradients."""
    modes = {module: module.training for module in model.modules()}
    speeds = {module: module.momentum for module in norms}
    inside = {id(norm) for norm in norms}
    model.eval()
    for module in model.modules():
        is_around = isinstance(module, ContinuousBlock) and any(id(part) in inside for part in module.modules())
        module.training = is_around or id(module) in inside
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes.items():
            module.training = mode
        for module, speed in speeds.items():
            module.momentum = speed  # pyright: ignore[reportAttributeAccessIssue]


def _average(model: nn.Module, norms: Sequence[nn.Module], examples: Sequence[Batch]) -> None:
    """Averages over the examples: the n-th batch counts by its share of all examples so far."""
    seen = 0
    for norm in norms:
        if isinstance(norm._buffers.get("num_batches_tracked"), Tensor):
            norm.num_batches_tracked.zero_()  # pyright: ignore[reportCallIssue]
    for example in examples:
        count = len(example.inputs[0])
        seen += count
        for norm in norms:
            norm.momentum = count / seen  # pyright: ignore[reportArgumentType]
        outputs_of(model, fitting(model, example).inputs)


def _reset(model: nn.Module, norms: Sequence[nn.Module]) -> None:
    """Mean 0 and variance 1, which blocks keep as its logarithm, 0."""
    lifted = {id(norm) for block in _blocks(model) for norm in block.modules()}
    for norm in norms:
        norm.running_mean.zero_()  # pyright: ignore[reportCallIssue]
        norm.running_var.fill_(0 if id(norm) in lifted else 1)  # pyright: ignore[reportCallIssue]


def _level(model: nn.Module, norms: Sequence[nn.Module]) -> None:
    """Inside blocks, make statistics the same at all depths: the mean over the instants that the solver reads.

    Averaging then fits them where it reads, and what no evaluation determines stays at this level.
    """
    mine = {id(norm._buffers[key]) for norm in norms for key in ("running_mean", "running_var")}
    for block in _blocks(model):
        names = [name for name in block.state_names if id(block.stored(name)) in mine]
        if block.plan is None:
            continue  # adaptive steps land on every breakpoint
        for name in names:
            function, stored = block.lifted[name].function, block.stored(name)
            reading = block.plan.reading(function)
            rows = reading.rows(stored)
            mean = torch.stack([rows[i] for i in reading.index]).mean(0)
            stored.copy_(function.from_samples(mean.expand(function.size, *mean.shape)))


def _blocks(model: nn.Module) -> list[ContinuousBlock]:
    return [module for module in model.modules() if isinstance(module, ContinuousBlock)]


def _check(model: nn.Module) -> None:
    for name, tensor in model.named_buffers():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise NumericalError(f"the statistics {name!r} of these batches are not finite; nothing was changed")
