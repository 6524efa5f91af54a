"""A block whose number of steps is a tensor: a loop in the graph, whose body makes the weights of its step."""

from fractions import Fraction
from typing import Any

import torch
from torch import Tensor, nn
from torch._higher_order_ops.while_loop import while_loop
from torch.func import functional_call

from anydepth.block.block import ContinuousBlock
from anydepth.block.roles import private
from anydepth.deploy.elastic.pieces import pieces_of
from anydepth.depth.bases import Basis
from anydepth.errors import ConfigError
from anydepth.weights.expansion import Expansion


class Cells(nn.Module):
    """Where a time lies among the cells of a basis, and the factors of the functions that live there."""

    tops: Tensor
    bottoms: Tensor
    starts: Tensor
    parts: Tensor
    widths: Tensor
    support: Tensor
    factors: Tensor

    def __init__(self, basis: Basis):
        super().__init__()
        pieces = pieces_of(basis)
        self.one_hot, self.is_constant = pieces.is_one_hot, len(pieces.knots) == 2 and basis.size == 1
        inner = pieces.knots[1:-1]
        tops, bottoms = [knot.numerator for knot in inner], [knot.denominator for knot in inner]
        widths = [float(1 / (b - a)) for a, b in zip(pieces.knots, pieces.knots[1:], strict=False)]
        self.register_buffer("tops", torch.tensor(tops, dtype=torch.int64))
        self.register_buffer("bottoms", torch.tensor(bottoms, dtype=torch.int64))
        self.register_buffer("starts", torch.tensor([k.numerator for k in pieces.knots[:-1]], dtype=torch.int64))
        self.register_buffer("parts", torch.tensor([k.denominator for k in pieces.knots[:-1]], dtype=torch.int64))
        self.register_buffer("widths", torch.tensor(widths, dtype=torch.float64))
        self.register_buffer("support", torch.tensor(pieces.support_CS, dtype=torch.int64))
        self.register_buffer("factors", torch.tensor(pieces.factors_CDS, dtype=torch.float64))

    def at(self, top: Tensor, bottom: Tensor, is_behind: bool) -> tuple[Tensor, Tensor | None]:
        """The functions that live at top / bottom, and their factors; none where one function is all."""
        passed = top * self.bottoms > self.tops * bottom if is_behind else top * self.bottoms >= self.tops * bottom
        cell = passed.to(torch.int64).sum().reshape(1)
        support = self.support.index_select(0, cell).reshape(-1)
        if self.one_hot:
            return support, None
        start, part = self.starts.index_select(0, cell), self.parts.index_select(0, cell)
        along = (top * part - start * bottom).double() / (bottom * part).double()
        along = 2 * along * self.widths.index_select(0, cell) - 1
        powers = [torch.ones_like(along), along]
        for d in range(2, self.factors.shape[1]):
            powers.append(((2 * d - 1) * along * powers[-1] - (d - 1) * powers[-2]) / d)
        stacked = torch.stack(powers[: self.factors.shape[1]]).reshape(1, -1)
        return support, (stacked @ self.factors.index_select(0, cell).squeeze(0)).reshape(-1)


