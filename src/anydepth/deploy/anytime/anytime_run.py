"""A run's model as an anytime net, calibrated on the run's own validation part."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from anydepth.deploy.anytime.anytime import Anytime
from anydepth.deploy.anytime.rungs import STATISTICS, FormLike
from anydepth.deploy.predictor import Predictor
from anydepth.deploy.recalibrate import training_batches
from anydepth.errors import ConfigError, DataError
from anydepth.json_values import JsonObject
from anydepth.measure.evaluation import batches_of, fitting
from anydepth.runs.folder import Run, open_run

_BATCH = 500


def anytime_of(run: Run, root: Path | None, max_drop: float, forms: Sequence[FormLike] | None = None) -> Anytime:
    """Calibrated on the validation part; coarse forms get running statistics of their own from the training part."""
    if run.facts.task != "classify":
        raise ConfigError(f"an anytime net answers one class for each example; this run is trained to {run.facts.task}")
    model, dataset = run.model(), run.dataset(root)
    table = dataset.part("validation")
    if not len(table):
        raise DataError("the run holds out no validation part to calibrate on; train it with data.validation above 0")
    batches = [fitting(model, batch) for batch in batches_of(table, run.facts, _BATCH)]
    statistics = training_batches(run, root, dataset)[:STATISTICS]
    return Anytime(model, batches, max_drop, forms, statistics=statistics)


@dataclass(frozen=True)
class AnytimePredictor(Predictor):
    """Answers by an anytime net, and counts what each took."""

    net: Anytime | None = None
    spent: list[Tensor] = field(default_factory=list)

    def told(self, found: dict[str, list[JsonObject]]) -> JsonObject:
        """What the answers took; every entry is given its evaluations."""
        assert self.net is not None
        spent = torch.cat(self.spent).tolist()
        for entry, count in zip((entry for entries in found.values() for entry in entries), spent, strict=True):
            entry["evaluations"] = count
        mean = sum(spent) / max(len(spent), 1)
        return {"anytime": self.net.describe() | {"evaluations": mean, "finest": self.net.costs[-1]}}


def open_anytime(path: Path, root: Path | None, max_drop: float) -> AnytimePredictor:
    """From a run's folder."""
    run = open_run(path)
    net, spent = anytime_of(run, root, max_drop), []
    dtype = next(net.parameters()).dtype

    def call(inputs: Sequence[Tensor]) -> Tensor:
        answers = net(*inputs)
        spent.append(net.spent.evaluations)
        return answers

    return AnytimePredictor(run.facts, dtype, call, net, spent)
