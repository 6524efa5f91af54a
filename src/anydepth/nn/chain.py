"""The cheap path for small fields: units that are chains of linear layers and activations.

For such a unit the whole integration is one autograd function. It calls no module, builds no graph, and
finds the gradient of every weight in one product over all evaluations, instead of one per evaluation. The
result is that of the general path up to the order of sums; gradients of gradients take the general path.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from anydepth.nn.functions import WeightFunction
from anydepth.nn.layouts import ROWS, Columns, Layout
from anydepth.nn.plan import Plan, Terms
from anydepth.nn.roles import Kind
from anydepth.nn.structure import is_transformed

if TYPE_CHECKING:
    from anydepth.nn.block import ContinuousBlock


@dataclass(frozen=True)
class Activation:
    """An elementwise function, and its gradient from its result; both in place."""

    forward: Callable[[Tensor], Tensor]
    backward: Callable[[Tensor, Tensor], Tensor]


_aten = torch.ops.aten
ACTIVATIONS = {
    "relu": Activation(
        torch.relu_, lambda grad, out: _aten.threshold_backward.grad_input(grad, out, 0, grad_input=grad)
    ),
    "tanh": Activation(torch.tanh_, lambda grad, out: _aten.tanh_backward.grad_input(grad, out, grad_input=grad)),
    "sigmoid": Activation(
        torch.sigmoid_, lambda grad, out: _aten.sigmoid_backward.grad_input(grad, out, grad_input=grad)
    ),
}


@dataclass(frozen=True)
class Layer:
    """A linear map with the names of its tensors in the unit, then an activation or none."""

    weight: str
    bias: str | None
    activation: str | None = None
    positions: int | None = None
    """Of a convolution over so many positions, kernel (out, in, width): the features of the first come first."""

    @property
    def names(self) -> list[str]:
        return [self.weight] if self.bias is None else [self.weight, self.bias]

    def widths(self, weight: Tensor) -> tuple[int, int]:
        """How many numbers go in and come out, given the stored weight."""
        if self.positions is None:
            return weight.shape[-1], weight.shape[-2]
        return self.positions * weight.shape[-2], self.positions * weight.shape[-3]

    def dense(self, name: str, rows: Sequence[Tensor]) -> Sequence[Tensor]:
        """Rows of one of its tensors as they are for a plain linear map."""
        if self.positions is None:
            return rows
        if name == self.weight:
            return [toeplitz(row, self.positions) for row in rows]
        return [row.repeat((1,) * (row.dim() - 1) + (self.positions,)) for row in rows]


Chain = tuple[Layer, ...]
Bound = tuple[Tensor, Tensor, Tensor | None, Activation | None]
"""A layer with its tensors: weight, its transpose, bias, activation."""

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


def toeplitz(kernel: Tensor, positions: int) -> Tensor:
    """The matrix (..., positions out, positions in) of a convolution (..., out, in, width) that keeps the length."""
    out, inputs, width = kernel.shape[-3:]
    at = torch.arange(positions, device=kernel.device)
    offset = at - at[:, None] + width // 2
    is_near = (offset >= 0) & (offset < width)
    blocks = kernel[..., offset.clamp(0, width - 1)] * is_near  # (..., out, in, position out, position in)
    return blocks.movedim((-2, -1), (-4, -2)).reshape(*kernel.shape[:-3], positions * out, positions * inputs)


def chain_of(unit: nn.Module) -> Chain | None:
    """The unit as a chain, if it is one and nobody watches its modules."""
    if any(_is_watched(module) for module in unit.modules()) or any(_GLOBAL_HOOKS):
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


def _is_watched(module: nn.Module) -> bool:
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return any(hooks) or "forward" in vars(module) or module._compiled_call_impl is not None


def solve_chain(block: "ContinuousBlock", plan: Plan, y: Tensor, dtype: torch.dtype) -> Tensor | None:
    """The state at the end of the plan, if the block is simple enough for this path."""
    simple = not block.time and not block.roles.counters and not block.roles.constants
    if not simple or torch.compiler.is_compiling() or torch.is_autocast_enabled(y.device.type) or y.dim() < 1:
        return None
    if is_transformed() or torch.autograd.forward_ad._current_level >= 0:
        return None
    chain = chain_of(block.unit)
    if chain is None or not _fits(block, chain, y, dtype):
        return None
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


@dataclass
class Program:
    """A chain on a plan; `index` says which of the given rows each evaluation reads, by tensor name."""

    chain: Chain
    plan: Plan
    index: dict[str, tuple[int, ...]]
    layout: Layout

    def layers(self, rows: Sequence[Tensor]) -> list[list[Bound]]:
        """For every evaluation its layers with their tensors; evaluations with the same rows share them."""
        used = [self.index[name] for link in self.chain for name in link.names]
        keys = list(zip(*used, strict=True))
        first = {key: at for at, key in reversed(list(enumerate(keys)))}
        made = {key: [self._bound(link, at, rows) for link in self.chain] for key, at in first.items()}
        return [made[key] for key in keys]

    def _bound(self, link: Layer, at: int, rows: Sequence[Tensor]) -> Bound:
        weight = rows[self.index[link.weight][at]]
        bias = None if link.bias is None else self.layout.bias(rows[self.index[link.bias][at]])
        activation = None if link.activation is None else ACTIVATIONS[link.activation]
        return weight, self.layout.transposed(weight), bias, activation

    def run(self, y: Tensor, rows: Sequence[Tensor], kept: list[list[Tensor]] | None = None) -> Tensor:
        """The state at the end; `kept` collects what went into and came out of the layers, by evaluation."""
        evaluations = iter(self.layers(rows))
        self.layout.start(kept is not None)
        for step in self.plan.steps:
            slopes: list[Tensor] = []
            for terms in step.stages:
                values = _slope(self.layout, next(evaluations), _combine(y, terms, slopes))
                slopes.append(values[-1])
                if kept is not None:
                    kept.append(values)
            y = _combine(y, step.result, slopes)
        return y

    def back(self, grad: Tensor, rows: Sequence[Tensor], kept: list[list[Tensor]]) -> tuple[Tensor, list]:
        """Gradients of the input and of every row, by going backward through the steps."""
        outs: list[list[Tensor]] = [[] for _ in kept]
        found: list[Tensor | None] = [None] * len(rows)
        layers, at = self.layers(rows), len(kept)
        for step in reversed(self.plan.steps):
            count = len(step.stages)
            at -= count
            self.layout.start_back()
            slopes: list[Tensor | None] = [None] * count
            _spread(slopes, step.result, grad)
            for stage in reversed(range(count)):
                slope, terms, now = slopes[stage], step.stages[stage], at + stage
                if slope is None:  # nothing uses this stage
                    continue
                outs[now] = _slope_back(self.layout, layers[now], slope, kept[now])
                weight, transposed, *_ = layers[now][0]
                if not terms:
                    grad = self.layout.backward_added(grad, outs[now][-1], weight, transposed)
                else:
                    inner = self.layout.backward(outs[now][-1], weight, transposed)
                    grad = grad + inner
                    _spread(slopes, terms, inner)
            if self.layout.chunk == 1:
                self._add_gradients(found, range(at, at + count), rows, kept, outs)
                outs[at : at + count] = [[]] * count
        self._add_gradients(found, range(len(kept)), rows, kept, outs)
        return grad, found

    def _add_gradients(
        self,
        found: list[Tensor | None],
        among: range,
        rows: Sequence[Tensor],
        kept: list[list[Tensor]],
        outs: list[list[Tensor]],
    ) -> None:
        """Add the gradients of all rows from some of the evaluations, a chunk at a time."""
        layout, chunk = self.layout, self.layout.chunk
        last = len(self.chain) - 1
        for depth, link in enumerate(self.chain):
            weights, biases = self.index[link.weight], self.index[link.bias or link.weight]
            indices = zip(weights[among.start : among.stop], biases[among.start : among.stop], strict=True)
            readers: dict[tuple[int, int], list[int]] = {}
            for at, pair in zip(among, indices, strict=True):
                if outs[at]:
                    readers.setdefault(pair, []).append(at)
            for (weight, bias), evaluations in readers.items():
                for start in range(0, len(evaluations), chunk):
                    piece = evaluations[start : start + chunk]
                    grads = layout.joined([outs[at][last - depth] for at in piece])
                    if rows[weight].requires_grad:
                        inputs = layout.joined([kept[at][depth] for at in piece])
                        found[weight] = layout.weight_gradient(found[weight], grads, inputs)
                    if link.bias is not None and rows[bias].requires_grad:
                        found[bias] = _added(found[bias], layout.bias_gradient(grads))


def _slope(layout: Layout, layers: list[Bound], y: Tensor) -> list[Tensor]:
    """The unit's input, and what comes out of each of its layers."""
    values = [y]
    for weight, transposed, bias, activation in layers:
        y = layout.forward(y, weight, transposed, bias)
        if activation is not None:
            y = activation.forward(y)
        values.append(y)
    return values


