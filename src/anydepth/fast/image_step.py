"""One step of a solver on a chain of layers for images, and its gradient, as one autograd function."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

from anydepth.solve.plan import Link
from anydepth.solve.tensors import gradients_of, is_batched

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

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None, kept: list[Tensor] | None) -> Tensor:
        if kept is not None:
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
        mean, var = running
        out, mean, scale = torch.native_batch_norm(x, weight, bias, mean, var, self.training, self.momentum, self.eps)
        kept += (x, mean, scale)
        return out

    def write(self, x: Tensor, weight: Tensor, bias: Tensor, running: Sequence[Tensor | None], out: Tensor) -> Tensor:
        """As `forward`, onto given memory, which may be that of x; onto fresh memory where they lie otherwise, which
        PyTorch's function does not notice."""
        is_dense = x.is_contiguous() or x.is_contiguous(memory_format=torch.channels_last)
        if not is_dense or x.stride() != out.stride():
            return self.forward(x, weight, bias, running, [])
        settings = (*running, self.training, self.momentum, self.eps)
        mean, scale = x.new_empty(0), x.new_empty(0)
        return _aten.native_batch_norm.out(x, weight, bias, *settings, out=out, save_mean=mean, save_invstd=scale)[0]

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


Layer = Conv | Norm | Relu
Layers = tuple[Layer, ...]
Places = tuple[int, ...]
"""Where a layer's tensors are among the rows of a step."""


@dataclass(frozen=True)
class StepProgram:
    """A step on a chain of layers: which of the given rows, and which state, every layer reads at every stage.

    Each stage turns its slope into the next state in place, by the step's links.
    """

    layers: Layers
    links: Sequence[Link]
    places: Sequence[Sequence[Places]]
    """By stage and layer."""
    running: Sequence[Sequence[Tensor]]
    """By stage: running mean and variance of one norm after another."""
    has_factors: bool
    """Whether slopes are yet to be multiplied by the links' factors; else these are in the last layer's rows."""
    spare: Tensor | None = None
    """Memory for an image, where no gradient is asked for: fresh memory costs as much as a norm."""
    is_forgotten: bool = False
    """Whether the step is run again for its gradient, which keeps the state before it and nothing else."""

    def run(
        self, y: Tensor, rows: Sequence[Tensor], kept: list[list[Tensor]] | None = None, changes_state: bool = True
    ) -> Tensor:
        """The state after the step; `kept` collects, stage by stage, what the gradient needs."""
        states = [y]
        for stage, link in enumerate(self.links):
            values: list[Tensor] | None = None if self.spare is not None else []
            x = self._slope(stage, states[-1], rows, values, changes_state)
            x = x * link.factor if self.has_factors else x
            states.append(_joined(x, link, states))
            if kept is not None and values is not None:
                kept.append(values)
        return states[-1]

    def _slope(
        self, stage: int, x: Tensor, rows: Sequence[Tensor], values: list[Tensor] | None, changes_state: bool
    ) -> Tensor:
        """The unit at x; `values` collects what its gradient needs. Without them, norms write over what they can."""
        running, norms, given = self.running[stage], 0, x
        for layer, at in zip(self.layers, self.places[stage], strict=True):
            if isinstance(layer, Norm):
                mine = running[norms : norms + 2] if changes_state or not layer.training else (None, None)
                norms += 2
                if values is None:
                    assert self.spare is not None
                    x = layer.write(x, rows[at[0]], rows[at[1]], mine, self.spare if x is given else x)
                else:
                    x = layer.forward(x, rows[at[0]], rows[at[1]], mine, values)
            elif isinstance(layer, Conv):
                x = layer.forward(x, rows[at[0]], rows[at[1]] if layer.has_bias else None, values)
            else:
                x = x.relu_() if x is not given else x.relu()
                if values is not None:
                    values.append(x)
        return x

    def back(
        self, grad: Tensor, rows: Sequence[Tensor], kept: list[list[Tensor]], needs: Sequence[bool]
    ) -> tuple[Tensor | None, list[Tensor | None]]:
        """Gradients of the input, if it needs one, and of every row that does; what was kept is used up."""
        needs_y, wanted = needs[0], needs[1:]
        found: list[Tensor | None] = [None] * len(rows)
        later = {len(kept): grad}
        for stage in reversed(range(len(kept))):
            after = later[stage + 1]
            slope = after * self.links[stage].factor if self.has_factors else after
            needs_x = needs_y or stage > 0
            inner = self._stage_back(stage, slope, rows, kept[stage], needs_x, wanted, found)
            if not needs_x:
                return None, found
            assert inner is not None
            for i in range(stage, len(kept)):
                for j, factor in self.links[i].states:
                    if j == stage:
                        inner.add_(later[i + 1], alpha=factor)
            later[stage] = inner
        return later[0], found

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
        """The gradient of a stage's input; those of its rows are added to what was found.

        A ReLU writes over `grad`, which is some layer's own result there, or else the slope's.
        """
        norms = len(self.running[stage])
        for depth in range(len(self.layers) - 1, -1, -1):
            layer, at = self.layers[depth], self.places[stage][depth]
            needs = needs_x or depth > 0
            assert grad is not None
            if isinstance(layer, Relu):
                grad = _aten.threshold_backward.grad_input(grad, kept.pop(), 0, grad_input=grad)
                continue
            if isinstance(layer, Norm):
                running, norms = self.running[stage][norms - 2 : norms], norms - 2
                mask = [needs, wanted[at[0]], wanted[at[1]]]
                grad, *others = layer.backward(grad, rows[at[0]], running, kept, mask)
            else:
                mask = [needs, wanted[at[0]], layer.has_bias and wanted[at[1]]]
                grad, *others = layer.backward(grad, rows[at[0]], kept, mask)
            for i, other in zip(at, others, strict=False):
                if wanted[i] and other is not None:
                    before = found[i]
                    found[i] = other if before is None else before.add_(other)
        return grad


