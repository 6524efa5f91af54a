"""Time in floating point: the points a solver steps between, and gradients with respect to them.

Steps are taken with plain numbers. Where times have a gradient, a step from A to B of width h is the same step in
another variable s, t = A + s (B - A) / h, dy/ds = f(t, y) (B - A) / h, whose last factor is 1 and carries the gradient
of the width.
"""

from dataclasses import dataclass
from math import copysign

import torch
from torch import Tensor


@dataclass(frozen=True)
class Point:
    """A point in time; `node` is the same as a tensor, if it has a gradient."""

    time: float
    node: Tensor | None = None
    is_jump: bool = False
    """Whether the field may jump here, so that it must be read from the side of a step."""


@dataclass(frozen=True)
class Span:
    """One step between two points."""

    start: Point
    end: Point

    @property
    def width(self) -> float:
        return self.end.time - self.start.time

    def times(self, shares: tuple[float, ...], like: Tensor) -> list[Tensor]:
        """The time at every share of the step, as tensors for a field."""
        if not shares:
            return []
        start, width = self.start.time, self.width
        plain = [self.end.time if share == 1 else start + share * width for share in shares]
        if len(plain) < 3 and self.start.node is None and not (self.start.is_jump or self.end.is_jump):
            return [torch.tensor(time, dtype=like.dtype, device=like.device) for time in plain]
        found = torch.tensor(plain, dtype=like.dtype, device=like.device)
        if self.start.is_jump or self.end.is_jump:
            found = torch.stack([self._inside(time, share) for time, share in zip(found, shares, strict=True)])
        if self.start.node is None or self.end.node is None:
            return list(found.unbind())
        nodes = [self.start.node + share * (self.end.node - self.start.node) for share in shares]
        return [time + (node - node.detach()).to(time.dtype) for time, node in zip(found, nodes, strict=True)]

    def _inside(self, time: Tensor, share: float) -> Tensor:
        """On a jump, the nearest number on the side of this step."""
        is_start, is_end = share == 0 and self.start.is_jump, share == 1 and self.end.is_jump
        if not is_start and not is_end:
            return time
        away = copysign(float("inf"), self.width if is_start else -self.width)
        return torch.nextafter(time, torch.full_like(time, away))

    def stretch(self) -> Tensor | None:
        """The factor (B - A) / h, where it has a gradient."""
        if self.start.node is None or self.end.node is None:
            return None
        width = self.end.node - self.start.node
        return 1 + (width - width.detach()) / self.width if width.requires_grad else None

    def share(self, times: Tensor) -> Tensor:
        """Which share of the step lies before each of the times, with the gradients of all."""
        if self.start.node is None or self.end.node is None:
            return (times - self.start.time) / self.width
        return (times - self.start.node) / (self.end.node - self.start.node)
