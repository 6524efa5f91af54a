"""A linear map of a kernel's pixels, or of a tensor's last axis."""

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor

from anydepth.errors import ConfigError
from anydepth.weights.evolutions import EVOLUTIONS, Evolution, flattened, zeros

MOST = 1024
"""The longest axis that it takes: its map is square."""


@EVOLUTIONS.register("linear")
class LinearMap(Evolution):
    """dw/dt = A w (+ b), one matrix for all filters, solved exactly by the matrix exponential; starts at zero.

    Args:
        bias: whether there is a b.
    """

    has_flow = True

    def __init__(self, shape: Sequence[int], bias: bool = False):
        super().__init__(shape)
        self.width = prod(self.space)
        if self.width > MOST:
            raise ConfigError(f"a linear map of {self.width} numbers is too large, at most {MOST}; use 'network'")
        self.matrix = zeros(self.width, self.width)
        self.bias = zeros(self.width) if bias else None

    def forward(self, w: Tensor) -> Tensor:
        flat = flattened(w, len(self.space)) @ self.matrix.T
        return (flat if self.bias is None else flat + self.bias).view(w.shape)

    def flow(self, w: Tensor, times: Tensor) -> Tensor:
        matrix = self.matrix
        if self.bias is not None:
            matrix = torch.cat([matrix, self.bias[:, None]], dim=1)
            matrix = torch.cat([matrix, torch.zeros_like(matrix[:1])])
        maps = torch.linalg.matrix_exp(matrix * times.view(-1, 1, 1))[:, : self.width]
        rows = flattened(w, len(self.space)).reshape(-1, self.width)
        moved = rows @ maps[:, :, : self.width].mT
        if self.bias is not None:
            moved = moved + maps[:, None, :, self.width]
        return moved.view(len(times), *w.shape)
