"""Examples on their way from one mark to the next, each at its own time and with its own step."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol, TypeVar

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from anydepth.depth.times import Instant, Side
from anydepth.errors import ConfigError, ShapeError
from anydepth.solve.tensors import State


@dataclass(frozen=True)
class Span:
    """From one mark to the next, in the direction of time."""

    start: Fraction
    end: Fraction

    @property
    def sign(self) -> int:
        return 1 if self.end > self.start else -1

    @property
    def ends(self) -> tuple[Instant, Instant]:
        """Start and end, seen from inside."""
        ahead, behind = (Side.RIGHT, Side.LEFT) if self.sign > 0 else (Side.LEFT, Side.RIGHT)
        return Instant(self.start, ahead), Instant(self.end, behind)

    def instants(self, times: Tensor) -> list[Instant]:
        """Of every example, exactly; at the ends of the span, the side inside."""
        ends = {float(end.time): end for end in self.ends}
        return [ends.get(time) or Instant(Fraction(time), self.ends[0].side) for time in times.tolist()]


class RowField(Protocol):
    """A vector field that is read at another time for every example."""

    @property
    def breakpoints(self) -> Sequence[Fraction]: ...

    @property
    def scale(self) -> Fraction: ...

    def slopes(self, span: Span, times: Tensor, y: State, rows: Tensor) -> State:
        """The slopes of some examples, given their times in a span (float64, CPU), states, and places in the batch."""
        ...


@dataclass
class Walkers:
    """Examples on their way through a span; all tensors have one entry for each."""

    rows: Tensor
    time: Tensor
    width: Tensor
    growth: Tensor
    y: State
    slope: State

    def take(self, places: Tensor) -> "Walkers":
        def some(parts: State) -> State:
            return tuple(part.index_select(0, places.to(part.device)) for part in parts)

        time, width, growth = self.time[places], self.width[places], self.growth[places]
        return Walkers(self.rows[places], time, width, growth, some(self.y), some(self.slope))


def joined(parts: Sequence[Walkers]) -> Walkers:
    """In the order of the batch."""

    def whole(name: str) -> Tensor:
        return torch.cat([getattr(part, name) for part in parts])

    y, slope = (
        tuple(torch.cat(column) for column in zip(*(getattr(part, name) for part in parts), strict=True))
        for name in ("y", "slope")
    )
    found = Walkers(whole("rows"), whole("time"), whole("width"), whole("growth"), y, slope)
    return found if len(parts) == 1 else found.take(found.rows.argsort())


@dataclass
class Trial:
    """A step that was tried, for every example."""

    after: State
    slope: State | None
    """At its end, where the scheme gives it."""
    error: Tensor
    is_sound: bool
    """Whether every number on the way was finite; looked at only where gradients are wanted."""


def without_slope(walkers: Walkers | None) -> Walkers | None:
    """Past a breakpoint: the field may have jumped."""
    return None if walkers is None else replace(walkers, slope=())


def landings(span: Span, walkers: Walkers) -> Tensor:
    """Where the next steps end: on the mark if it is near, halfway if it is near enough to leave a sliver."""
    left = (float(span.end) - walkers.time).abs()
    width = torch.where(2 * walkers.width > left, left / 2, walkers.width)
    end = torch.where(walkers.width >= 0.99 * left, float(span.end), walkers.time + span.sign * width)
    return torch.where(end == walkers.time, float(span.end), end)


def count_of(y: State) -> int:
    """Examples of a batch, which lie along the first axis of every part."""
    shapes = {part.shape[:1] for part in y}
    if len(shapes) != 1 or not next(iter(shapes)):
        found = ", ".join(str(tuple(part.shape)) for part in y)
        raise ShapeError(f"per_example needs examples along the first axis of every part of the state, got {found}")
    return len(y[0])


Given = TypeVar("Given")


def picked(given: Given, rows: Tensor, count: int) -> Given:
    """Extra arguments of some examples: tensors with a batch axis give their rows, those of one row are shared."""

    def pick(leaf: object) -> object:
        if not isinstance(leaf, Tensor) or leaf.dim() == 0 or len(leaf) == 1:
            return leaf
        if len(leaf) != count:
            raise ConfigError(
                f"with per_example every extra tensor has a row for each of the {count} examples, or one row that all "
                f"share, got shape {tuple(leaf.shape)}; give what all share an axis of 1 in front"
            )
        return leaf if len(rows) == count else leaf.index_select(0, rows.to(leaf.device))

    return tree_map(pick, given)
