"""The journey of the demonstration: train two nets, then run, compress and judge the same weights."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from copy import deepcopy
from pathlib import Path
from time import process_time

import torch
from torch import nn

import anydepth as ad
from anydepth.block.form import forms_of, weights_of
from anydepth.data.table import Batch, Table
from anydepth.deploy.recalibrate import training_batches
from anydepth.errors import NumericalError
from anydepth.json_values import JsonObject
from anydepth.measure.evaluation import batches_of, evaluate, evaluating, fitting
from anydepth.measure.predictions import without_blocks
from anydepth.recipes import RECIPES
from anydepth.reporting import Report
from anydepth.runs.config import RunConfig
from anydepth.runs.folder import Run, discard_run, save_derived
from anydepth.runs.override import override
from anydepth.runs.progress import Watch
from anydepth.train.training import train
from anydepth.verdict.check import check

SCHEMES = ("euler", "midpoint", "rk4", "rk4_38")
STEPS = (1, 2, 3, 4, 6, 8, 12, 16, 24)
SHOWN = (("rk4", 16), ("rk4", 4), ("rk4_38", 3), ("midpoint", 8), ("euler", 16), ("euler", 8), ("euler", 4))
"""Solvers in the table."""
AS_TRAINED = "as trained"
TITLES = {
    "continuous": "anydepth: hats, grown 1 to 9, trained with RK4",
    "resnet": "ResNet: Euler, 8 steps, scale 8",
}
_RECIPES = {"continuous": "digits", "resnet": "digits-resnet"}
_BATCHES = 8
"""Of training images, for batch statistics."""
_HALF_AS_DEEP = ("model.options.size=4", "model.options.steps=4", "model.options.scale=4")
"""The control with half of its layers."""

Watching = Callable[[RunConfig], AbstractContextManager[Watch]]


def train_both(out: Path, seed: int, watching: Watching) -> dict[str, Run]:
    """The continuous net and the control, each in a run folder of its own."""
    runs = {}
    for name, recipe in _RECIPES.items():
        discard_run(out / name)
        config = override(RECIPES[recipe](), [f"seed={seed}"])
        with watching(config) as watch:
            runs[name] = train(config, out / name, watch=watch)
    return runs


def train_shallow(out: Path, seed: int, watching: Watching) -> JsonObject:
    """A ResNet of half the depth, trained from scratch and looked at: what a user would do instead."""
    config = override(RECIPES[_RECIPES["resnet"]](), [f"seed={seed}", *_HALF_AS_DEEP])
    discard_run(out)
    with watching(config) as watch:
        run = train(config, out, watch=watch)
    return _looked_at(run, run.model(), run.dataset(None).part("test"), training_batches(run, None)[:_BATCHES])


def examine(run: Run, title: str, report: Report) -> JsonObject:
    """Test accuracy as trained, with every solver, compressed, and without the block; as JSON values."""
    model, data, last = run.model(), run.dataset(None).part("test"), run.metrics()[-2]
    again = training_batches(run, None)[:_BATCHES]
    (block,) = ad.blocks_of(model).values()
    half, steps = block.size // 2, block.steps or 1
    pairs = [(scheme, n) for scheme in SCHEMES for n in STEPS]
    solvers: dict[str, dict[str, float]] = {scheme: {} for scheme in SCHEMES}
    for done, (scheme, n) in enumerate(pairs):
        report(f"{scheme}, {n} steps", done / len(pairs))
        solvers[scheme][str(n)] = accuracy(run, ad.set_solver(deepcopy(model), scheme=scheme, steps=n), data)
    return {
        "title": title,
        "seconds": round(last["seconds"], 1),
        "weights": str(next(iter(block.functions.values()))),
        "scheme": block.scheme.name,
        "steps": steps,
        "parameters": _count(model),
        "block_parameters": block.counts()[0],
        "accuracy": accuracy(run, model, data),
        "identity": accuracy(run, without_blocks(model), data),
        "solvers": solvers,
        "compressed": {str(size): _compressed(run, model, size, data, again) for size in range(1, block.size + 1)},
        "half": {
            "size": half,
            "steps": steps // 2,
            "accuracy": accuracy(run, ad.compress(model, size=half, steps=steps // 2), data),
        },
        "forms": {name: _looked_at(run, form, data, again) for name, form in _forms(model, half, steps // 2).items()},
        "verdict": check(model, list(batches_of(data, run.facts, 500))).describe(),
    }


def _forms(model: nn.Module, size: int, steps: int) -> dict[str, nn.Module]:
    """A net as trained, with other solvers, and halved in every way that needs no training."""
    (block,) = ad.blocks_of(model).values()
    forms: dict[str, nn.Module] = {AS_TRAINED: model}
    forms |= {f"{s}, {n} steps": ad.set_solver(deepcopy(model), scheme=s, steps=n) for s, n in SHOWN}
    forms["half the functions"] = ad.compress(model, size=size)
    forms["half the steps"] = ad.set_solver(deepcopy(model), steps=steps)
    forms["half the functions and steps"] = ad.compress(model, size=size, steps=steps)
    is_resnet = block.size == block.steps == block.scale
    return forms | ({"every other layer left out": _skipped(model)} if is_resnet else {})


def _skipped(model: nn.Module) -> nn.Module:
    """A ResNet with every other layer left out; those that stay are as they were."""
    config: JsonObject = model.config  # pyright: ignore[reportAssignmentType]
    short = ad.build("image", **config | {key: int(config[key] / 2) for key in ("size", "steps", "scale")})
    (block,), name = ad.blocks_of(model).values(), next(iter(ad.blocks_of(model)))
    lifted = {f"{name}.unit.{tensor}" for tensor in block.lifted}
    kept = {key: x[::2] if key in lifted else x for key, x in weights_of(model).items()}
    short.load_state_dict(kept | forms_of(short))
    return short.eval()


def compress_half(run: Run, out: Path) -> Run:
    """A run with half of the basis functions and half of the steps."""
    model = run.model()
    (block,) = ad.blocks_of(model).values()
    size, steps = block.size // 2, (block.steps or 2) // 2
    discard_run(out)
    transform = {"operation": "compress", "size": size, "steps": steps}
    return save_derived(run, out, ad.compress(model, size=size, steps=steps), transform)


def _compressed(run: Run, model: nn.Module, size: int, data: Table, again: list[Batch]) -> JsonObject:
    small = ad.compress(model, size=size)
    (block,) = ad.blocks_of(small).values()
    values = {"accuracy": accuracy(run, small, data), "recalibrated": _recalibrated(run, small, data, again)}
    return values | {"parameters": _count(small), "block_parameters": block.counts()[0]}


def _looked_at(run: Run, model: nn.Module, data: Table, again: list[Batch]) -> JsonObject:
    """A form as it is and recalibrated, and what it costs."""
    return {
        "accuracy": accuracy(run, model, data),
        "recalibrated": _recalibrated(run, model, data, again),
        "evaluations": ad.summary(model).nfe,
        "milliseconds": round(_milliseconds(run, model, data), 4),
    }


def _recalibrated(run: Run, model: nn.Module, data: Table, again: list[Batch]) -> float:
    """Accuracy with batch statistics estimated anew on training images; as it is where they are not finite."""
    try:
        return accuracy(run, ad.recalibrate(deepcopy(model), again), data)
    except NumericalError:
        return accuracy(run, model, data)


def _milliseconds(run: Run, model: nn.Module, data: Table) -> float:
    """Of the processor, for an image in a batch of 100: the least of five passes."""
    inputs = fitting(model, next(batches_of(data, run.facts, 100))).inputs
    times = []
    with evaluating(model):
        for _ in range(5):
            began = process_time()
            model(*inputs)
            times.append(process_time() - began)
    return 1000 * min(times) / len(inputs[0])


def accuracy(run: Run, model: nn.Module, data: Table) -> float:
    """Per cent of images classified rightly."""
    return round(evaluate(model, data, run.facts, len(data)).value, 2)


def _count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def facts_of(seed: int, runs: dict[str, Run]) -> JsonObject:
    """What was run, on what."""
    dataset = next(iter(runs.values())).dataset(None)
    return {
        "seed": seed,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "train_images": len(dataset.part("train")),
        "test_images": len(dataset.part("test")),
    }
