"""What a sweep measures on: a part of a run's data, batches given by hand, or random inputs where there is no data."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import torch
from torch import Tensor, nn

from anydepth.data.dataset import Dataset
from anydepth.data.facts import Facts
from anydepth.data.source import Part
from anydepth.data.table import Batch, Keywords, Table, like_inputs
from anydepth.deploy.exported import agrees
from anydepth.deploy.freeze import freeze
from anydepth.errors import ConfigError, DataError
from anydepth.measure.answers import answer
from anydepth.measure.evaluation import batches_of, evaluating, fitting
from anydepth.measure.form_meter import FormMeter
from anydepth.measure.predictions import examples_of
from anydepth.runs.device import precision_of
from anydepth.runs.folder import Run

_WORDS = 16
"""Length of a made-up sentence."""


@dataclass(frozen=True)
class SweepInputs:
    """A meter of forms, and what should be known of its data."""

    meter: FormMeter
    split: str | None
    examples: int
    digest: str | None
    """Of the data; None without any."""
    note: str = ""
    dataset: Dataset | None = None
    """Of a run, with what was read of it."""


def inputs_of_run(
    run: Run,
    root: Path | None,
    split: str | None,
    examples: int | None,
    batch: int,
    rounds: int,
    model: nn.Module | None = None,
) -> SweepInputs:
    """A run's model, read if it is not given, on a part of its data; `split` None: no data."""
    if split is not None and split not in get_args(Part):
        raise ConfigError(f"unknown part {split!r}; expected one of {', '.join(get_args(Part))}")
    has_cuda = torch.cuda.is_available() and run.config.device != "cpu"
    model, facts = (model or run.model()).to("cuda" if has_cuda else "cpu"), run.facts
    device = next(model.parameters()).device

    def precision() -> AbstractContextManager:
        return precision_of(run.config.training, device)

    classes = facts.task != "regress"
    if split is None:
        meter = FormMeter(model, random_inputs(facts, batch), None, classes, rounds, precision, plain_form)
        note = "no data was used: forms are ranked by an estimate of how far projection and solver change the outputs"
        return SweepInputs(meter, None, 0, None, note)
    dataset = run.dataset(root)
    table, part, note = _part(dataset, split)
    table = table.some(examples)
    found = list(batches_of(table, facts, run.config.evaluation.batch))
    meter = FormMeter(model, timed_inputs(found, batch), found, classes, rounds, precision, plain_form)
    return SweepInputs(meter, part, len(table), table.digest(), note, dataset)


def _part(dataset: Dataset, split: str) -> tuple[Table, str, str]:
    """The part asked for; where no validation examples were held out, those of training, and a word about it."""
    table = dataset.part(split)  # pyright: ignore[reportArgumentType]
    if len(table):
        return table, split, ""
    if split != "validation":
        raise DataError(f"the {split} part of the data is empty; there is nothing to measure on")
    note = (
        "the run holds out no validation part, so this is its training part, which is too optimistic; use --split test"
    )
    return dataset.part("train"), "train", note


def inputs_by_hand(
    model: nn.Module, batches: Iterable[object] | None, classes: bool | None, batch: int, rounds: int
) -> SweepInputs:
    """Any model, with batches of inputs or of inputs and labels."""
    if batches is None:
        raise ConfigError("a model is swept on batches of data; give sweep(model, batches), labels are optional")
    found = examples_of(batches)
    if classes is None:
        classes = _are_classes(model, found[0])
    meter = FormMeter(model, timed_inputs(found, batch), found, classes, rounds, plain=plain_form)
    return SweepInputs(meter, None, sum(len(example.inputs[0]) for example in found), None)


def _are_classes(model: nn.Module, example: Batch) -> bool:
    """Labels tell, if they are whole numbers or not; without labels, more than one output means classes."""
    if example.targets.numel():
        return not example.targets.is_floating_point()
    with evaluating(model):
        outputs = answer(model, fitting(model, example).inputs)
    return outputs.dim() > 1 and outputs.shape[-1] > 1


def timed_inputs(examples: Sequence[Batch], count: int) -> tuple[Tensor, ...]:
    """So many examples of the middle batch, which has the middle lengths where they vary; repeated if too few."""
    middle = examples[len(examples) // 2].inputs
    last = -1 - torch.arange(count) % len(middle[0])
    return like_inputs(middle, [part[last] for part in middle])


def random_inputs(facts: Facts, count: int) -> tuple[Tensor, ...]:
    """Standard normal numbers, which normalised data resembles; random words for taggers. The same every time."""
    draw = torch.Generator().manual_seed(0)
    if facts.kind == "sentences":
        words = torch.randint(1, len(facts.words), (count, _WORDS), generator=draw)
        return words, torch.ones_like(words, dtype=torch.bool)
    return (torch.randn(count, *facts.shape, generator=draw),)


def plain_form(model: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[nn.Module, bool]:
    """The frozen network, which is what one deploys, and True; a model that has none as it is, and False."""
    try:
        frozen = freeze(model)
    except ConfigError:
        return model, False
    holes = sum(node.op == "placeholder" for node in frozen.graph.nodes)
    if isinstance(inputs, Keywords) or holes > len(inputs):  # arguments left out may have been taken to be given
        given = dict(zip(inputs.names, inputs, strict=True)) if isinstance(inputs, Keywords) else tuple(inputs)
        with evaluating(model):
            is_same = agrees(frozen, model, given)
        return (frozen, True) if is_same else (model, False)
    return frozen, True
