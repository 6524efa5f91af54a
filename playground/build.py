"""The playground: small trained nets and the page that runs them, as one HTML file.

    python playground/build.py [--runs DIR] [--to FILE] [--examples N]

Runs that are not there are trained first: about two minutes on two cores. The nets are computed in the browser; test
accuracies are measured here.
"""

import argparse
import json
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import anydepth as ad
from anydepth.artifact import write_bytes
from anydepth.block.passes import Kind
from anydepth.data.table import Table
from anydepth.measure.evaluation import evaluate
from anydepth.recipes import RECIPES
from anydepth.runs.config import RunConfig, read_config
from anydepth.runs.folder import Run, open_run
from anydepth.runs.override import override
from anydepth.train.training import train

HERE = Path(__file__).parent
SCHEMES = ("euler", "midpoint", "rk4")
STEPS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
SIZES = (1, 2, 3, 5, 9)
SAMPLES, POINTS = 3, 160
"""Test digits of each class, and points of the plane, that the page carries."""

FLOW = {
    "data": {"name": "spheres", "options": {"d": 2}},
    "model": {"name": "flow", "options": {"options": {"hidden": 24, "layers": 2}, "classes": 2}},
    "optimizer": {"name": "adamw", "lr": 0.01, "weight_decay": 0.05},
    "schedule": {"name": "cosine"},
    "training": {"epochs": 40, "batch": 64},
}
NETS: dict[str, tuple[str, list[str]]] = {
    "continuous": ("digits", ["data.crop=1", "seed=1"]),
    "resnet": ("digits-resnet", ["data.crop=1", "seed=1"]),
    "coarse": ("flow", ["model.options.scheme=euler", "model.options.steps=3", "training.epochs=15"]),
    "fine": ("flow", ["model.options.scheme=rk4", "model.options.steps=8"]),
}
"""Of every net its recipe and what is changed: two for digits, two flows that were trained with other solvers."""


def config_of(name: str) -> RunConfig:
    recipe, changes = NETS[name]
    return override(read_config(FLOW) if recipe == "flow" else RECIPES[recipe](), changes)


def runs_in(folder: Path) -> dict[str, Run]:
    """All nets, trained where they are missing."""
    runs = {}
    for name in NETS:
        if not (folder / name).exists():
            sys.stderr.write(f"training {name}\n")
            train(config_of(name), folder / name)
        runs[name] = open_run(folder / name)
    return runs


class Store:
    """Tensors one after another, in float32."""

    def __init__(self) -> None:
        self.parts: list[np.ndarray] = []
        self.length = 0

    def add(self, tensor: torch.Tensor) -> list[Any]:
        """Where it begins, and its shape."""
        values = tensor.detach().cpu().float().numpy()
        place = [self.length, list(values.shape)]
        self.parts.append(values.reshape(-1))
        self.length += values.size
        return place

    def text(self) -> str:
        return b64encode(np.concatenate(self.parts).astype("<f4").tobytes()).decode()


def block_of(model: nn.Module, store: Store) -> dict[str, Any]:
    """A block's tensors with their leading axis; positive ones decoded by the page."""
    ((_, block),) = ad.blocks_of(model).items()
    (function,) = {json.dumps(f.describe(), sort_keys=True) for f in block.functions.values()}
    told = json.loads(function)
    tensors = dict(block.unit.state_dict())
    return {
        "basis": told["basis"],
        "size": told["size"],
        "tensors": {name: store.add(tensors[name]) for name in block.functions},
        "positive": [name for name, part in block.lifted.items() if part.kind is Kind.POSITIVE],
        "parameters": sum(p.numel() for p in model.parameters()),
    }


def own_form(model: nn.Module) -> dict[str, Any]:
    ((_, block),) = ad.blocks_of(model).items()
    return {"scheme": block.scheme.name, "steps": block.steps, "scale": float(block.scale)}


def accuracies(model: nn.Module, test: Table, run: Run) -> dict[str, list[float | None]]:
    """Test accuracy by scheme and steps."""
    found: dict[str, list[float | None]] = {}
    for scheme in SCHEMES:
        found[scheme] = []
        for steps in STEPS:
            ad.set_solver(model, scheme=scheme, steps=steps)
            try:
                found[scheme].append(round(evaluate(model, test, run.facts).value, 2))
            except ad.NumericalError:
                found[scheme].append(None)
    return found


