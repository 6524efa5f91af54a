"""Fields whose flow is known in closed form."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from anydepth.block.block import ContinuousBlock
from anydepth_papers.cases import CheckArguments, KnownModel


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


def flickering(t: Tensor, y: Tensor) -> Tensor:
    """The first number rests; the second is moved back and forth faster than any tried step resolves."""
    return torch.stack([torch.zeros_like(y[..., 0]), (600 * torch.cos(1e5 * t * t)).expand_as(y[..., 0])], -1)


def decided_by_the_first(y: Tensor) -> Tensor:
    return torch.stack([200 * y[..., 0].sign() + y[..., 1], -200 * y[..., 0].sign()], -1)


class Drift(nn.Module):
    """dx/dt = speed, the weight alone."""

    def __init__(self):
        super().__init__()
        self.speed = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        return self.speed.expand_as(x)


def drifting(speeds: list[float], threshold: float, **block: Any) -> nn.Module:
    """A block that adds the mean of its speeds, which are constant in pieces, and classes by a threshold."""
    made = ContinuousBlock(Drift, "constant", len(speeds), **block)
    head = nn.Linear(1, 2)
    with torch.no_grad():
        made.unit.speed.copy_(torch.tensor(speeds)[:, None])  # pyright: ignore[reportCallIssue]
        head.weight.copy_(torch.tensor([[1.0], [-1.0]]))
        head.bias.copy_(torch.tensor([-threshold, threshold]))
    return nn.Sequential(made, head).double()


def closed(f: Any, start: Callable[[int], Tensor], **settings: Any) -> Callable[[int], CheckArguments]:
    return lambda seed: CheckArguments(f, [start(seed)], settings)


CLOSED = (
    KnownModel(
        "slow decay, Euler x 2",
        True,
        "both steps are factors of 0.85",
        closed(growing(-0.3), line, scheme="euler", steps=2, head=by_sign),
    ),
    KnownModel(
        "slow turn, Euler x 8",
        True,
        "the turn is off by 0.0001 rad",
        closed(turning(0.25), plane, scheme="euler", steps=8, head=three_ways),
    ),
    KnownModel(
        "slow turn as numbers, Euler x 2",
        True,
        "the length is off by 0.6 %",
        closed(turning(0.15), plane, scheme="euler", steps=2),
    ),
    KnownModel(
        "pendulum as numbers, RK4 x 4",
        True,
        "the error is of the order of (1/4)^4 / 120",
        closed(swinging, plane, scheme="rk4", steps=4),
    ),
    KnownModel(
        "a turn of 6, Dormand-Prince at 1e-5",
        True,
        "the tolerance holds",
        closed(turning(6.0), plane, scheme="dopri54", rtol=1e-5, atol=1e-5, head=three_ways),
    ),
    KnownModel(
        "a turn of 6, RK4 x 16",
        True,
        "the turn is off by 16 (6/16)^5 / 120 rad",
        closed(turning(6.0), plane, scheme="rk4", steps=16, head=three_ways),
    ),
    KnownModel(
        "speeds constant in pieces, Euler on their knots",
        True,
        "every scheme adds their mean exactly",
        lambda seed: CheckArguments(drifting([3.0, -3.0, 2.0, -1.0], 0.25, scheme="euler", steps=4), [line(seed)]),
    ),
    KnownModel(
        "unresolved outputs, huge margins, RK4 x 2",
        True,
        "no score comes near the highest: by the paper's criterion, predictions decide",
        closed(flickering, plane, scheme="rk4", steps=2, head=decided_by_the_first),
    ),
    KnownModel(
        "flip, Euler x 1",
        False,
        "the step is a factor of -1, the flow keeps signs",
        closed(growing(-2.0), line, scheme="euler", steps=1, head=by_sign),
    ),
    KnownModel(
        "flip, Euler x 63",
        False,
        "63 factors of -1, and the flow keeps signs",
        closed(growing(-126.0), line, scheme="euler", steps=63, head=by_sign),
    ),
    KnownModel(
        "a turn of 6, Euler x 4",
        False,
        "the steps turn by 4 arctan 1.5 = 3.9 rad only",
        closed(turning(6.0), plane, scheme="euler", steps=4, head=three_ways),
    ),
    KnownModel(
        "a turn of 6, RK4 x 1",
        False,
        "the step turns by -0.68 rad, the flow by 6 - 2 pi = -0.28, and lengths grow 48-fold",
        closed(turning(6.0), plane, scheme="rk4", steps=1, head=three_ways),
    ),
    KnownModel(
        "a turn of 2 as numbers, Euler x 4",
        False,
        "the length is off by 56 %",
        closed(turning(2.0), plane, scheme="euler", steps=4),
    ),
    KnownModel(
        "a turn of 12, Fehlberg 2(1) at a tolerance of 30",
        False,
        "the tolerance lets every step pass",
        closed(turning(12.0), plane, scheme="fehlberg21", rtol=30.0, atol=30.0, head=three_ways),
    ),
    KnownModel(
        "a pole, Euler x 3",
        False,
        "dy/dt = y^3 leaves the numbers before t = 1; three steps do not notice",
        closed(Field(lambda t, y: y**3), lambda seed: 3 * line(seed).abs(), scheme="euler", steps=3, head=by_sign),
    ),
    KnownModel(
        "speeds constant in pieces, Euler between their knots",
        False,
        "two steps read 3 and 3 and miss -3 and -3",
        lambda seed: CheckArguments(drifting([3.0, -3.0, 3.0, -3.0], 1.5, scheme="euler", steps=2), [line(seed)]),
    ),
)
