"""What evolving the kernels costs in a training step of ResNet-10, configuration one: with and without, in turns."""

import argparse
import json

import torch

from anydepth.measure.cost import interleaved
from anydepth.zoo.parts import build
from anydepth_papers.bench.sides import training_step
from anydepth_papers.bench.timing import ratios
from anydepth_papers.recipes.anodev2 import block_options

STEPS = 5


def network(evolves: bool) -> torch.nn.Module:
    """ResNet-10 with five Euler steps a block and batch norm per step."""
    torch.manual_seed(0)
    options = block_options("resnet10", "config1")
    if not evolves:
        options["weights"]["conv*.weight"] = {"basis": "constant", "size": 1}
    return build("anode", layout="resnet10", **options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    x = torch.randn(given.batch, 3, 32, 32).to(memory_format=torch.channels_last)
    nets = {"kernels stay": network(False), "kernels evolve": network(True)}
    runs = {name: training_step(net, net.parameters(), x) for name, net in nets.items()}
    found = ratios(interleaved(runs, given.rounds), "kernels stay")
    print(json.dumps(found, indent=2))  # noqa: T201


if __name__ == "__main__":
    main()