class ElasticBlock(nn.Module):
    """What a block gives with so many equal steps as `count` says when it is called."""

    def __init__(self, block: ContinuousBlock, name: str):
        super().__init__()
        for tensor, part in block.lifted.items():
            if not isinstance(part.function, Expansion):
                raise ConfigError(
                    f"tensor {tensor!r} of block {name!r} is {part.function}, which a graph cannot evaluate at any "
                    "number of steps; export fixed steps instead, without --elastic"
                )
        if block.plan is None:
            raise ConfigError(
                f"block {name!r} has the adaptive scheme {block.scheme.name!r}, and an elastic file has a fixed one; "
                "give --scheme"
            )
        self.scheme, self.scale, self.time = block.scheme, float(block.scale), block.time
        self.unit = private(block.unit)
        self.kinds = {n: part.kind for n, part in block.lifted.items()}
        bases = {n: part.function.basis for n, part in block.lifted.items()}  # pyright: ignore
        known = list(dict.fromkeys(bases.values()))
        self.known = tuple(Cells(basis) for basis in known)
        self.cells = nn.ModuleList(self.known)
        self.place = {n: known.index(basis) for n, basis in bases.items()}
        self.held = nn.ParameterList(
            nn.Parameter(self._ready(block.stored(n).detach(), n).clone(), requires_grad=False) for n in bases
        )
        self.shared = {n: block.stored(n).detach().clone() for n in (*block.roles.counters, *block.roles.constants)}
        self.count: Tensor | None = None

    def _ready(self, stored: Tensor, name: str) -> Tensor:
        """State that is the same at all depths is decoded at once."""
        return self.kinds[name].decode(stored) if self._is_constant(name) else stored

    def _is_constant(self, name: str) -> bool:
        return self.known[self.place[name]].is_constant

    def forward(self, x: Tensor | tuple[Tensor, ...], *args: object, **kwargs: object) -> object:
        count, is_tuple = self.count, isinstance(x, tuple)
        assert count is not None
        y = x if isinstance(x, tuple) else (x,)

        if not torch.compiler.is_exporting():
            for n in range(int(count)):
                y = self._step(torch.tensor(n), count, y, is_tuple, args, kwargs)
            return y if is_tuple else y[0]

        def on(n: Tensor, *y: Tensor) -> Tensor:
            return n < count

        def step(n: Tensor, *y: Tensor) -> tuple[Tensor, ...]:
            return (n + 1, *self._step(n, count, y, is_tuple, args, kwargs))

        _, *y = while_loop(on, step, (torch.zeros((), dtype=torch.int64), *y))
        return tuple(y) if is_tuple else y[0]

    def _step(
        self, n: Tensor, count: Tensor, y: tuple[Tensor, ...], is_tuple: bool, args: tuple, kwargs: dict[str, object]
    ) -> tuple[Tensor, ...]:
        scheme, slopes = self.scheme, []
        step = (self.scale / count.double()).to(y[0].dtype)
        for c, row, is_behind in zip(scheme.c, scheme.a, scheme.reads_behind, strict=True):
            at = _advanced(y, row, step, slopes)
            time = n * c.denominator + c.numerator, count * c.denominator
            slope = self._slope(time, is_behind, at if is_tuple else at[0], args, kwargs)
            slopes.append(slope if isinstance(slope, tuple) else (slope,))
        return _advanced(y, scheme.b, step, slopes)

    def _slope(
        self, time: tuple[Tensor, Tensor], is_behind: bool, at: Any, args: tuple, kwargs: dict[str, object]
    ) -> object:
        top, bottom = time
        found = [cells.at(top, bottom, is_behind) for cells in self.known]
        placed = {n: self._read(n, held, found[self.place[n]]) for n, held in zip(self.kinds, self.held, strict=True)}
        dtype = (at[0] if isinstance(at, tuple) else at).dtype
        lead = ((top.double() / bottom.double()).to(dtype),) if self.time else ()
        return functional_call(self.unit, {**placed, **self.shared}, (*lead, at, *args), kwargs)

    def _read(self, name: str, held: Tensor, where: tuple[Tensor, Tensor | None]) -> Tensor:
        if self._is_constant(name):
            return held[0]
        support, factors = where
        rows = held.index_select(0, support)
        if factors is None:
            return self.kinds[name].decode(rows[0])
        flat = factors.to(held.dtype).reshape(1, -1) @ rows.reshape(self.known[self.place[name]].support.shape[1], -1)
        return self.kinds[name].decode(flat.reshape(held.shape[1:]))


def _advanced(y: tuple[Tensor, ...], row: tuple[Fraction, ...], step: Tensor, slopes: list) -> tuple[Tensor, ...]:
    terms = [(float(factor), slope) for factor, slope in zip(row, slopes, strict=True) if factor]
    if not terms:
        return y
    sums = []
    for i, part in enumerate(y):
        total = sum(factor * slope[i] if factor != 1 else slope[i] for factor, slope in terms)
        sums.append(part + step * total)
    return tuple(sums)
