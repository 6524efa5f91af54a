"""What the data pipeline costs: crop, flip, normalisation and layout of a batch against a training step on it.

The 16-32-64 network on images of CIFAR-10's size, batch 128, one step in depth. Run: python benchmarks/pipeline.py
"""

import json
from statistics import median
from time import perf_counter

import numpy as np
import torch
from torch.nn.functional import cross_entropy

import anydepth as ad
from anydepth.data.images import Images
from anydepth.data.order import Draw, batches
from anydepth.data.table import Augment

IMAGES, BATCH, ROUNDS = 50_000, 128, 15


def main() -> None:
    generator = np.random.default_rng(0)
    pixels = generator.integers(0, 256, (IMAGES, 3, 32, 32), dtype=np.uint8)
    table = Images(pixels, generator.integers(0, 10, IMAGES), tuple(map(str, range(10))))
    facts, augment = table.facts(), Augment(crop=4, flip=True)
    order = batches(Draw(0, 0), IMAGES, BATCH)
    began = perf_counter()
    batches(Draw(0, 1), IMAGES, BATCH)
    shuffling = (perf_counter() - began) / len(order)
    results = {"threads": torch.get_num_threads(), "torch": torch.__version__, "batch": BATCH}
    for scheme in ("euler", "rk4"):
        model = ad.build("image", channels=[16, 32, 64], size=1, steps=1, scheme=scheme)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        reading, stepping = [], []
        for indices in order[: ROUNDS + 2]:
            start = perf_counter()
            batch = table.batch(indices, facts, augment, Draw(0, 0))
            (x,), y = batch.to(torch.device("cpu"), torch.float32, channels_last=True)
            middle = perf_counter()
            optimizer.zero_grad()
            cross_entropy(model(x), y).backward()
            optimizer.step()
            reading.append(middle - start + shuffling)
            stepping.append(perf_counter() - middle)
        data, step = 1e3 * median(reading[2:]), 1e3 * median(stepping[2:])
        results[scheme] = {"data_ms": round(data, 2), "step_ms": round(step, 1), "share": round(data / step, 4)}
    print(json.dumps(results, indent=2))  # noqa: T201


if __name__ == "__main__":
    main()
