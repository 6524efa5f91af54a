"""A program run by PyTorch, operation by operation: for gradients of gradients."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from anydepth.fast.native.bound import Bound
from anydepth.fast.native.codes import Op
from anydepth.fast.native.program import Program, X

_ACTIVATIONS = {
    Op.RELU: lambda x, _: torch.relu(x),
    Op.TANH: lambda x, _: torch.tanh(x),
    Op.SIGMOID: lambda x, _: torch.sigmoid(x),
    Op.GELU: lambda x, _: functional.gelu(x),
    Op.GELU_TANH: lambda x, _: functional.gelu(x, approximate="tanh"),
    Op.SILU: lambda x, _: functional.silu(x),
    Op.SOFTPLUS: lambda x, _: functional.softplus(x),
    Op.SIN: lambda x, _: torch.sin(x),
    Op.LEAKY: lambda x, slope: functional.leaky_relu(x, slope),
}


def integrate(bound: Bound, y: Tensor, first: Tensor | None, tensors: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """The state after all steps and the last slope."""
    slopes: list[Tensor] = []
    at = 0
    for step in bound.steps:
        slopes = []
        for terms in step.stages:
            if at == 0 and first is not None:
                slopes.append(first)
            else:
                slopes.append(evaluate(bound.program, bound.index, at, _combined(y, terms, slopes), tensors))
            at += 1
        y = _combined(y, step.result, slopes)
    return y, slopes[-1]


def _combined(y: Tensor, terms: Sequence[tuple[int, float]], slopes: Sequence[Tensor]) -> Tensor:
    for j, factor in terms:
        y = torch.add(y, slopes[j], alpha=factor)
    return y


def evaluate(
    program: Program, index: Sequence[tuple[int, ...]], at: int, x: Tensor, tensors: Sequence[Tensor]
) -> Tensor:
    """The unit at one evaluation; `index` is by slot and evaluation."""
    has_nets = x.dim() == 3

    def row(slot: int) -> Tensor:
        tensor = tensors[slot]
        return tensor.select(1 if has_nets else 0, index[slot][at])

    def spread(vector: Tensor) -> Tensor:
        return vector.unsqueeze(1) if has_nets else vector

    values: dict[int, Tensor] = {X: x}
    copies: dict[int, list[Tensor]] = {}
    for node in program.nodes:
        a = values[node.x]
        if node.op is Op.LINEAR:
            assert node.weight is not None
            out = a @ row(node.weight).mT
            values[node.to] = out if node.bias is None else out + spread(row(node.bias))
        elif node.op is Op.SUM:
            out = node.numbers[0] * a + node.numbers[2]
            values[node.to] = out if node.y is None else torch.add(out, values[node.y], alpha=node.numbers[1])
        elif node.op is Op.PRODUCT:
            assert node.y is not None
            values[node.to] = a * values[node.y]
        elif node.op is Op.NORM:
            values[node.to] = functional.layer_norm(a, a.shape[-1:], eps=node.numbers[0])
        elif node.op is Op.COPY:
            copies.setdefault(node.to, []).append(a[..., node.columns[1] : node.columns[1] + node.columns[2]])
            values[node.to] = torch.cat(copies[node.to], -1)
        elif node.op is Op.TIMES_ROW:
            assert node.weight is not None
            values[node.to] = a * spread(row(node.weight))
        elif node.op is Op.PLUS_ROW:
            assert node.weight is not None
            values[node.to] = node.numbers[0] * a + node.numbers[1] * spread(row(node.weight))
        else:
            values[node.to] = _ACTIVATIONS[node.op](a, node.numbers[0] if node.numbers else 0.0)
    return values[program.result]
