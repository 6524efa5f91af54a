"""Units that the tests share."""

import torch
from torch import Tensor, nn


class Dense(nn.Module):
    """BN - ReLU - Linear."""

    def __init__(self, width: int = 4):
        super().__init__()
        self.bn = nn.BatchNorm1d(width)
        self.linear = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.bn(x).relu())


class Smooth(nn.Module):
    """tanh of a linear map: smooth in x and in its weights."""

    def __init__(self, width: int = 3):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.linear(x))


def sizes_of(name: str, limit: int = 16) -> list[int]:
    """Sizes that a basis takes, up to a limit."""
    from anydepth.depth.bases import BASES
    from anydepth.errors import ConfigError

    found = []
    for size in range(1, limit + 1):
        try:
            BASES[name](size)
        except ConfigError:
            continue
        found.append(size)
    return found


def trained(model, *inputs):
    """With statistics and weights that are not those of the beginning."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    for _ in range(3):
        model(*inputs)
    return model.eval()
