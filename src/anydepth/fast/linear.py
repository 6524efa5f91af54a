"""The path for small fields: units that are chains of linear layers and activations.

For such a unit the whole integration is one autograd function. It calls no module, builds no graph, and
finds the gradient of every weight in one product over all evaluations, instead of one per evaluation. The
result is that of the general path up to the order of sums; gradients of gradients take the general path.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from torch import Tensor, nn

from anydepth.block.listed import is_unwatched, listed
from anydepth.block.passes import Outcome, Pass, Ready
from anydepth.block.paths import PATHS, UnitRefusal, stats_of
from anydepth.block.roles import Kind
from anydepth.fast.layouts import ROWS, Columns, Layout
from anydepth.fast.linear_program import Chain, ChainSolve, Layer, Program
from anydepth.solve.plan import Plan
from anydepth.solve.tensors import State
from anydepth.weights.protocol import WeightFunction

_PLAIN = {nn.ReLU: "relu", nn.Tanh: "tanh", nn.Sigmoid: "sigmoid"}
_FEW = 4
"""Up to so many entries a convolution is cheaper as one matrix."""


_NO_CHAIN = "the unit is no plain chain of linear layers"


@PATHS.register("linear")
def attempt(given: Pass, y: State) -> Ready | str:
    """The whole integration as one function, if the unit is a chain of linear layers."""
    if given.takes_more:
        return "the unit takes more than one tensor"
    if listed(given.unit) is None:
        return UnitRefusal(_NO_CHAIN)
    (start,) = y
    if given.shared or start.dim() < 1:
        return "the unit has counters or constants, or x has no axis"
    chain = chain_of(given.unit)
    if chain is None:
        return _NO_CHAIN
    if not _fits(given, chain, start):
        return "widths, precisions or devices differ, or weights are shared"
    return partial(_solved, given, chain, start)


def _solved(given: Pass, chain: Chain, y: Tensor) -> Outcome:
    assert given.plan is not None
    program, rows = bind(chain, given.plan, given.functions, given.held, ROWS)
    flat = y.reshape(-1, y.shape[-1])
    result = ChainSolve.apply(program, flat, *rows).reshape(y.shape)  # pyright: ignore[reportOptionalMemberAccess]
    return Outcome((result,), stats_of(given.plan))


def chain_of(unit: nn.Module) -> Chain | None:
    """The unit as a chain, if it is one and nobody watches its modules."""
    layers = listed(unit)
    if layers is None or not is_unwatched(unit):
        return None
    links: list[Layer] = []
    for name, module in layers:
        link = _link(unit, name, module)
        if link is not None:
            links.append(link)
        elif type(module) in _PLAIN and links and links[-1].activation is None:
            last = links[-1]
            links[-1] = Layer(last.weight, last.bias, _PLAIN[type(module)], last.positions)
        else:
            return None
    return tuple(links) or None


def _link(unit: nn.Module, name: str, module: Any) -> Layer | None:
    """A layer as a linear map: a linear layer, or a convolution over the few entries of a vector."""
    positions = getattr(unit, "dimensions", None) if type(module) is nn.Conv1d else None
    is_small = isinstance(positions, int) and positions <= _FEW and type(unit) is not nn.Sequential
    if type(module) is nn.Linear or is_small:
        return Layer(f"{name}.weight", f"{name}.bias" if module.bias is not None else None, None, positions)
    return None


def solve_together(
    plan: Plan,
    functions: Mapping[str, WeightFunction],
    chain: Chain,
    stored: Mapping[str, Tensor],
    y: Tensor,
    layout: Columns,
) -> Tensor:
    """The states (nets, features, examples) at depth 1 of several nets on one plan.

    Stored tensors have the nets on their second axis, after that of the basis functions.
    """
    program, rows = bind(chain, plan, functions, {n: (t,) for n, t in stored.items()}, layout)
    return ChainSolve.apply(program, y, *rows)  # pyright: ignore[reportReturnType]


def bind(
    chain: Chain,
    plan: Plan,
    functions: Mapping[str, WeightFunction],
    held: Mapping[str, tuple[Tensor, ...]],
    layout: Layout,
) -> tuple[Program, list[Tensor]]:
    """A chain made ready to run on a plan, and the rows of all its tensors."""
    program = Program(chain, plan, {}, layout)
    rows: list[Tensor] = []
    for name, reader in {name: link for link in chain for name in link.names}.items():
        reading = plan.reading(functions[name])
        program.index[name] = tuple(len(rows) + i for i in reading.index)
        rows += reader.dense(name, reading.rows(*held[name]))
    return program, rows


def _fits(given: Pass, chain: Chain, y: Tensor) -> bool:
    """Whether every tensor of the unit is in the chain, with matching widths, precision and device."""
    used = [name for link in chain for name in link.names]
    if sorted(used) != sorted(given.lifted) or any(part.kind is not Kind.PARAMETER for part in given.lifted.values()):
        return False
    width, dtype = y.shape[-1], given.dtype
    for link in chain:
        weight = given.held[link.weight][0]
        inputs, outputs = link.widths(weight)
        if weight.dtype != dtype or y.dtype != dtype or weight.device != y.device or inputs != width:
            return False
        width = outputs
    return width == y.shape[-1]