def _joined(x: Tensor, link: Link, states: Sequence[Tensor]) -> Tensor:
    """A slope turned into the next state, in place.

    Factors such as 1/3 are put on differences of states: on states themselves, of which little is left when they are
    added up, their rounding would be an error of the state's own size in every step.
    """
    if not link.is_rounded:
        for j, factor in link.states:
            x.add_(states[j], alpha=factor)
        return x
    (first, _), *others = link.states
    for j, factor in others:
        x.add_(states[j] - states[first], alpha=factor)
    return x.add_(states[first])


def format_of(image: Tensor) -> torch.memory_format:
    """The format in which an image lies; gradients and kernels in another cost a copy in every convolution."""
    is_last = image.is_contiguous(memory_format=torch.channels_last)
    return torch.channels_last if is_last and not image.is_contiguous() else torch.contiguous_format


class Kept(FunctionCtx):
    """What a step keeps for its gradient."""

    program: StepProgram
    count: int
    sizes: list[int]
    saved_tensors: tuple[Tensor, ...]
    needs_input_grad: tuple[bool, ...]


class StepSolve(torch.autograd.Function):
    """The state after a step, with its gradient worked out by hand."""

    @staticmethod
    def forward(ctx: Kept, program: StepProgram, y: Tensor, *rows: Tensor) -> Tensor:
        has_gradient, kept = any(ctx.needs_input_grad), []
        result = program.run(y, rows, kept if has_gradient and not program.is_forgotten else None)
        if has_gradient:
            ctx.program, ctx.count, ctx.sizes = program, len(rows), [len(values) for values in kept]
            ctx.save_for_backward(y, *rows, *(value for values in kept for value in values))
        return result

    @staticmethod
    def backward(ctx: Kept, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        y, *rest = ctx.saved_tensors
        rows, flat = rest[: ctx.count], iter(rest[ctx.count :])
        needs = ctx.needs_input_grad[1:]
        if not torch.is_grad_enabled() and not is_batched(grad):
            kept = [[next(flat) for _ in range(size)] for size in ctx.sizes]
            if ctx.program.is_forgotten:
                ctx.program.run(y, rows, kept, changes_state=False)
            grad = grad.contiguous(memory_format=format_of(y))
            of_y, of_rows = ctx.program.back(grad, rows, kept, needs)
            return (None, of_y, *of_rows)
        with torch.enable_grad():
            y, *rows = (tensor.view_as(tensor) for tensor in (y, *rows))  # apart from what they were made of
            result = ctx.program.run(y, rows, changes_state=False)
        return (None, *gradients_of(result, (y, *rows), needs, grad))
