"""Steps on a given grid as torchdiffeq takes them, with interpolation at the times asked for."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from anydepth.depth.schemes import Scheme
from anydepth.errors import ConfigError
from anydepth.solve.tensors import State
from anydepth.torchdiffeq.adams import Adams
from anydepth.torchdiffeq.clock import Point, Span
from anydepth.torchdiffeq.steps import Field, Stepper, stretched

GridConstructor = Callable[[State, Tensor], Tensor]


@dataclass(frozen=True)
class Layout:
    """Which steps a fixed method takes, and what it does between them: torchdiffeq's options by their names."""

    step_size: float | None = None
    grid_constructor: GridConstructor | None = None
    interp: str = "linear"
    perturb: bool = False
    """Whether the field may jump at every point of the grid, and is read from the side of the step there."""
    max_order: int | None = None
    """Of the Adams method, one more than its highest order."""

    def grid(self, y: State, t: Tensor) -> Tensor:
        """The points between which steps are taken."""
        if self.grid_constructor is not None:
            return _fitting(self.grid_constructor(y, t), t)
        if self.step_size is None:
            return t
        reach = (t[-1] - t[0]).detach()
        steps = int(torch.ceil(reach.abs() / self.step_size + 1)) - 1  # in the precision of t, as torchdiffeq counts
        inner = torch.arange(steps, dtype=t.dtype, device=t.device) * self.step_size
        return torch.cat([t[0] + torch.sign(reach) * inner, t[-1:]])


def _fitting(grid: object, t: Tensor) -> Tensor:
    """A user's grid, refused where it does not span the times."""
    if not isinstance(grid, Tensor) or grid.dim() != 1 or len(grid) < 2:
        raise ConfigError(f"grid_constructor must return a one-dimensional tensor of at least two times, got {grid!r}")
    ends, given = (float(grid[0]), float(grid[-1])), (float(t[0]), float(t[-1]))
    if ends != given:
        raise ConfigError(f"grid_constructor must return a grid that begins and ends like t, {given}, got {ends}")
    if not bool(((grid[1:] - grid[:-1]).detach() * (ends[1] - ends[0]) > 0).all()):
        raise ConfigError("grid_constructor must return times in the strict order of t")
    return grid.to(t.device)


class Fixed:
    """An integration with steps that are given."""

    def __init__(self, field: Field, scheme: Scheme, layout: Layout, active: int = 1):
        self.layout = layout
        self.stepper = Stepper(field, scheme, active)

    def solve(self, y: State, t: Tensor) -> tuple[list[Tensor], State]:
        """The first component at every time after the first, and the whole state at the last."""
        t = t if torch.is_grad_enabled() else t.detach()
        times, grid, slope = t.detach().double().tolist(), self.layout.grid(y, t), None
        advanced, found = self._stepping(grid), []
        for span in _spans(grid, self.layout.perturb):
            first = self.stepper.slope(y, span) if slope is None else slope
            after, slope = advanced(y, first, span), None
            while len(found) + 1 < len(times) and (times[len(found) + 1] - span.end.time) * span.width <= 0:
                share = _share(span, t[len(found) + 1], times[len(found) + 1])
                if self.layout.interp == "cubic" and slope is None:
                    slope = self.stepper.slope(after, span, 1.0)
                found.append(_between(y[0], after[0], span, share, first, slope)[None])
            y, slope = after, None if self.layout.perturb else slope
        return found, y

    def _stepping(self, grid: Tensor) -> Callable[[State, State, Span], State]:
        if self.layout.max_order is not None:
            slack = 8 * torch.finfo(grid.dtype).eps * float(grid.detach().abs().max())
            return Adams(self.stepper, self.layout.max_order, slack).step
        return lambda y, first, span: self.stepper.take(y, first, span, self.stepper.scaled(span.width)).after


def _spans(grid: Tensor, is_jump: bool) -> Iterator[Span]:
    nodes = grid.double().unbind() if grid.requires_grad else [None] * len(grid)
    points = [Point(t, node, is_jump) for t, node in zip(grid.detach().double().tolist(), nodes, strict=True)]
    return (Span(start, end) for start, end in pairwise(points))


def _share(span: Span, node: Tensor, time: float) -> float | Tensor:
    """How much of a step lies before a time, with a gradient where the times have one."""
    if node.requires_grad or span.start.node is not None:
        return span.share(node)
    return (time - span.start.time) / span.width


def _between(y: Tensor, after: Tensor, span: Span, share: float | Tensor, first: State, last: State | None) -> Tensor:
    """The state inside a step: linear between its ends, cubic if the slope at the end is given."""
    if isinstance(share, float) and share == 1:
        return after
    s = share.to(y.dtype) if isinstance(share, Tensor) else share
    if last is None:
        return y + s * (after - y)
    stretch = span.stretch()
    (f0, *_), (f1, *_) = stretched(first, stretch), stretched(last, stretch)
    return y + s * s * (3 - 2 * s) * (after - y) + span.width * s * (1 - s) * ((1 - s) * f0 - s * f1)
