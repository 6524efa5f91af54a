"""Fields whose flow is known, points to start from, and heads that make classes of them."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

import anydepth as ad


class Field(nn.Module):
    """A field as other libraries write it: forward(t, y)."""

    def __init__(self, f: Callable[[Tensor, Tensor], Tensor]):
        super().__init__()
        self.f = f

    def forward(self, t: Tensor, y: Tensor) -> Tensor:
        return self.f(t, y)


def line(seed: int, count: int = 400) -> Tensor:
    """Points from -1 to 1, none nearer to 0 than 0.05."""
    x = torch.rand(count, 1, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.where(x < 0.5, 0.05 + 1.9 * x, -0.05 - 1.9 * (x - 0.5))


def plane(seed: int, count: int = 400) -> Tensor:
    return torch.randn(count, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def by_sign(y: Tensor) -> Tensor:
    """Scores of two classes by the sign of the first number."""
    return torch.cat([y[..., :1], -y[..., :1]], -1)


def three_ways(y: Tensor) -> Tensor:
    """Scores of three classes by the direction in the plane."""
    angles = torch.tensor([0.0, 2.0, 4.0], dtype=y.dtype)
    return y @ torch.stack([angles.cos(), angles.sin()])


def turning(speed: float) -> Field:
    return Field(lambda t, y: speed * torch.stack([-y[..., 1], y[..., 0]], -1))


def growing(speed: float) -> Field:
    return Field(lambda t, y: speed * y)


def swinging(t: Tensor, y: Tensor) -> Tensor:
    """A pendulum."""
    return torch.stack([y[..., 1], -torch.sin(y[..., 0])], -1)


class Drift(nn.Module):
    """dx/dt = speed, the weight alone."""

    def __init__(self):
        super().__init__()
        self.speed = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        return self.speed.expand_as(x)


def drifting(speeds: list[float], threshold: float, **block) -> nn.Module:
    """A block that adds the mean of its speeds, which are constant in pieces, and classes by a threshold."""
    made = ad.ContinuousBlock(Drift, "constant", len(speeds), **block)
    head = nn.Linear(1, 2)
    with torch.no_grad():
        made.unit.get_parameter("speed").copy_(torch.tensor(speeds)[:, None])
        head.weight.copy_(torch.tensor([[1.0], [-1.0]]))
        head.bias.copy_(torch.tensor([-threshold, threshold]))
    return nn.Sequential(made, head).double()


def pole(t: Tensor, y: Tensor) -> Tensor:
    """dy/dt = y^3 leaves the numbers before t = 1; three steps of Euler's method do not notice."""
    return y**3


def net(features: int, width: int = 24) -> nn.Sequential:
    return nn.Sequential(nn.Linear(features, width), nn.Tanh(), nn.Linear(width, features))
