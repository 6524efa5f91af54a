"""Several seeds trained at once: each ends as its training alone would, to rounding, in much less time together."""

from collections.abc import Sequence
from functools import cached_property, lru_cache
from math import isfinite
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from anydepth import artifact
from anydepth.data.dataset import Dataset
from anydepth.data.order import Draw, batches, in_steps
from anydepth.data.source import Part
from anydepth.data.table import Table
from anydepth.errors import ConfigError, NumericalError
from anydepth.measure.evaluation import evaluate, nfe_by_plan
from anydepth.reporting import Report
from anydepth.runs.config import DataSettings, RunConfig
from anydepth.runs.control import NoControl
from anydepth.runs.device import precision_of
from anydepth.runs.folder import Run, discard_run, new_run, open_run
from anydepth.surgery.store import save
from anydepth.surgery.summary import summary
from anydepth.train.optimization import make_optimizer, rate, set_rate
from anydepth.train.prepare import Prepared, needs_of, prepare, warm_up
from anydepth_papers.judge.study import Study
from anydepth_papers.nets.together import Together

FAILED = "failed.json"
"""Stands in the folder of a training that left the finite numbers, in the place of a run."""


class Ensemble:
    """Trainings that differ in their seeds alone; `fit` trains them all."""

    def __init__(self, prepared: Sequence[Prepared]):
        first = prepared[0]
        self.config, self.total, self.per_epoch = first.config, first.total, first.per_epoch
        _check_alike([one.config for one in prepared])
        if first.facts.task != "classify":
            raise ConfigError(f"trainings together are for classes, but this data is to {first.facts.task}")
        self.seeds = [one.config.seed for one in prepared]
        self.together = Together([one.model for one in prepared])
        self.optimizer = make_optimizer(self.together, self.config.optimizer)
        for group in self.optimizer.param_groups:
            group |= {"fused": True, "foreach": False}  # one operation for all tensors, where they are small
        like = next(first.model.parameters())
        whole = first.train.batch(np.arange(len(first.train)), first.facts).to(like.device, like.dtype)
        (self.inputs,), self.targets = whole
        self.failed: dict[int, int] = {}
        """After which step a net failed, by its place."""

    def fit(self, report: Report | None = None) -> list[nn.Module | None]:
        """The trained models; None for those that failed."""
        for step, _, indices in in_steps(0, self.total, self.per_epoch, self._order):
            self.step(step, indices)
            if report is not None and step % 20 == 0:
                report(f"{len(self.seeds)} seeds", step / self.total)
            if len(self.failed) == len(self.seeds):
                break
        found = self.together.apart()
        for i, model in enumerate(found):
            if not all(bool(tensor.isfinite().all()) for tensor in model.state_dict().values()):
                self.failed.setdefault(i, self.total)
        return [None if i in self.failed else model for i, model in enumerate(found)]

    def step(self, step: int, indices: Tensor) -> None:
        """One step of the optimiser for every net, on examples (nets, batch)."""
        set_rate(self.optimizer, self.config.optimizer.lr * self._rate(step))
        targets = self.targets[indices]
        outputs = self.together(self.inputs[indices])
        smoothing = self.config.training.label_smoothing
        each = cross_entropy(outputs.flatten(0, 1), targets.flatten(), reduction="none", label_smoothing=smoothing)
        losses = each.view(targets.shape).mean(1)
        for i, loss in enumerate(losses.tolist()):
            if not isfinite(loss):
                self.failed.setdefault(i, step)
        self.optimizer.zero_grad()
        losses.sum().backward()
        self.optimizer.step()

    def _rate(self, step: int) -> float:
        return rate(self.config.schedule, step, self.total, self.per_epoch)

    def _order(self, epoch: int) -> tuple[Tensor, ...]:
        """Examples (nets, batch) of every step of an epoch, in the order that each seed has alone."""
        size, count = self.config.training.batch, len(self.targets)
        orders = [np.stack(batches(Draw(seed, epoch), count, size)) for seed in self.seeds]
        return torch.from_numpy(np.stack(orders)).to(self.targets.device).unbind(1)


