"""The fully connected unit."""

import itertools
from typing import ClassVar

from torch import Tensor, nn

from anydepth.errors import ConfigError
from anydepth.zoo.parts import UNITS


@UNITS.register("mlp")
class MLP(nn.Module):
    """Linear-ReLU-...-Linear with `layers` hidden layers; Kaiming fan-in, zero biases."""

    input_rank: ClassVar[int] = 2

    def __init__(self, dimensions: int, hidden: int = 48, layers: int = 2):
        super().__init__()
        if min(dimensions, hidden) < 1 or layers < 0:
            raise ConfigError(f"an MLP needs widths above 0 and layers from 0, got {dimensions}, {hidden}, {layers}")
        widths = [dimensions, *[hidden] * layers]
        self.inner = nn.ModuleList([nn.Linear(a, b) for a, b in itertools.pairwise(widths)])
        self.out = nn.Linear(widths[-1], dimensions)
        for linear in (*self.inner, self.out):
            nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")  # pyright: ignore[reportArgumentType]
            nn.init.zeros_(linear.bias)  # pyright: ignore[reportArgumentType]

    def forward(self, x: Tensor) -> Tensor:
        for inner in self.inner:
            x = inner(x).relu()
        return self.out(x)
