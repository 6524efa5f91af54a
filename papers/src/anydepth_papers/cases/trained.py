"""Nets trained on a task that an ODE can do, or cannot."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from anydepth.block.block import ContinuousBlock
from anydepth.errors import NumericalError
from anydepth.solve.odeint import odeint
from anydepth_papers.cases import CheckArguments, KnownModel
from anydepth_papers.cases.closed import line, plane, swinging

KEEPS_ORDER = "flows on a line keep its order, so no ODE classifies more than 75 % of these intervals"
GENTLE = "a gentle flow solves the task, and these steps are small for it"
REVERSES = "flows on a line keep its order, and these outputs reverse it"


def intervals(seed: int, count: int = 400) -> tuple[Tensor, Tensor]:
    """On a line: the middle is one class, both sides are the other."""
    draw = torch.Generator().manual_seed(seed)
    inner, outer = (torch.rand(count // 2, generator=draw) for _ in range(2))
    side = torch.arange(count // 2) % 2 * 2.0 - 1
    x = torch.cat([0.8 * inner - 0.4, side * (0.6 + 0.4 * outer)])
    return x[:, None], (torch.arange(count) < count // 2).long()


def moons(seed: int, count: int = 400) -> tuple[Tensor, Tensor]:
    """Two interleaved half circles."""
    draw = torch.Generator().manual_seed(seed)
    angle, label = torch.pi * torch.rand(count, generator=draw), torch.arange(count) % 2
    x = torch.stack([angle.cos(), angle.sin()], -1)
    x = torch.where(label[:, None] == 1, torch.tensor([1.0, 0.4]) - x, x)
    return x + 0.05 * torch.randn(count, 2, generator=draw), label


def net(features: int, width: int = 24) -> nn.Sequential:
    return nn.Sequential(nn.Linear(features, width), nn.Tanh(), nn.Linear(width, features))


FITS = 90.0
"""Per cent that a classifier must get right before its case says anything; else it is drawn again."""


def fitted(draw: Callable[[], nn.Module], x: Tensor, y: Tensor, epochs: int = 300, lr: float = 0.03) -> nn.Module:
    """Trained on all of the data at once; labels are classes if they are whole numbers. The first draw that fits."""
    for _ in range(10):
        model = draw()
        loss = functional.mse_loss if y.is_floating_point() else functional.cross_entropy
        optimizer = torch.optim.Adam(model.parameters(), lr)
        for _ in range(epochs):
            optimizer.zero_grad()
            loss(model(x), y).backward()
            optimizer.step()
        with torch.no_grad():
            right = 100 * (model(x).argmax(-1) == y).double().mean() if not y.is_floating_point() else FITS
        if right >= FITS:
            return model
    raise NumericalError("none of 10 draws could be trained; the case says nothing")


def flow(features: int, classes: int | None, **block: Any) -> nn.Module:
    """A block on the inputs themselves, then a linear classifier if there are classes."""
    made = ContinuousBlock(lambda: net(features), **{"size": 1, **block})
    return made if classes is None else nn.Sequential(made, nn.Linear(features, classes))


def trained(
    data: Callable, classes: int | None, epochs: int = 300, lr: float = 0.03, **block: Any
) -> Callable[[int], CheckArguments]:
    def make(seed: int) -> CheckArguments:
        x, y = data(seed)
        torch.manual_seed(seed)
        return CheckArguments(fitted(lambda: flow(x.shape[1], classes, **block), x, y, epochs, lr), [(x, y)])

    return make


class NetField(nn.Module):
    """A field as other libraries write it: forward(t, y)."""

    def __init__(self, features: int):
        super().__init__()
        self.net = net(features)

    def forward(self, t: Tensor, y: Tensor) -> Tensor:
        return self.net(y)


class Outside(nn.Module):
    """A field and the loop that another library would run."""

    def __init__(self, features: int, classes: int, steps: int):
        super().__init__()
        self.field, self.head, self.steps = NetField(features), nn.Linear(features, classes), steps

    def forward(self, y: Tensor) -> Tensor:
        for i in range(self.steps):
            y = y + self.field(torch.tensor(i / self.steps), y) / self.steps
        return self.head(y)


def outside(data: Callable, steps: int) -> Callable[[int], CheckArguments]:
    def make(seed: int) -> CheckArguments:
        x, y = data(seed)
        torch.manual_seed(seed)
        model = fitted(lambda: Outside(x.shape[1], 2, steps), x, y)
        return CheckArguments(model.field, [(x, y)], {"scheme": "euler", "steps": steps, "head": model.head})

    return make


def reversing(seed: int) -> tuple[Tensor, Tensor]:
    x = line(seed).float()
    return x, -x


def swung(seed: int) -> tuple[Tensor, Tensor]:
    """Where a pendulum is after one unit of time."""
    x = plane(seed)
    y = odeint(swinging, x, (0, 1), method="dopri54", rtol=1e-8, atol=1e-8)[-1]
    return x.float(), y.float()  # pyright: ignore[reportReturnType, reportAttributeAccessIssue]


TRAINED = tuple(
    KnownModel(name, proper, because, make, True)
    for name, proper, because, make in (
        ("intervals, Euler x 2", False, KEEPS_ORDER, trained(intervals, 2, scheme="euler", steps=2)),
        (
            "intervals, Euler x 4 at scale 2",
            False,
            KEEPS_ORDER,
            trained(intervals, 2, scheme="euler", steps=4, scale=2),
        ),
        ("intervals, midpoint x 2", False, KEEPS_ORDER, trained(intervals, 2, scheme="midpoint", steps=2)),
        ("intervals, RK4 x 1", False, KEEPS_ORDER, trained(intervals, 2, scheme="rk4", steps=1)),
        (
            "intervals, ResNet of 4 layers",
            False,
            KEEPS_ORDER,
            trained(intervals, 2, basis="constant", size=4, scheme="euler", steps=4, scale=4),
        ),
        (
            "intervals, ResNet of 16 layers",
            False,
            KEEPS_ORDER,
            trained(intervals, 2, lr=0.005, basis="constant", size=16, scheme="euler", steps=16, scale=16),
        ),
        (
            "intervals, Bogacki-Shampine at a tolerance of 10",
            False,
            KEEPS_ORDER,
            trained(intervals, 2, scheme="bosh32", rtol=10.0, atol=10.0),
        ),
        ("intervals, a field outside, Euler x 3", False, KEEPS_ORDER, outside(intervals, 3)),
        ("x to -x as numbers, Euler x 3", False, REVERSES, trained(reversing, None, scheme="euler", steps=3)),
        ("moons, Euler x 64", True, GENTLE, trained(moons, 2, scheme="euler", steps=64)),
        ("moons, RK4 x 8", True, GENTLE, trained(moons, 2, scheme="rk4", steps=8)),
        ("moons, RK4 x 8 with 4 constants", True, GENTLE, trained(moons, 2, size=4, scheme="rk4", steps=8)),
        (
            "moons, midpoint x 16 with 5 hats",
            True,
            GENTLE,
            trained(moons, 2, basis="linear", size=5, scheme="midpoint", steps=16),
        ),
        ("moons, Dormand-Prince at 1e-4", True, GENTLE, trained(moons, 2, 100, scheme="dopri54", rtol=1e-4, atol=1e-4)),
        ("moons, a field outside, Euler x 48", True, GENTLE, outside(moons, 48)),
        (
            "learnt pendulum as numbers, RK4 x 4",
            True,
            "the task is a flow",
            trained(swung, None, scheme="rk4", steps=4),
        ),
    )
)
