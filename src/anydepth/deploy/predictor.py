"""Anything that answers inputs: a run's model, its frozen network, or an exported file."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from anydepth.data.facts import Facts
from anydepth.deploy.elastic.steps_input import STEPS_PORT, with_steps
from anydepth.deploy.export.formats import FORMATS, format_of
from anydepth.deploy.export.ports import Call
from anydepth.deploy.export.sheet import read_export
from anydepth.deploy.freeze import freeze
from anydepth.errors import ConfigError, ModelFileError
from anydepth.measure.evaluation import evaluating
from anydepth.runs.folder import open_run
from anydepth.surgery.resize import set_solver


@dataclass(frozen=True)
class Predictor:
    """What was trained on which facts, and how to ask it; inputs are as the model takes them, on the CPU."""

    facts: Facts
    dtype: torch.dtype
    call: Call

    def __call__(self, inputs: Sequence[Tensor]) -> Tensor:
        fitting = tuple(x.to(self.dtype) if x.is_floating_point() else x for x in inputs)
        with torch.inference_mode():
            outputs = self.call(fitting)
        if self.facts.labels and outputs.shape[-1:] != (len(self.facts.labels),):
            raise ModelFileError(
                f"the model gives outputs of shape {tuple(outputs.shape)} for {len(self.facts.labels)} labels; "
                "it is not the one that its labels belong to"
            )
        return outputs


def open_predictor(path: Path, frozen: bool = False, steps: int | None = None) -> Predictor:
    """From a run's folder, frozen if wanted, or from a file that `anydepth export` wrote; with another number of steps
    if it is given, which of files only elastic ones allow."""
    if path.suffix.lower() in FORMATS and not path.is_dir():
        if frozen:
            raise ConfigError(f"{path} is frozen already; leave out --frozen")
        return _exported(path, steps)
    run = open_run(path)
    model = set_solver(run.model(), steps=steps)
    return of_module(freeze(model) if frozen else model, run.facts)


def of_module(model: nn.Module, facts: Facts) -> Predictor:
    first = next(model.parameters())

    def call(inputs: Sequence[Tensor]) -> Tensor:
        with evaluating(model):
            return model(*(x.to(first.device) for x in inputs)).cpu()

    return Predictor(facts, first.dtype, call)


def _exported(path: Path, steps: int | None) -> Predictor:
    form = format_of(path, to_run=True)
    content, sheet = read_export(path)
    if steps is not None and sheet.elastic is None:
        raise ConfigError(f"{path} has a fixed number of steps; leave out --steps, or export the run with --elastic")
    ports = sheet.inputs if sheet.elastic is None else (STEPS_PORT, *sheet.inputs)
    try:
        call = form.open(content, ports)
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None
    if sheet.elastic is not None:
        call = with_steps(call, sheet.elastic.default if steps is None else steps)
    return Predictor(sheet.facts, getattr(torch, sheet.output.dtype), call)
