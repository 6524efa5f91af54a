"""What five seeds trained at once cost, as a multiple of one seed trained as ever.

The fields of "proper ODEs" with 64 Euler steps and batches of 128; whole training steps, taking turns.
Run: .venv/bin/python benchmarks/seeds.py [--rounds N]
"""

import argparse
import json
import tempfile
from pathlib import Path

import torch

from anydepth.measure.cost import interleaved
from anydepth.recipes import RECIPES
from anydepth.runs.folder import dataset_of, new_run
from anydepth.runs.override import override
from anydepth.train.prepare import prepare
from anydepth.train.trainer import Trainer
from anydepth_papers.bench.timing import ratios
from anydepth_papers.nets.ensemble import Ensemble

SEEDS = 5


def sides(recipe: str, folder: Path) -> dict:
    base = override(RECIPES[recipe](), ["model.options.steps=64", "training.steps=1000000"])
    configs = [override(base, [f"seed={seed}"]) for seed in range(SEEDS)]
    data = dataset_of(base, None)
    prepared = [prepare(config, data) for config in configs]
    alone = prepare(base, data)
    trainer = Trainer(alone, new_run(folder / recipe, base, alone.facts))
    ensemble = Ensemble(prepared)
    order, orders = trainer.order(), ensemble._order(0)
    return {
        "one": lambda: trainer.take_step(order[0], 0),
        f"{SEEDS} together": lambda: ensemble.step(0, orders[0]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for recipe in ("proper-landscape", "proper-spheres"):
            found[recipe] = ratios(interleaved(sides(recipe, Path(folder)), rounds), "one")
    print(json.dumps(found, indent=2))  # noqa: T201


if __name__ == "__main__":
    main()
