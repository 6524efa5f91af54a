"""Train two nets on digits, then run the same weights with other solvers and fewer parameters."""

import math
import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import anydepth as ad
from anydepth.data.digits import Labelled, Split, digits

Report = Callable[[str, float], None]
"""Told what is going on, and which share of the whole is done."""

SCHEMES = ("euler", "midpoint", "rk4", "rk4_38")
STEPS = (1, 2, 3, 4, 6, 8, 12, 16, 24)
NET = {"channels": [12], "image": [1, 8, 8], "pool": 4, "first_stitch": False}


@dataclass(frozen=True)
class Recipe:
    """How one of the two nets is built and trained."""

    title: str
    build: dict[str, Any]
    refine_at: tuple[int, ...] = ()
    epochs: int = 16
    batch: int = 64
    lr: float = 0.1
    weight_decay: float = 1e-3

    def model(self) -> nn.Module:
        return ad.build("image", **NET, **self.build)


CONTINUOUS = Recipe(
    "anydepth: hats, grown 1 to 9, trained with RK4",
    {"basis": "linear", "size": 1, "steps": 1, "scheme": "rk4"},
    refine_at=(2, 5, 8, 13),
)
RESNET = Recipe(
    "ResNet: Euler, 8 steps, scale 8",
    {"basis": "constant", "size": 8, "steps": 8, "scheme": "euler", "scale": 8},
)
RECIPES = {"continuous": CONTINUOUS, "resnet": RESNET}


def run(seed: int, report: Report) -> tuple[dict[str, Any], dict[str, nn.Module]]:
    """The results as JSON values, and the two trained models."""
    data = digits()
    results: dict[str, Any] = {
        "seed": seed,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "train_images": len(data.train.x),
        "test_images": len(data.test.x),
        "models": {},
    }
    models = {}
    shares = {"continuous": (0.0, 0.7), "resnet": (0.7, 1.0)}
    for name, recipe in RECIPES.items():
        start, end = shares[name]
        torch.manual_seed(seed)
        model, began = recipe.model(), time.perf_counter()
        for done in train(model, recipe, data.train, seed):
            report(f"training {name}", start + (end - start) * 0.9 * done)
        seconds = time.perf_counter() - began
        report(f"running {name} at other depths", start + (end - start) * 0.9)
        results["models"][name] = {
            "title": recipe.title,
            "seconds": round(seconds, 1),
            **measure(model, data),
        }
        models[name] = model
    report("done", 1.0)
    return results, models


def train(model: nn.Module, recipe: Recipe, data: Labelled, seed: int) -> Iterator[float]:
    """SGD with a cosine schedule; yields the share done after every epoch."""
    optimizer = torch.optim.SGD(model.parameters(), lr=recipe.lr, momentum=0.9, weight_decay=recipe.weight_decay)
    for epoch in range(recipe.epochs):
        if epoch in recipe.refine_at:
            ad.refine(model, optimizer=optimizer)
        for group in optimizer.param_groups:
            group["lr"] = recipe.lr * 0.5 * (1 + math.cos(math.pi * epoch / recipe.epochs))
        model.train()
        for batch in _batches(len(data.x), recipe.batch, seed, epoch):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(data.x[batch]), data.y[batch]).backward()
            optimizer.step()
        yield (epoch + 1) / recipe.epochs


def _batches(count: int, size: int, seed: int, epoch: int) -> list[Tensor]:
    order = torch.randperm(count, generator=torch.Generator().manual_seed(1000 * seed + epoch))
    return [part for part in order.split(size) if len(part) == size]


def measure(model: nn.Module, data: Split) -> dict[str, Any]:
    """Test accuracy as trained, with every solver, compressed, and without the block."""
    (block,) = ad.blocks_of(model).values()
    half, steps = block.size // 2, block.steps or 1
    shortened = ad.compress(model, size=half, steps=steps // 2)
    return {
        "weights": f"{next(iter(block.functions.values()))}",
        "scheme": block.scheme.name,
        "steps": steps,
        "parameters": sum(p.numel() for p in model.parameters()),
        "block_parameters": block.counts()[0],
        "accuracy": accuracy(model, data.test),
        "identity": accuracy(without_blocks(model), data.test),
        "solvers": {
            scheme: {str(n): accuracy(with_solver(model, scheme, n), data.test) for n in STEPS} for scheme in SCHEMES
        },
        "compressed": {
            str(size): {
                "accuracy": accuracy(small := ad.compress(model, size=size), data.test),
                "parameters": sum(p.numel() for p in small.parameters()),
                "block_parameters": ad.blocks_of(small)["blocks.0"].counts()[0],
            }
            for size in range(1, block.size + 1)
        },
        "half": {"size": half, "steps": steps // 2, "accuracy": accuracy(shortened, data.test)},
    }


def with_solver(model: nn.Module, scheme: str, steps: int) -> nn.Module:
    return ad.set_solver(deepcopy(model), scheme=scheme, steps=steps)


def without_blocks(model: nn.Module) -> nn.Module:
    """The model with every block replaced by the identity, to see that the blocks do the work."""
    bare = deepcopy(model)
    for name in ad.blocks_of(bare):
        path, _, attribute = name.rpartition(".")
        setattr(bare.get_submodule(path), attribute, nn.Identity())
    return bare


@torch.no_grad()
def accuracy(model: nn.Module, data: Labelled) -> float:
    """Per cent of images classified rightly."""
    model.eval()
    return round(100 * float((model(data.x).argmax(1) == data.y).double().mean()), 2)
