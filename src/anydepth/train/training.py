"""Training a run from its config to its end, in one go or resumed, by one process or several."""

from contextlib import nullcontext
from pathlib import Path

import torch
from torch import nn

from anydepth import artifact
from anydepth.data.dataset import Dataset
from anydepth.data.facts import Facts
from anydepth.errors import ConfigError, DataError, NumericalError
from anydepth.runs.checkpoint_files import tidy
from anydepth.runs.config import RunConfig
from anydepth.runs.device import device_of
from anydepth.runs.folder import RECORD, Run, dataset_of, new_run, open_run
from anydepth.runs.foreign_parts import check_needs
from anydepth.runs.lock import locked, refuse_if_locked
from anydepth.runs.progress import Watch
from anydepth.surgery.store import save
from anydepth.train.interrupt import interruptible
from anydepth.train.prepare import TRAINING_KINDS, needs_of, prepare, warm_up
from anydepth.train.ranks import Ranks, connected
from anydepth.train.trainer import Trainer


def train(
    config: RunConfig, folder: Path, data: Path | None = None, watch: Watch | None = None, resume: bool = False
) -> Run:
    """Train a model as the config says, into a run folder; the test part is read once, at the end.

    With `resume`, a run of the same config that was stopped resumes from its checkpoint. Under torchrun, all
    ranks train one model together, and the first one writes.
    """
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    with interruptible() as interrupt, connected(device_of(config)) as ranks:
        is_there = _look(folder, resume, ranks)
        if is_there:
            before = open_run(folder)
            check_needs(before.record.needs, folder, TRAINING_KINDS)
            data = before.data_directory if data is None else data
        dataset = dataset_of(config, data)
        dataset.demand()
        warm_up()
        prepared = prepare(config, dataset)
        if watch is not None:
            watch.begin(prepared.told())
        if ranks.is_first:
            artifact.make_folder(folder)
        with locked(folder) if ranks.is_first else nullcontext():
            if ranks.is_first:
                tidy(folder)
                data_hash = prepared.train.digest()
                if is_there:
                    _check_same(open_run(folder), config, prepared.facts, data_hash)
                else:
                    needs = needs_of(config, prepared.model)
                    new_run(folder, config, prepared.facts, training_data=data_hash, data=dataset.root, needs=needs)
            ranks.wait()
            run = open_run(folder)
            if run.is_over:
                return run
            trainer = Trainer(prepared, run, watch, ranks)
            if is_there:
                trainer.resume()
            _finish(trainer, trainer.fit(interrupt), dataset)
            ranks.wait()
    return run


def _look(folder: Path, resume: bool, ranks: Ranks) -> bool:
    """Whether there is a run to go on with; what the first rank sees counts."""
    if ranks.is_first:
        refuse_if_locked(folder)
    is_there = bool(ranks.total([float(ranks.is_first and (folder / RECORD).exists())])[0])
    if is_there and not resume:
        raise ConfigError(f"{folder} holds a run already; name another folder with --out, or give --resume")
    return is_there


def _finish(trainer: Trainer, model: nn.Module, dataset: Dataset) -> None:
    """Save the model, and only then look at the test part."""
    for name, tensor in model.state_dict().items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise NumericalError(f"{name} is not finite after the last step; try a smaller optimizer.lr")
    if trainer.ranks.is_first:
        save(model, trainer.run.folder)
    if trainer.config.evaluation.test:
        score = trainer.score(dataset.part("test"))
        trainer.log({"kind": "test", "step": trainer.progress.step, **score.named("test"), "nfe": score.nfe})


def _check_same(run: Run, config: RunConfig, facts: Facts, data_hash: str) -> None:
    """Refuse to go on with another config or other data."""
    if run.is_derived:
        raise ConfigError(
            f"{run.folder} holds a model that was made from another run, not a training that can be resumed; "
            "name another folder with --out"
        )
    known = run.config.plain()
    for name, value in config.plain().items():
        if known[name] != value:
            raise ConfigError(
                f"{run.folder} is a run with another config: {name} is {known[name]}, got {value}; "
                "resume it with its own settings, or name another folder with --out"
            )
    if run.facts != facts or run.record.training_data != data_hash:
        raise DataError(f"{run.folder} was trained on other data than is there now; resume it with the same --data")
