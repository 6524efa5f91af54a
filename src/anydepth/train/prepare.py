"""From a config to the things a run needs; everything that can be refused is refused here, before training."""

from copy import deepcopy
from dataclasses import dataclass
from inspect import signature

import numpy as np
import torch
from torch import nn

from anydepth.data.dataset import Dataset
from anydepth.data.facts import Facts
from anydepth.data.source import SOURCES
from anydepth.data.table import Table
from anydepth.errors import AnydepthError, ConfigError
from anydepth.measure.evaluation import fitting, loss_of
from anydepth.runs.config import RunConfig
from anydepth.runs.device import device_of, precision_of
from anydepth.runs.foreign_parts import DATA_KINDS, MODEL_KINDS, Kinds, Need, depth_needs, need_of
from anydepth.surgery.blocks import blocks_in
from anydepth.surgery.resize import set_gradient
from anydepth.train.any_depth import check_any_depth
from anydepth.train.control.controller import CONTROLLERS, check_control
from anydepth.train.depth_penalties import check_penalties
from anydepth.train.growth import RULES, check_rule
from anydepth.train.optimization import places
from anydepth.train.stall import check_stall
from anydepth.train.vary import check_vary, share_of
from anydepth.zoo.parts import MODELS, UNITS, build

TRAINING_KINDS: Kinds = (*MODEL_KINDS, *DATA_KINDS, RULES, CONTROLLERS)
"""Where a training's parts come from."""


@dataclass(frozen=True)
class Prepared:
    """What a training starts from."""

    config: RunConfig
    facts: Facts
    train: Table
    validation: Table | None
    model: nn.Module
    per_epoch: int
    total: int

    def told(self) -> str:
        """The data in a line."""
        facts, held = self.facts, 0 if self.validation is None else len(self.validation)
        shape = f" of {' x '.join(map(str, facts.shape))}" if facts.shape else ""
        learnt = f"{len(facts.labels)} classes" if facts.labels else "numbers"
        target = f" of {facts.target!r}" if facts.target else ""
        return f"{facts.kind}{shape}, {learnt}{target}; {len(self.train):,} to train on, {held:,} to validate"


def prepare(config: RunConfig, dataset: Dataset) -> Prepared:
    """Read the data, build the model, and try them together; nothing is written."""
    train, validation = dataset.part("train"), dataset.part("validation")
    facts = dataset.facts()
    model = make_model(config, facts)
    check_batch(model, train, facts, config)
    per_epoch = max(1, len(train) // config.training.batch)
    total = length_of(config, per_epoch)
    check_stall(config.refine, len(validation))
    return Prepared(config, facts, train, validation if len(validation) else None, model, per_epoch, total)


def make_model(config: RunConfig, facts: Facts) -> nn.Module:
    """The untrained model; what the data decides is filled in where the config leaves it open."""
    make = MODELS[config.model.name]
    taken = signature(make).parameters
    decided = {name: value for name, value in facts.model_options().items() if name in taken}
    torch.manual_seed(config.seed)
    model = build(config.model.name, **(decided | config.model.options))
    _check_fit(config, facts, model)
    precision_of(config.training, device_of(config))  # which must work
    if blocks_in(model):
        set_gradient(model, config.model.gradient, config.model.segment)
    grown = check_rule(config.refine, model)
    check_control(config, model)
    check_any_depth(config, grown)
    check_penalties(config, model)
    check_vary(share_of(config), model)
    return model.to(device_of(config), torch.float64 if config.training.precision == "float64" else torch.float32)


def _check_fit(config: RunConfig, facts: Facts, model: nn.Module) -> None:
    given = {name: value for name, value in config.model.options.items() if name in facts.model_options()}
    for name, value in given.items():
        if value != facts.model_options()[name]:
            raise ConfigError(
                f"model.options.{name} is {value!r}, but the data has {facts.model_options()[name]!r}; leave it out"
            )
    if facts.task == "regress" and config.training.label_smoothing:
        raise ConfigError("training.label_smoothing is for classes, but this data has none; set it to 0")
    if facts.kind != "images" and (config.data.crop or config.data.flip):
        raise ConfigError(f"data.crop and data.flip are for images, but this data has {facts.kind}; leave them out")
    if facts.kind != "sentences" and config.data.hide:
        raise ConfigError(f"data.hide is for words, but this data has {facts.kind}; leave it out")


def check_batch(model: nn.Module, part: Table, facts: Facts, config: RunConfig) -> None:
    """Refuse a model that cannot learn from the data, by trying one batch on a copy."""
    trial = deepcopy(model).train()
    try:
        count = min(config.training.batch, len(part), _TRIAL)
        inputs, targets = fitting(trial, part.batch(np.arange(count), facts))
        loss_of(facts.task, trial(*inputs), targets, config.training.label_smoothing).backward()
    except (AnydepthError, MemoryError):
        raise
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        kind = f"{facts.kind} of shape {facts.shape}" if facts.shape else facts.kind
        raise ConfigError(f"model {type(model).__name__} does not fit this data ({kind}): {error}") from error


_TRIAL = 64
"""Examples of the trial batch, at most."""


def length_of(config: RunConfig, per_epoch: int) -> int:
    """Optimiser steps of the whole run; milestones beyond its end are refused."""
    training, refine = config.training, config.refine
    total = training.steps if training.steps is not None else (training.epochs or 0) * per_epoch
    late = [
        at for at, place in zip(refine.at, places(refine.at, refine.unit, per_epoch), strict=True) if place >= total
    ]
    if late:
        raise ConfigError(
            f"refine.at has {late[0]}, but the run ends before: it has {total} steps, {per_epoch} an epoch"
        )
    return total


def warm_up() -> None:
    """Call the vector maths library once: its first multi-threaded call can be slightly wrong."""
    x = torch.linspace(0.1, 1, 1 << 16)
    for function in (torch.log, torch.exp, torch.sin, torch.tanh):
        function(x)


def needs_of(config: RunConfig, model: nn.Module) -> tuple[Need, ...]:
    """What a run of this config and model needs beside anydepth."""
    used = (
        (MODELS, config.model.name),
        (UNITS, config.model.options.get("unit")),
        (SOURCES, config.data.name),
        (RULES, config.refine.rule),
        (CONTROLLERS, getattr(config.control, "controller", None)),
    )
    found = (need_of(registry, name) for registry, name in used)
    return (*(need for need in found if need is not None), *depth_needs(model, config.plain()))
