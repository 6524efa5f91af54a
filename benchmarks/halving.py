"""Half of the steps, half of the time: a block with 8 RK4 steps and the same with 4, as they are and frozen."""

import json
from functools import partial

import torch

import anydepth as ad
from anydepth.measure.cost import interleaved
from anydepth_papers.bench.cases import SHAPES
from anydepth_papers.bench.sides import answer
from anydepth_papers.bench.timing import ratios

ROUNDS = {1: 101, 128: 15}


def measured(channels: int, pixels: int, batch: int) -> dict[str, float]:
    """Ratios of the halved to the whole, of medians over rounds."""
    torch.manual_seed(0)
    unit = partial(ad.units.PreactConv, channels)
    whole = ad.ContinuousBlock(unit, "linear", 9, scheme="rk4", steps=8).eval()
    half = ad.compress(whole, size=5, steps=4).eval()
    x = torch.randn(batch, channels, pixels, pixels).to(memory_format=torch.channels_last)
    blocks = {"whole": answer(whole, x), "half": answer(half, x)}
    frozen = {"whole": answer(ad.freeze(whole), x), "half": answer(ad.freeze(half), x)}
    sides = {"block": blocks, "frozen": frozen}
    return {name: ratios(interleaved(runs, ROUNDS[batch]), "whole")["half"]["ratio"] for name, runs in sides.items()}


def main() -> None:
    found = {f"{shape}, batch {batch}": measured(*size, batch) for shape, size in SHAPES.items() for batch in ROUNDS}
    print(json.dumps(found, indent=2))  # noqa: T201


if __name__ == "__main__":
    main()
