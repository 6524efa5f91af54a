"""How far running statistics lag in the first epochs: validation accuracy as it is, and recalibrated.

Run: .venv/bin/python benchmarks/early_validation.py [--seeds N]
The bundled digits, an RK4 net with batch norms, SGD with momentum; refined at step 32. Mean, least and largest over
seeds, in per cent; "recalibrated" is a copy whose statistics were estimated anew on training images.
"""

import argparse
import copy
import json
from pathlib import Path
from statistics import mean

import numpy as np
import torch
from torch import Tensor, nn

import anydepth as ad
from anydepth.data.sources.digits import Digits

AFTER = (2, 4, 8, 16, 32, 33, 36, 48, 64, 128)
BATCH, RATE, REFINED = 64, 0.1, 32
Data = tuple[Tensor, Tensor]


def digits() -> tuple[Data, Data]:
    """The training part as 1,000 images to train on, and the rest to validate."""
    part = Digits(Path()).read("train")
    facts = part.facts()
    (images,), classes = part.batch(np.arange(len(part)), facts)
    return (images[:1000], classes[:1000]), (images[1000:], classes[1000:])


def made(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    block = ad.ContinuousBlock(lambda: ad.units.PreactConv(12), "linear", 2, scheme="rk4", steps=1)
    return nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), block, nn.Flatten(), nn.Linear(12 * 64, 10))


@torch.no_grad()
def accuracy(model: nn.Module, data: Data) -> float:
    was_training = model.training
    found = model.eval()(data[0]).argmax(1).eq(data[1]).double().mean().item() * 100
    model.train(was_training)
    return found


def one(seed: int, train: Data, validation: Data) -> list[dict[str, float]]:
    """A training; both accuracies after some of its steps."""
    model, rows = made(seed), []
    optimizer = torch.optim.SGD(model.parameters(), RATE, momentum=0.9)
    for step in range(1, AFTER[-1] + 1):
        chosen = torch.randint(1000, (BATCH,))
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(train[0][chosen]), train[1][chosen]).backward()
        optimizer.step()
        if step in AFTER:
            judged = ad.recalibrate(copy.deepcopy(model), list(train[0].split(100)))
            before, after = accuracy(model, validation), accuracy(judged, validation)
            rows.append({"as it is": before, "recalibrated": after, "gain": after - before})
        if step == REFINED:
            ad.refine(model, optimizer=optimizer)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    torch.set_num_threads(1)
    seeds, (train, validation) = parser.parse_args().seeds, digits()
    runs = [one(seed, train, validation) for seed in range(seeds)]
    for place, step in enumerate(AFTER):
        row = {"step": step}
        for kind in ("as it is", "recalibrated", "gain"):
            values = [run[place][kind] for run in runs]
            row |= {kind: [round(value, 1) for value in (mean(values), min(values), max(values))]}
        print(json.dumps(row), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
