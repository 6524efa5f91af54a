"""Anything that answers inputs: a run's model, its frozen network, or an exported file."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from anydepth.data.facts import Facts
from anydepth.deploy.export.formats import FORMATS, format_of
from anydepth.deploy.export.ports import Call
from anydepth.deploy.export.sheet import read_export
from anydepth.deploy.freeze import freeze
from anydepth.errors import ConfigError, ModelFileError
from anydepth.measure.evaluation import evaluating
from anydepth.runs.folder import open_run


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


def open_predictor(path: Path, frozen: bool = False) -> Predictor:
    """From a run's folder, frozen if wanted, or from a file that `anydepth export` wrote."""
    if path.suffix.lower() in FORMATS and not path.is_dir():
        if frozen:
            raise ConfigError(f"{path} is frozen already; leave out --frozen")
        return _exported(path)
    run = open_run(path)
    model = run.model()
    return of_module(freeze(model) if frozen else model, run.facts)


def of_module(model: nn.Module, facts: Facts) -> Predictor:
    first = next(model.parameters())

    def call(inputs: Sequence[Tensor]) -> Tensor:
        with evaluating(model):
            return model(*(x.to(first.device) for x in inputs)).cpu()

    return Predictor(facts, first.dtype, call)


def _exported(path: Path) -> Predictor:
    form = format_of(path, to_run=True)
    content, sheet = read_export(path)
    try:
        call = form.open(content, sheet.inputs)
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None
    return Predictor(sheet.facts, getattr(torch, sheet.output.dtype), call)