def digits_net(run: Run, test: Table, store: Store) -> dict[str, Any]:
    model = run.model().eval()
    net = own_form(model) | {
        "stem": {
            name: store.add(model.stem.state_dict()[name])
            for name in ("0.weight", *(f"1.{x}" for x in ("weight", "bias", "running_mean", "running_var")))
        },
        "norm": {
            name: store.add(model.norm.state_dict()[name]) for name in ("weight", "bias", "running_mean", "running_var")
        },
        "classifier": {name: store.add(model.classifier.state_dict()[name]) for name in ("weight", "bias")},
        "pool": model.pool.kernel_size,
        "blocks": {},
        "accuracy": {},
    }
    ((_, block),) = ad.blocks_of(model).items()
    own = block.size
    for size in sorted({min(size, own) for size in SIZES}):
        smaller = ad.compress(model, size=size) if size < own else model
        key = str(size)
        net["blocks"][key] = block_of(smaller, store)
        net["accuracy"][key] = accuracies(smaller, test, run)
        ad.set_solver(smaller, scheme=net["scheme"], steps=net["steps"])
    return net


def flow_net(run: Run, test: Table, store: Store) -> dict[str, Any]:
    model = run.model().eval()
    net = own_form(model) | block_of(model, store)
    net["layers"] = sum(name.endswith("weight") for name in net["tensors"])
    net["head"] = {name: store.add(model.classifier.state_dict()[name]) for name in ("weight", "bias")}
    net["accuracy"] = accuracies(model, test, run)
    return net


def samples_of(test: Table) -> list[dict[str, Any]]:
    """Some test digits of every class."""
    pixels, classes = test.pixels, test.classes  # pyright: ignore[reportAttributeAccessIssue]
    places = [int(i) for c in range(10) for i in np.nonzero(classes == c)[0][:SAMPLES]]
    return [{"pixels": pixels[i].reshape(-1).tolist(), "label": int(classes[i])} for i in places]


def contents(runs: dict[str, Run], examples: int | None = None) -> dict[str, Any]:
    """All that the page computes with."""
    store = Store()
    digits = runs["continuous"].dataset(None).part("test").some(examples)
    points = runs["coarse"].dataset(None).part("test").some(examples)
    facts = runs["continuous"].facts
    return {
        "schemes": {name: scheme_of(name) for name in SCHEMES},
        "steps": STEPS,
        "sizes": SIZES,
        "digits": {
            "image": facts.shape,
            "mean": facts.mean[0],
            "std": facts.std[0],
            "examples": len(digits),
            "samples": samples_of(digits),
            "nets": {name: digits_net(runs[name], digits, store) for name in ("continuous", "resnet")},
        },
        "flow": {
            "points": [
                [round(float(x), 5), round(float(y), 5), int(label)]
                for (x, y), label in zip(points.inputs[:POINTS], points.targets[:POINTS], strict=True)  # pyright: ignore
            ],
            "examples": len(points),
            "nets": {name: flow_net(runs[name], points, store) for name in ("coarse", "fine")},
        },
        "numbers": store.text(),
    }


def scheme_of(name: str) -> dict[str, Any]:
    """Its tableau, stage times as numerator and denominator."""
    scheme = ad.SCHEMES[name]
    return {
        "a": [[float(x) for x in row] for row in scheme.a],
        "b": [float(x) for x in scheme.b],
        "c": [[time.numerator, time.denominator] for time in scheme.c],
    }


def page(content: dict[str, Any]) -> str:
    """One file: style, scripts and numbers in the page."""
    text = (HERE / "page.html").read_text()
    scripts = "\n".join((HERE / name).read_text() for name in ("nets.js", "charts.js", "digits.js", "flow.js"))
    told = json.dumps(content, separators=(",", ":"), allow_nan=False).replace("</", "<\\/")
    parts = {"STYLE": (HERE / "style.css").read_text(), "SCRIPTS": scripts, "CONTENT": told}
    for name, part in parts.items():
        text = text.replace(f"/*{name}*/", part)
    return text


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--runs", type=Path, default=Path("runs/playground"))
    reader.add_argument("--to", type=Path, default=Path("docs/playground.html"))
    reader.add_argument("--examples", type=int, help="measure accuracy on so many test examples, at most")
    given = reader.parse_args()
    text = page(contents(runs_in(given.runs), given.examples)).encode()
    given.to.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(given.to, text)
    sys.stderr.write(f"{given.to}: {len(text) / 1e6:.2f} MB\n")


if __name__ == "__main__":
    main()
