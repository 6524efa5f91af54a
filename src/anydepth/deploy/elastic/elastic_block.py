"""A block whose number of steps is a tensor: a loop in the graph, whose body makes the weights of its step.

Which functions live where a stage lies, and with which factors, is worked out for all steps ahead of the loop, so that
its body has little more to do than a step of a graph with fixed steps.
"""

from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import Tensor, nn
from torch._higher_order_ops.while_loop import while_loop
from torch.func import functional_call

from anydepth.block.block import ContinuousBlock
from anydepth.block.roles import private
from anydepth.deploy.elastic.pieces import pieces_of
from anydepth.deploy.elastic.steps_input import MOST
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
        self.takes_all = not self.one_hot and basis.size <= FEW * pieces.support_CS.shape[1]
        factors = pieces.for_all(basis.size) if self.takes_all else pieces.factors_CDS
        self.register_buffer("support", torch.tensor(pieces.support_CS, dtype=torch.int64))
        self.register_buffer("factors", torch.tensor(factors, dtype=torch.float64))

    def at(self, top_T: Tensor, bottom: Tensor, is_behind: bool) -> "Rows":
        """At the times top / bottom: the functions that live there, and their factors; none where one is all."""
        before_TC, after_C = top_T[:, None] * self.bottoms, self.tops * bottom
        passed_TC = before_TC > after_C if is_behind else before_TC >= after_C
        cell_T = passed_TC.to(torch.int64).sum(1)
        if self.one_hot:
            return self.support[:, 0].index_select(0, cell_T), None
        start_T, part_T = self.starts.index_select(0, cell_T), self.parts.index_select(0, cell_T)
        along_T = (top_T * part_T - start_T * bottom).double() / (bottom * part_T).double()
        along_T = 2 * along_T * self.widths.index_select(0, cell_T) - 1
        powers = [torch.ones_like(along_T), along_T]
        for d in range(2, self.factors.shape[1]):
            powers.append(((2 * d - 1) * along_T * powers[-1] - (d - 1) * powers[-2]) / d)
        stacked_TD = torch.stack(powers[: self.factors.shape[1]], 1)
        factors_TS = (stacked_TD[:, None] @ self.factors.index_select(0, cell_T)).squeeze(1)
        return None if self.takes_all else self.support.index_select(0, cell_T), factors_TS


Rows = tuple[Tensor | None, Tensor | None]
"""Of coefficients: which, (times) or (times, functions), None for all; and their factors."""
FEW = 3
"""So many times the functions that live on a cell may be all there are, for all rows to be read where they are."""


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
                f"block {name!r} has the adaptive scheme {block.scheme.name!r}, but an elastic file needs a fixed one; "
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
        ahead = self._ahead(count, y[0].dtype)

        if not torch.compiler.is_exporting():
            for n in range(int(count)):
                y = self._step(torch.tensor(n), count, y, ahead, is_tuple, args, kwargs)
            return y if is_tuple else y[0]

        def on(n: Tensor, *y: Tensor) -> Tensor:
            return n < count

        def step(n: Tensor, *y: Tensor) -> tuple[Tensor, ...]:
            return (n + 1, *self._step(n, count, y, ahead, is_tuple, args, kwargs))

        _, *y = while_loop(on, step, (torch.zeros((), dtype=torch.int64), *y))
        return tuple(y) if is_tuple else y[0]

    def _ahead(self, count: Tensor, dtype: torch.dtype) -> "Ahead":
        """For every basis and stage, the rows that each of the most steps reads; those past the last are not used."""
        n, kinds = torch.arange(MOST), dict.fromkeys(zip(self.scheme.c, self.scheme.reads_behind, strict=True))
        tops = {kind: (n * kind[0].denominator + kind[0].numerator, count * kind[0].denominator) for kind in kinds}
        moving = [place for place, cells in enumerate(self.known) if not cells.is_constant]
        rows = {(place, *kind): self.known[place].at(*tops[kind], kind[1]) for place in moving for kind in kinds}
        return Ahead((self.scale / count.double()).to(dtype), rows)

    def _step(
        self,
        n: Tensor,
        count: Tensor,
        y: tuple[Tensor, ...],
        ahead: "Ahead",
        is_tuple: bool,
        args: tuple,
        kwargs: dict[str, object],
    ) -> tuple[Tensor, ...]:
        scheme, slopes = self.scheme, []
        for c, row, is_behind in zip(scheme.c, scheme.a, scheme.reads_behind, strict=True):
            at = _advanced(y, row, ahead.step, slopes)
            placed = self._placed(n, ahead, c, is_behind)
            lead = ()
            if self.time:
                time = (n * c.denominator + c.numerator).double() / (count * c.denominator).double()
                lead = (time.to(at[0].dtype),)
            slope = functional_call(
                self.unit, {**placed, **self.shared}, (*lead, at if is_tuple else at[0], *args), kwargs
            )
            slopes.append(slope if isinstance(slope, tuple) else (slope,))
        return _advanced(y, scheme.b, ahead.step, slopes)

    def _placed(self, n: Tensor, ahead: "Ahead", c: Fraction, is_behind: bool) -> dict[str, Tensor]:
        """The tensors of the unit at a stage of step n."""
        here = n.reshape(1)
        rows = {
            place: tuple(None if part is None else part.index_select(0, here) for part in found)
            for (place, *kind), found in ahead.rows.items()
            if kind == [c, is_behind]
        }
        return {
            name: self._read(name, held, rows.get(self.place[name]))
            for name, held in zip(self.kinds, self.held, strict=True)
        }

    def _read(self, name: str, held: Tensor, where: tuple[Tensor | None, ...] | None) -> Tensor:
        shape = held.shape[1:]
        if where is None:
            return held[0]
        which, factors = where
        if which is not None:
            held = held.index_select(0, which.reshape(-1))
        if factors is not None:
            held = factors.to(held.dtype) @ held.reshape(factors.shape[1], -1)
        return self.kinds[name].decode(held.reshape(shape))


@dataclass
class Ahead:
    """What is worked out ahead of the loop."""

    step: Tensor
    rows: dict[tuple[int, Fraction, bool], Rows]
    """By basis, and where a stage reads."""


def _advanced(y: tuple[Tensor, ...], row: tuple[Fraction, ...], step: Tensor, slopes: list) -> tuple[Tensor, ...]:
    terms = [(float(factor), slope) for factor, slope in zip(row, slopes, strict=True) if factor]
    if not terms:
        return y
    sums = []
    for i, part in enumerate(y):
        total = sum(factor * slope[i] if factor != 1 else slope[i] for factor, slope in terms)
        sums.append(part + step * total)
    return tuple(sums)
