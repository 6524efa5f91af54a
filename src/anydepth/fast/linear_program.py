"""A chain of linear layers run along a plan, and its gradient, as one autograd function."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from anydepth.fast.layouts import Layout
from anydepth.fast.threads import threads_for
from anydepth.solve.plan import Plan, Terms
from anydepth.solve.tensors import gradients_of, is_batched


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


def toeplitz(kernel: Tensor, positions: int) -> Tensor:
    """The matrix (..., positions out, positions in) of a convolution (..., out, in, width) that keeps the length."""
    out, inputs, width = kernel.shape[-3:]
    at = torch.arange(positions, device=kernel.device)
    offset = at - at[:, None] + width // 2
    is_near = (offset >= 0) & (offset < width)
    blocks = kernel[..., offset.clamp(0, width - 1)] * is_near  # (..., out, in, position out, position in)
    return blocks.movedim((-2, -1), (-4, -2)).reshape(*kernel.shape[:-3], positions * out, positions * inputs)


@dataclass
class Program:
    """A chain on a plan; `index` says which of the given rows each evaluation reads, by tensor name."""

    chain: Chain
    plan: Plan
    index: dict[str, tuple[int, ...]]
    layout: Layout

    @cached_property
    def _keys(self) -> list[tuple[int, ...]]:
        """For every evaluation, which rows it reads."""
        return list(zip(*(self.index[name] for link in self.chain for name in link.names), strict=True))

    @cached_property
    def factors(self) -> list[float] | None:
        """For Euler's method the factor of every step, which then is in the last layer; None: that does not pay."""
        steps = self.plan.steps
        if self.chain[-1].activation is not None or any(len(step.stages) > 1 for step in steps):
            return None
        found = [step.result[0][1] for step in steps]
        return found if 2 * len(set(zip(self._keys, found, strict=True))) <= len(steps) else None

    @property
    def width(self) -> int:
        """How many tensors are kept of every evaluation."""
        return len(self.chain) + (self.factors is None)

    def largest(self, y: Tensor, rows: Sequence[Tensor]) -> int:
        """Multiplications in the largest product of one evaluation."""
        return (
            y.numel()
            // y.shape[self.layout.features]
            * max(
                rows[self.index[link.weight][0]].shape[-1] * rows[self.index[link.weight][0]].shape[-2]
                for link in self.chain
            )
        )

    def layers(self, rows: Sequence[Tensor]) -> list[list[Bound]]:
        """For every evaluation its layers with their tensors; evaluations with the same rows share them."""
        keys = list(zip(self._keys, self.factors or [1.0] * len(self._keys), strict=True))
        first = {key: at for at, key in reversed(list(enumerate(keys)))}
        made = {key: [self._bound(link, at, rows) for link in self.chain] for key, at in first.items()}
        if self.factors is not None:
            for (_, factor), bound in made.items():
                weight, _, bias, _ = bound[-1]
                scaled = weight * factor
                bound[-1] = (scaled, self.layout.transposed(scaled), None if bias is None else bias * factor, None)
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
        if self.factors is not None:
            for *inner, (weight, transposed, bias, _) in evaluations:
                values = _slope(self.layout, inner, y)
                if kept is not None:
                    kept.append(values)
                y = self.layout.forward_added(y, values[-1], weight, transposed, bias)
            return y
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
            slopes: list[Tensor | None] = [grad if self.factors is not None else None] * count
            if self.factors is None:
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
            factors = self.factors if depth == last else None
            readers: dict[tuple[int, int, float], list[int]] = {}
            for at in among:
                if outs[at]:
                    readers.setdefault((weights[at], biases[at], factors[at] if factors else 1.0), []).append(at)
            for (weight, bias, factor), evaluations in readers.items():
                for start in range(0, len(evaluations), chunk):
                    piece = evaluations[start : start + chunk]
                    grads = layout.joined([outs[at][last - depth] for at in piece])
                    if factors:
                        grads = grads * factor
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
        with threads_for(program.largest(y, rows)):
            result = program.run(y, rows, kept)
        ctx.program, ctx.rows = program, len(rows)
        ctx.save_for_backward(y, *rows, *(value for values in kept or () for value in values))
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        y, *rest = ctx.saved_tensors
        rows, flat = rest[: ctx.rows], rest[ctx.rows :]
        if not torch.is_grad_enabled() and not is_batched(grad):
            width = ctx.program.width
            kept = [flat[i : i + width] for i in range(0, len(flat), width)]
            with threads_for(ctx.program.largest(y, rows)):
                of_y, of_rows = ctx.program.back(grad, rows, kept)
            return (None, of_y if ctx.needs_input_grad[1] else None, *of_rows)
        with torch.enable_grad():
            y, *rows = (tensor.view_as(tensor) for tensor in (y, *rows))  # apart from what they were made of
            result = ctx.program.run(y, rows)
        return (None, *gradients_of(result, (y, *rows), ctx.needs_input_grad[1:], grad))


def _combine(y: Tensor, terms: Terms, slopes: Sequence[Tensor]) -> Tensor:
    for j, factor in terms:
        y = torch.add(y, slopes[j], alpha=factor)
    return y


def _spread(slopes: list[Tensor | None], terms: Terms, grad: Tensor) -> None:
    """The gradient of a combination, added to that of each slope in it."""
    for j, factor in terms:
        before = slopes[j]
        slopes[j] = grad * factor if before is None else torch.add(before, grad, alpha=factor)