def _check_alike(configs: Sequence[RunConfig]) -> None:
    first = configs[0]
    if any(config.model_copy(update={"seed": first.seed}) != first for config in configs):
        raise ConfigError("trainings together must differ in their seeds alone")
    training, optimizer = first.training, first.optimizer
    plain = {
        "model.gradient": first.model.gradient != "adjoint",
        "training.clip": training.clip is None,
        "training.ema": training.ema is None,
        "training.vary_steps": not training.vary_steps,
        "training.precision": training.precision != "bfloat16",
        "refine.at": not first.refine.at,
        "control": isinstance(first.control, NoControl),
        "optimizer.decay": optimizer.decay == "all" or optimizer.weight_decay == 0,
    }
    odd = [name for name, is_plain in plain.items() if not is_plain]
    if odd:
        raise ConfigError(f"trainings together cannot have {', '.join(odd)}; train the seeds one by one")


class Remembered(Dataset):
    """A dataset that makes or reads its test part once."""

    def part(self, part: Part) -> Table:
        return self._test if part == "test" else super().part(part)

    @cached_property
    def _test(self) -> Table:
        return super().part("test")


def data_of(config: RunConfig, root: Path | None) -> Remembered:
    """The data of a config; of configs with the same data, the same object."""
    return _data(config.data.model_dump_json(), root)


@lru_cache(maxsize=4)
def _data(settings: str, root: Path | None) -> Remembered:
    data = DataSettings.model_validate_json(settings)
    return Remembered(data.name, data.options, root, data.validation, data.split_seed, data.limit)


def trained_together(study: Study, title: str, configs: Sequence[RunConfig]) -> list[Run | None]:
    """The runs of configs that differ in their seeds: found finished, or trained together; None: it failed."""
    folders = [study.folder_of(title, config) for config in configs]
    missing = [i for i, folder in enumerate(folders) if not _is_over(folder)]
    if missing:
        _train([configs[i] for i in missing], [folders[i] for i in missing], study, title)
    return [None if (folder / FAILED).exists() else open_run(folder) for folder in folders]


def _is_over(folder: Path) -> bool:
    if (folder / FAILED).exists():
        return True
    return (folder / "run.json").exists() and open_run(folder).is_over


def _train(configs: Sequence[RunConfig], folders: Sequence[Path], study: Study, title: str) -> None:
    data = data_of(configs[0], study.data)
    warm_up()
    prepared = [prepare(config, data) for config in configs]
    for folder in folders:
        discard_run(folder)  # what a training that was stopped while writing left
    ensemble, began = Ensemble(prepared), perf_counter()

    def report(what: str, share: float) -> None:
        study.report(f"{title}: {what}", (study.done + share) / study.planned)

    models = ensemble.fit(report)
    seconds = perf_counter() - began
    for i, (one, folder, model) in enumerate(zip(prepared, folders, models, strict=True)):
        if model is None:
            artifact.make_folder(folder)
            artifact.write_json(folder / FAILED, {"config": one.config.plain(), "step": ensemble.failed[i]})
        else:
            _keep(one, folder, model, data, seconds / len(configs))


def _keep(prepared: Prepared, folder: Path, model: nn.Module, data: Dataset, seconds: float) -> None:
    """Write a run as its training alone would leave it, but for the lines of the epochs before the last."""
    config, form = prepared.config, summary(model)
    needs = needs_of(config, prepared.model)
    run = new_run(folder, config, prepared.facts, training_data=prepared.train.digest(), needs=needs)
    save(model, folder)
    nfe, row = nfe_by_plan(model), form.rows[0].form
    run.log(
        {
            "kind": "epoch",
            "epoch": -(-prepared.total // prepared.per_epoch),
            "step": prepared.total,
            "nfe": nfe,
            "evaluations": nfe * prepared.total,
            "weights": row.weights,
            "solver": row.solver,
            "parameters": form.parameters,
            "seconds": round(seconds, 3),
            **(_scores(prepared, model, prepared.validation, "validation") if prepared.validation is not None else {}),
        }
    )
    if config.evaluation.test:
        scores = _scores(prepared, model, data.part("test"), "test")
        run.log({"kind": "test", "step": prepared.total, **scores, "nfe": nfe})


def _scores(prepared: Prepared, model: nn.Module, table: Table, part: Part) -> dict[str, Any]:
    """Loss and accuracy on one part; nothing where the outputs are not finite."""
    config = prepared.config
    precision = precision_of(config.training, next(model.parameters()).device)
    try:
        return evaluate(model, table, prepared.facts, config.evaluation.batch, precision).named(part)
    except NumericalError:
        return {}
