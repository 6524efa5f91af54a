"""One step of a solver on a chain of layers for images, and its gradient, as one autograd function."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from anydepth.nn.integrate import advance
from anydepth.nn.plan import Step

_aten = torch.ops.aten
Gradients = tuple[Tensor | None, ...]
"""Of a layer's input, then of its tensors; None where none was asked for."""


@dataclass(frozen=True)
class Conv:
    """A convolution that keeps the image's size."""

    path: str
    has_bias: bool
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    @property
    def names(self) -> tuple[str, ...]:
        return (f"{self.path}.weight", f"{self.path}.bias") if self.has_bias else (f"{self.path}.weight",)

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None, kept: list[Tensor]) -> Tensor:
        kept.append(x)
        return torch.conv2d(x, weight, bias, 1, self.padding, self.dilation, self.groups)

    def backward(self, grad: Tensor, weight: Tensor, kept: list[Tensor], mask: list[bool]) -> Gradients:
        sizes = [len(weight)] if self.has_bias else None
        settings = ([1, 1], self.padding, self.dilation, False, [0, 0], self.groups)
        return _aten.convolution_backward(grad, kept.pop(), weight, sizes, *settings, mask)


@dataclass(frozen=True)
class Norm:
    """Batch norm with running statistics, which it changes in training."""

    path: str
    momentum: float
    eps: float
    training: bool

    @property
    def names(self) -> tuple[str, ...]:
        return f"{self.path}.weight", f"{self.path}.bias"

    @property
    def state(self) -> tuple[str, ...]:
        return f"{self.path}.running_mean", f"{self.path}.running_var"

    @property
    def counter(self) -> str:
        return f"{self.path}.num_batches_tracked"

    def forward(
        self, x: Tensor, weight: Tensor, bias: Tensor, running: Sequence[Tensor | None], kept: list[Tensor]
    ) -> Tensor:
        out, mean, scale = torch.native_batch_norm(x, weight, bias, *running, self.training, self.momentum, self.eps)
        kept += (x, mean, scale)
        return out

    def backward(
        self, grad: Tensor, weight: Tensor, running: Sequence[Tensor], kept: list[Tensor], mask: list[bool]
    ) -> Gradients:
        scale, mean, x = kept.pop(), kept.pop(), kept.pop()
        mode = (mean, scale, self.training, self.eps)
        return _aten.native_batch_norm_backward(grad, x, weight, *running, *mode, mask)


@dataclass(frozen=True)
class Relu:
    """Written over its input where that is some layer's result, and so is its gradient."""

    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scale:
    """A product with a parameter that is one number."""

    path: str

    @property
    def names(self) -> tuple[str, ...]:
        return (self.path,)

    def forward(self, x: Tensor, factor: Tensor, kept: list[Tensor]) -> Tensor:
        kept.append(x)
        return factor * x

    def backward(self, grad: Tensor, factor: Tensor, kept: list[Tensor], needs: bool) -> Gradients:
        x = kept.pop()
        return grad * factor, ((grad * x).sum() if needs else None)


Layer = Conv | Norm | Relu | Scale
Layers = tuple[Layer, ...]
Places = tuple[int, ...]
"""Where a layer's tensors are among the rows of a step."""


