"""What is compared: training steps of the same network, ours and others'."""

from collections.abc import Callable

import torch
import torchdiffeq
from torch import nn

import anydepth as ad

Sides = dict[str, Callable[[], object]]
SHAPES = {"16ch-32px": (16, 32), "32ch-16px": (32, 16), "64ch-8px": (64, 8)}
BATCH = 128


def training_step(model: Callable, parameters, x: torch.Tensor) -> Callable[[], object]:
    optimizer = torch.optim.SGD(parameters, lr=1e-3, momentum=0.9)

    def step():
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()

    return step


class Stack(nn.Module):
    """A hand-written residual network."""

    def __init__(self, channels: int, depth: int):
        super().__init__()
        self.units = nn.ModuleList(ad.units.PreactConv(channels) for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for unit in self.units:
            x = x + unit(x)
        return x


def images(channels: int, pixels: int, last: bool) -> torch.Tensor:
    x = torch.randn(BATCH, channels, pixels, pixels)
    return x.to(memory_format=torch.channels_last) if last else x


def resnet(shape: str) -> Sides:
    """Eight residual units by hand, in both memory formats, against the equivalent block."""
    channels, pixels = SHAPES[shape]
    sides = {}
    for last in (False, True):
        kind = "channels-last" if last else "contiguous"
        stack = Stack(channels, 8)
        stack = stack.to(memory_format=torch.channels_last) if last else stack
        block = ad.ContinuousBlock(
            lambda: ad.units.PreactConv(channels), "constant", 8, scheme="euler", steps=8, scale=8
        )
        x = images(channels, pixels, last)
        sides[f"resnet {kind}"] = training_step(stack, stack.parameters(), x)
        sides[f"anydepth {kind}"] = training_step(block, block.parameters(), x)
    return sides


def solver(shape: str) -> Sides:
    """Eight RK4 steps (the 3/8 rule, which is torchdiffeq's) of one convolutional unit."""
    channels, pixels = SHAPES[shape]
    x = images(channels, pixels, True)
    block = ad.ContinuousBlock(lambda: ad.units.PreactConv(channels), scheme="rk4_38", steps=8)
    unit = ad.units.PreactConv(channels).to(memory_format=torch.channels_last)
    times, options = torch.tensor([0.0, 1.0]), {"step_size": 1 / 8}

    def peer(x):
        return torchdiffeq.odeint(lambda t, y: unit(y), x, times, method="rk4", options=options)[-1]

    return {
        "torchdiffeq": training_step(peer, unit.parameters(), x),
        "anydepth": training_step(block, block.parameters(), x),
    }


def small() -> Sides:
    """64 Euler steps of an MLP 2-48-48-2: overhead decides."""
    x = torch.randn(BATCH, 2)
    unit, other = ad.units.MLP(2, 48, 2), ad.units.MLP(2, 48, 2)
    block = ad.ContinuousBlock(lambda: ad.units.MLP(2, 48, 2), scheme="euler", steps=64)
    times, options = torch.tensor([0.0, 1.0]), {"step_size": 1 / 64}

    class Opaque(ad.units.MLP):
        """The same unit as a user's own class, for the general path."""

    general = ad.ContinuousBlock(lambda: Opaque(2, 48, 2), scheme="euler", steps=64)

    def peer(x):
        return torchdiffeq.odeint(lambda t, y: unit(y), x, times, method="euler", options=options)[-1]

    def loop(x):
        for _ in range(64):
            x = x + other(x) / 64
        return x

    return {
        "torchdiffeq": training_step(peer, unit.parameters(), x),
        "plain loop": training_step(loop, other.parameters(), x),
        "anydepth, any unit": training_step(general, general.parameters(), x),
        "anydepth": training_step(block, block.parameters(), x),
    }


def checkpoint() -> Sides:
    """64 RK4 steps with and without keeping the activations."""
    x = torch.randn(32, 16, 16, 16).to(memory_format=torch.channels_last)
    sides = {}
    for mode in ("backprop", "checkpoint"):
        block = ad.ContinuousBlock(
            lambda: ad.units.PreactConv(16), "constant", 8, scheme="rk4", steps=64, gradient=mode
        )
        sides[mode] = training_step(block, block.parameters(), x)
    return sides


CASES: dict[str, tuple[Callable[[], Sides], str]] = {
    **{f"resnet {shape}": (lambda shape=shape: resnet(shape), "resnet") for shape in SHAPES},
    **{f"rk4 {shape}": (lambda shape=shape: solver(shape), "torchdiffeq") for shape in SHAPES},
    "small field": (small, "torchdiffeq"),
    "checkpoint": (checkpoint, "backprop"),
}
"""The sides of every case, and (the beginning of) the name of the one the others are compared with."""
