"""The cheap path for small fields: units that are chains of linear layers and activations.

For such a unit the whole integration is one autograd function. It calls no module, builds no graph, and
finds the gradient of every weight in one product over all evaluations, instead of one per evaluation. The
result is that of the general path up to the order of sums; gradients of gradients take the general path.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from anydepth.nn.call import lock_of
from anydepth.nn.functions import WeightFunction
from anydepth.nn.layouts import ROWS, Columns, Layout
from anydepth.nn.plan import Plan
from anydepth.nn.program import Chain, ChainSolve, Layer, Program
from anydepth.nn.roles import Kind
from anydepth.nn.structure import is_transformed

if TYPE_CHECKING:
    from anydepth.nn.block import ContinuousBlock

CHAINS: dict[type[nn.Module], Callable[[Any], Chain | None]] = {}
"""Units known to be chains, by their exact class: a subclass may do anything."""

_GLOBAL_HOOKS = (
    torch.nn.modules.module._global_forward_hooks,
    torch.nn.modules.module._global_forward_pre_hooks,
    torch.nn.modules.module._global_backward_hooks,
    torch.nn.modules.module._global_backward_pre_hooks,
)
_PLAIN = {nn.ReLU: "relu", nn.Tanh: "tanh", nn.Sigmoid: "sigmoid"}


def layer(
    path: str, linear: nn.Linear | nn.Conv1d, activation: str | None = None, positions: int | None = None
) -> Layer:
    return Layer(f"{path}.weight", f"{path}.bias" if linear.bias is not None else None, activation, positions)


def chain_of(unit: nn.Module) -> Chain | None:
    """The unit as a chain, if it is one and nobody watches its modules."""
    if not is_unwatched(unit):
        return None
    if any(type(module) is not nn.Linear for module in unit.modules() if isinstance(module, nn.Linear)):
        return None
    if type(unit) in CHAINS:
        return CHAINS[type(unit)](unit)
    return _sequential(unit) if type(unit) is nn.Sequential else None


def _sequential(unit: nn.Sequential) -> Chain | None:
    links: list[Layer] = []
    for name, module in unit._modules.items():
        if type(module) is nn.Linear:
            links.append(layer(name, module))
        elif type(module) in _PLAIN and links and links[-1].activation is None:
            links[-1] = Layer(links[-1].weight, links[-1].bias, _PLAIN[type(module)])
        else:
            return None
    return tuple(links) or None


def is_unwatched(unit: nn.Module) -> bool:
    """Whether calling a unit's modules does no more than their classes do."""
    return not any(_GLOBAL_HOOKS) and not any(_is_watched(module) for module in unit.modules())


def _is_watched(module: nn.Module) -> bool:
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return any(hooks) or "forward" in vars(module) or module._compiled_call_impl is not None


def is_plain_call(block: "ContinuousBlock", y: Tensor) -> bool:
    """Whether a pass is no more than numbers: no time, compiler, mixed precision or transform is at work."""
    if block.time or torch.compiler.is_compiling() or torch.is_autocast_enabled(y.device.type):
        return False
    if torch.jit.is_tracing() or (y.is_inference() and torch.is_grad_enabled()):  # pyright: ignore[reportPrivateImportUsage]
        return False
    return not is_transformed() and torch.autograd.forward_ad._current_level < 0


def solve_chain(block: "ContinuousBlock", plan: Plan, y: Tensor, dtype: torch.dtype) -> Tensor | None:
    """The state at the end of the plan, if the block is simple enough for this path."""
    if block.roles.counters or block.roles.constants or y.dim() < 1 or not is_plain_call(block, y):
        return None
    chain = chain_of(block.unit)
    if chain is None or not _fits(block, chain, y, dtype):
        return None
    with lock_of(block.unit):
        held = {name: block.held(name) for name in block.lifted}
    program, rows = bind(chain, plan, block.functions, held, ROWS)
    flat = y.reshape(-1, y.shape[-1])
    return ChainSolve.apply(program, flat, *rows).reshape(y.shape)  # pyright: ignore[reportOptionalMemberAccess]


def solve_together(
    block: "ContinuousBlock", chain: Chain, stored: Mapping[str, Tensor], y: Tensor, layout: Columns
) -> Tensor:
    """The states (nets, features, examples) at depth 1 of several nets on the plan of `block`.

    Stored tensors have the nets on their second axis, after that of the basis functions.
    """
    assert block.plan is not None
    program, rows = bind(chain, block.plan, block.functions, {n: (t,) for n, t in stored.items()}, layout)
    return ChainSolve.apply(program, y, *rows)  # pyright: ignore[reportReturnType]


def bind(
    chain: Chain,
    plan: Plan,
    functions: Mapping[str, WeightFunction],
    held: Mapping[str, tuple[Tensor, ...]],
    layout: Layout,
) -> "tuple[Program, list[Tensor]]":
    """A chain made ready to run on a plan, and the rows of all its tensors."""
    program = Program(chain, plan, {}, layout)
    rows: list[Tensor] = []
    for name, reader in {name: link for link in chain for name in link.names}.items():
        reading = plan.reading(functions[name])
        program.index[name] = tuple(len(rows) + i for i in reading.index)
        rows += reader.dense(name, reading.rows(*held[name]))
    return program, rows


def _fits(block: "ContinuousBlock", chain: Chain, y: Tensor, dtype: torch.dtype) -> bool:
    """Whether every tensor of the unit is in the chain, with matching widths, precision and device."""
    used = [name for link in chain for name in link.names]
    if sorted(used) != sorted(block.lifted) or any(part.kind is not Kind.PARAMETER for part in block.lifted.values()):
        return False
    width = y.shape[-1]
    for link in chain:
        weight = block.stored(link.weight)
        inputs, outputs = link.widths(weight)
        if weight.dtype != dtype or y.dtype != dtype or weight.device != y.device or inputs != width:
            return False
        width = outputs
    return width == y.shape[-1]
