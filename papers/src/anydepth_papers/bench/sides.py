"""What a side does in one round: a training step, or an answer."""

from collections.abc import Callable, Iterable
from contextlib import nullcontext

import torch
from torch import Tensor, nn

from anydepth.block.block import ContinuousBlock
from anydepth.deploy.freeze import freeze

Run = Callable[[], object]

Sides = dict[str, Run]


_AUTOCAST: list[torch.dtype] = []
"""The precision of all sides, where it is not float32."""


def use_precision(name: str) -> None:
    """float32, or bf16: all sides under autocast."""
    _AUTOCAST[:] = [torch.bfloat16] if name == "bf16" else []


def _measured(run: Run) -> Run:
    """A round in the precision asked for, waited for where a device works on its own."""

    def whole() -> object:
        device = torch.get_default_device()
        with torch.autocast(device.type, dtype=_AUTOCAST[0]) if _AUTOCAST else nullcontext():
            result = run()
        if device.type == "cuda":
            torch.cuda.synchronize()
        return result

    return whole


def training_step(model: Callable[..., Tensor], parameters: Iterable[nn.Parameter], *inputs: Tensor) -> Run:
    """Forward, backward and an SGD step."""
    optimizer = torch.optim.SGD(parameters, lr=1e-3, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        model(*inputs).square().mean().backward()
        optimizer.step()

    return _measured(step)


def answer(model: Callable[..., Tensor], *inputs: Tensor) -> Run:
    """Forward, without gradients."""

    def run() -> Tensor:
        with torch.inference_mode():
            return model(*inputs)

    return _measured(run)


class Stack(nn.Module):
    """A hand-written residual network: x + unit(x, ...), unit after unit."""

    def __init__(self, make_unit: Callable[[], nn.Module], depth: int):
        super().__init__()
        self.units = nn.ModuleList(make_unit() for _ in range(depth))

    def forward(self, x: Tensor, *args: Tensor) -> Tensor:
        for unit in self.units:
            x = x + unit(x, *args)
        return x


class Loop(nn.Module):
    """Euler steps of one unit, written by hand."""

    def __init__(self, unit: nn.Module, steps: int):
        super().__init__()
        self.unit, self.steps = unit, steps

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(self.steps):
            x = x + self.unit(x) / self.steps
        return x


class ThreeEighths(nn.Module):
    """Steps of the 3/8 rule of one unit, written by hand."""

    def __init__(self, unit: nn.Module, steps: int):
        super().__init__()
        self.unit, self.steps = unit, steps

    def forward(self, x: Tensor) -> Tensor:
        f, h = self.unit, 1 / self.steps
        for _ in range(self.steps):
            a = f(x)
            b = f(x + a * (h / 3))
            c = f(x + (b - a / 3) * h)
            d = f(x + (a - b + c) * h)
            x = x + (a + (b + c) * 3 + d) * (h / 8)
        return x


class Chain(nn.Module):
    """One unit after itself, without a solver: what no solver can be faster than."""

    def __init__(self, unit: nn.Module, evaluations: int):
        super().__init__()
        self.unit, self.evaluations = unit, evaluations

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(self.evaluations):
            x = self.unit(x)
        return x


class Masked(nn.Module):
    """A block that takes a mask, so named that it can be frozen."""

    def __init__(self, block: ContinuousBlock):
        super().__init__()
        self.block = block

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.block(x, mask)


def answers(block: ContinuousBlock, compiled: bool, *inputs: Tensor) -> Sides:
    """Ours as it is, frozen, and frozen and compiled."""
    model = (Masked(block) if len(inputs) > 1 else block).eval()
    frozen = freeze(model)
    found = {"anydepth": answer(model, *inputs), "anydepth frozen": answer(frozen, *inputs)}
    if compiled:
        found["anydepth frozen, compiled"] = answer(torch.compile(frozen), *inputs)
    return found


def close(sides: Sides) -> None:
    """End the processes that sides have started."""
    for run in sides.values():
        end = getattr(run, "close", None)
        if end is not None:
            end()
