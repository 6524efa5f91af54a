"""Weights as functions of depth: a few coordinates of a few tensors, and how rough each tensor is."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from itertools import pairwise
from math import isfinite

import torch
from torch import Tensor, nn

from anydepth.block.block import ContinuousBlock
from anydepth.block.passes import Kind
from anydepth.depth.times import Instant, Side
from anydepth.json_values import JsonObject
from anydepth.surgery.blocks import blocks_of

DEPTHS, COORDINATES, MOST_BREAKS = 129, 6, 512
AT_ONCE = 1 << 22
"""Values of a tensor held at a time."""


@dataclass(frozen=True)
class WeightLines:
    """Some coordinates of one tensor over depth.

    `roughness` is sum_i |theta(t_i+1) - theta(t_i)| over the mean of |theta(t_i)|, both summed over the whole
    tensor (ContinuousNet Fig 8): 1 means that the way over depth is as long as the weights are large.
    """

    block: str
    tensor: str
    shape: tuple[int, ...]
    depths: tuple[float, ...]
    lines: tuple[tuple[float, ...], ...]
    roughness: float

    def describe(self) -> JsonObject:
        """JSON values; what is not finite is null."""
        lines = [[_finite(value) for value in line] for line in self.lines]
        return asdict(self) | {"lines": lines, "roughness": _finite(self.roughness)}


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None


def weight_lines(model: nn.Module) -> tuple[WeightLines, ...]:
    """For every block: its largest weight, a norm's weight, and running statistics, as far as it has them."""
    return tuple(
        _lines(name or "(model)", block, tensor)
        for name, block in blocks_of(model).items()
        for tensor in telling_tensors(block)
    )


def telling_tensors(block: ContinuousBlock) -> list[str]:
    """Names of the tensors to show."""
    rank = {name: block.stored(name).dim() - 1 for name in block.lifted}
    trained = [name for name, part in block.lifted.items() if part.kind is Kind.PARAMETER]
    matrices = [name for name in trained if rank[name] >= 2] or trained
    groups = (
        sorted(matrices, key=lambda name: -block.stored(name)[0].numel()),
        [name for name in trained if rank[name] == 1 and name.endswith("weight")],
        [name for name, part in block.lifted.items() if part.kind is Kind.STATE],
        [name for name, part in block.lifted.items() if part.kind is Kind.POSITIVE],
    )
    return list(dict.fromkeys(group[0] for group in groups if group))


def _lines(name: str, block: ContinuousBlock, tensor: str) -> WeightLines:
    instants = _instants(block.functions[tensor].breakpoints)
    shape = block.stored(tensor).shape[1:]
    places = torch.linspace(0, shape.numel() - 1, min(COORDINATES, shape.numel())).round().long()
    kept, path, size, last = [], 0.0, 0.0, None
    with torch.no_grad():
        for row in _rows(block, tensor, instants):
            flat = row.flatten().double().cpu()
            kept.append(flat[places])
            size += float(flat.abs().sum()) / len(instants)
            path += 0.0 if last is None else float((flat - last).abs().sum())
            last = flat
    lines = tuple(tuple(line) for line in torch.stack(kept, dim=1).tolist())
    depths = tuple(float(instant.time) for instant in instants)
    return WeightLines(name, tensor, tuple(shape), depths, lines, path / size if size else 0.0)


def _instants(breakpoints: Sequence[Fraction]) -> list[Instant]:
    """Equal steps over depth, and both sides of every place where the function may jump or bend."""
    times = {Fraction(i, DEPTHS - 1) for i in range(DEPTHS)}
    inner = {b for b in breakpoints if 0 < b < 1} if len(breakpoints) <= MOST_BREAKS else set()
    plain = [Instant(time, Side.LEFT if time == 1 else Side.RIGHT) for time in times - inner]
    return sorted([*plain, *(Instant(b, side) for b in inner for side in Side)])


def _rows(block: ContinuousBlock, tensor: str, instants: list[Instant]) -> Iterator[Tensor]:
    """theta at every instant, a few at a time."""
    part, held = block.lifted[tensor], block.held(tensor)
    count = max(1, AT_ONCE // max(1, held[0][0].numel()))
    ends = [*range(0, len(instants), count), len(instants)]
    for start, end in pairwise(ends):
        reading = part.function.reading(instants[start:end])
        rows = reading.rows(*held)
        yield from (part.kind.decode(rows[place]) for place in reading.index)
