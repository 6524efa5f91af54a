"""A small network on a kernel's pixels, or on a tensor's last axis."""

from collections.abc import Sequence
from itertools import pairwise
from math import prod

from torch import Tensor, nn

from anydepth.errors import ConfigError
from anydepth.weights.evolutions import EVOLUTIONS, Evolution, flattened


@EVOLUTIONS.register("network")
class Network(Evolution):
    """dw/dt = MLP(w) with tanh, one for all filters; its last layer starts at zero, so that q = 0 at first.

    One Euler step of it, applied at t = 1, is a hypernetwork.

    Args:
        hidden: width of its hidden layers.
        layers: how many hidden layers.
    """

    def __init__(self, shape: Sequence[int], hidden: int = 16, layers: int = 1):
        super().__init__(shape)
        if (
            not isinstance(hidden, int)
            or not 1 <= hidden <= 4096
            or not isinstance(layers, int)
            or not 1 <= layers <= 64
        ):
            raise ConfigError(f"hidden must be 1 to 4096 and layers 1 to 64, got {hidden!r} and {layers!r}")
        width = prod(self.space)
        widths = [width, *[hidden] * layers]
        inner = [part for a, b in pairwise(widths) for part in (nn.Linear(a, b), nn.Tanh())]
        last = nn.Linear(widths[-1], width)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.net = nn.Sequential(*inner, last)

    def forward(self, w: Tensor) -> Tensor:
        return self.net(flattened(w, len(self.space))).view(w.shape)