@dataclass(frozen=True)
class StepProgram:
    """A step on a chain of layers: which of the given rows, and which state, every layer reads at every stage."""

    layers: Layers
    step: Step
    places: Sequence[Sequence[Places]]
    """By stage and layer."""
    states: Sequence[Sequence[Tensor]]
    """By stage: running mean and variance of one norm after another."""

    def run(
        self, y: Tensor, rows: Sequence[Tensor], kept: list[list[Tensor]] | None = None, changes_state: bool = True
    ) -> Tensor:
        """The state after the step; `kept` collects, stage by stage, what the gradient needs."""
        slopes: list[tuple[Tensor]] = []
        for terms, places, states in zip(self.step.stages, self.places, self.states, strict=True):
            values: list[Tensor] = []
            slopes.append((self._slope(advance((y,), terms, slopes)[0], rows, places, states, values, changes_state),))
            if kept is not None:
                kept.append(values)
        return advance((y,), self.step.result, slopes)[0]

    def _slope(
        self,
        x: Tensor,
        rows: Sequence[Tensor],
        places: Sequence[Places],
        states: Sequence[Tensor],
        values: list[Tensor],
        changes_state: bool,
    ) -> Tensor:
        """The unit at x; `values` collects what its gradient needs."""
        norms, given = 0, x
        for layer, at in zip(self.layers, places, strict=True):
            if type(layer) is Norm:
                running = states[norms : norms + 2] if changes_state or not layer.training else (None, None)
                norms += 2
                x = layer.forward(x, rows[at[0]], rows[at[1]], running, values)
            elif type(layer) is Conv:
                x = layer.forward(x, rows[at[0]], rows[at[1]] if layer.has_bias else None, values)
            elif type(layer) is Scale:
                x = layer.forward(x, rows[at[0]], values)
            else:
                x = x.relu_() if x is not given else x.relu()
                values.append(x)
        return x

    def back(
        self, grad: Tensor, rows: Sequence[Tensor], kept: list[list[Tensor]], needs: Sequence[bool]
    ) -> tuple[Tensor | None, list[Tensor | None]]:
        """Gradients of the input, if it needs one, and of every row that does; what was kept is used up."""
        needs_y, wanted = needs[0], needs[1:]
        found: list[Tensor | None] = [None] * len(rows)
        slopes: list[Tensor | None] = [None] * len(kept)
        _spread(slopes, self.step.result, grad)
        for stage in reversed(range(len(kept))):
            slope, terms = slopes[stage], self.step.stages[stage]
            slopes[stage] = None
            if slope is None:  # nothing uses this stage
                continue
            inner = self._stage_back(stage, slope, rows, kept[stage], needs_y or bool(terms), wanted, found)
            if inner is not None:
                _spread(slopes, terms, inner)
                grad = inner.add_(grad)
        return grad if needs_y else None, found

    def _stage_back(
        self,
        stage: int,
        grad: Tensor | None,
        rows: Sequence[Tensor],
        kept: list[Tensor],
        needs_x: bool,
        wanted: Sequence[bool],
        found: list[Tensor | None],
    ) -> Tensor | None:
        """The gradient of a stage's input; those of its rows are added to what was found. `grad` is written over."""
        norms = len(self.states[stage])
        for depth in range(len(self.layers) - 1, -1, -1):
            layer, at = self.layers[depth], self.places[stage][depth]
            needs = needs_x or depth > 0
            assert grad is not None
            if type(layer) is Relu:
                grad = _aten.threshold_backward.grad_input(grad, kept.pop(), 0, grad_input=grad)
                continue
            if type(layer) is Norm:
                running, norms = self.states[stage][norms - 2 : norms], norms - 2
                mask = [needs, wanted[at[0]], wanted[at[1]]]
                grad, *others = layer.backward(grad, rows[at[0]], running, kept, mask)
            elif type(layer) is Conv:
                mask = [needs, wanted[at[0]], layer.has_bias and wanted[at[1]]]
                grad, *others = layer.backward(grad, rows[at[0]], kept, mask)
            else:
                grad, *others = layer.backward(grad, rows[at[0]], kept, wanted[at[0]])
            for i, other in zip(at, others, strict=False):
                if wanted[i]:
                    before = found[i]
                    found[i] = other if before is None else before.add_(other)
        return grad


def _spread(slopes: list[Tensor | None], terms: Sequence[tuple[int, float]], grad: Tensor) -> None:
    """The gradient of a combination, added to that of each slope in it."""
    for j, factor in terms:
        before = slopes[j]
        slopes[j] = grad * factor if before is None else before.add_(grad, alpha=factor)


def format_of(image: Tensor) -> torch.memory_format:
    """The format in which an image lies; gradients and kernels in another cost a copy in every convolution."""
    is_last = image.is_contiguous(memory_format=torch.channels_last)
    return torch.channels_last if is_last and not image.is_contiguous() else torch.contiguous_format


class StepSolve(torch.autograd.Function):
    """The state after a step, with its gradient worked out by hand."""

    @staticmethod
    def forward(ctx: Any, program: StepProgram, y: Tensor, *rows: Tensor) -> Tensor:
        kept: list[list[Tensor]] | None = [] if any(ctx.needs_input_grad) else None
        result = program.run(y, rows, kept)
        if kept is not None:
            ctx.program, ctx.count, ctx.sizes = program, len(rows), [len(values) for values in kept]
            ctx.save_for_backward(y, *rows, *(value for values in kept for value in values))
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        y, *rest = ctx.saved_tensors
        rows, flat = rest[: ctx.count], iter(rest[ctx.count :])
        needs = ctx.needs_input_grad[1:]
        if not torch.is_grad_enabled():
            kept = [[next(flat) for _ in range(size)] for size in ctx.sizes]
            grad = grad.contiguous(memory_format=format_of(y))
            of_y, of_rows = ctx.program.back(grad, rows, kept, needs)
            return (None, of_y, *of_rows)
        wanted = [tensor for tensor, is_needed in zip((y, *rows), needs, strict=True) if is_needed]
        result = ctx.program.run(y, rows, changes_state=False)
        found = iter(torch.autograd.grad(result, wanted, grad, allow_unused=True, create_graph=True))
        return (None, *(next(found) if is_needed else None for is_needed in needs))