def _slope_back(layout: Layout, layers: list[Bound], grad: Tensor, values: list[Tensor]) -> list[Tensor]:
    """The gradient of every layer's linear result, the last layer's first."""
    outs = []
    for depth in range(len(layers) - 1, -1, -1):
        weight, transposed, _, activation = layers[depth]
        if activation is not None:
            grad = activation.backward(grad, values[depth + 1])
        outs.append(grad)
        if depth:
            grad = layout.backward(grad, weight, transposed)
    return outs


def _added(total: Tensor | None, part: Tensor) -> Tensor:
    return part if total is None else total.add_(part)


class ChainSolve(torch.autograd.Function):
    """A program's result, with its gradient worked out by hand."""

    @staticmethod
    def forward(ctx: Any, program: Program, y: Tensor, *rows: Tensor) -> Tensor:
        kept: list[list[Tensor]] | None = [] if any(ctx.needs_input_grad) else None
        result = program.run(y, rows, kept)
        ctx.program, ctx.rows = program, len(rows)
        ctx.save_for_backward(y, *rows, *(value for values in kept or () for value in values))
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        y, *rest = ctx.saved_tensors
        rows, flat = rest[: ctx.rows], rest[ctx.rows :]
        if not torch.is_grad_enabled():
            width = len(ctx.program.chain) + 1
            kept = [flat[i : i + width] for i in range(0, len(flat), width)]
            of_y, of_rows = ctx.program.back(grad, rows, kept)
            return (None, of_y if ctx.needs_input_grad[1] else None, *of_rows)
        wanted = [tensor for tensor in (y, *rows) if tensor.requires_grad]
        result = ctx.program.run(y, rows)
        found = iter(torch.autograd.grad(result, wanted, grad, allow_unused=True, create_graph=True))
        return (None, *(next(found) if tensor.requires_grad else None for tensor in (y, *rows)))


def _combine(y: Tensor, terms: Terms, slopes: Sequence[Tensor]) -> Tensor:
    for j, factor in terms:
        y = torch.add(y, slopes[j], alpha=factor)
    return y


def _spread(slopes: list[Tensor | None], terms: Terms, grad: Tensor) -> None:
    """The gradient of a combination, added to that of each slope in it."""
    for j, factor in terms:
        before = slopes[j]
        slopes[j] = grad * factor if before is None else torch.add(before, grad, alpha=factor)
