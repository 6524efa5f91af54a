"""Two layouts of a batch for chains of linear maps: one net, its examples as rows; several nets, theirs as columns."""

from typing import ClassVar, Protocol

import torch
from torch import Tensor


class Layout(Protocol):
    """The products that a chain of linear maps and its gradient are made of."""

    chunk: ClassVar[int]
    """Evaluations per product in the gradient of a weight."""
    features: ClassVar[int]
    """The axis of a state that is its features."""

    def start(self, is_kept: bool) -> None:
        """A forward pass begins, whose results are kept for a backward pass or not."""
        ...

    def start_back(self) -> None:
        """A step of a backward pass begins, whose gradients are used up when it ends."""
        ...

    def transposed(self, weight: Tensor) -> Tensor: ...
    def bias(self, bias: Tensor) -> Tensor:
        """As `forward` takes it."""
        ...

    def forward(self, y: Tensor, weight: Tensor, transposed: Tensor, bias: Tensor | None) -> Tensor: ...
    def forward_added(
        self, total: Tensor, y: Tensor, weight: Tensor, transposed: Tensor, bias: Tensor | None
    ) -> Tensor: ...
    def backward(self, grad: Tensor, weight: Tensor, transposed: Tensor) -> Tensor: ...
    def backward_added(self, total: Tensor, grad: Tensor, weight: Tensor, transposed: Tensor) -> Tensor: ...
    def joined(self, parts: list[Tensor]) -> Tensor:
        """The examples of several evaluations together."""
        ...

    def weight_gradient(self, total: Tensor | None, grads: Tensor, inputs: Tensor) -> Tensor:
        """Added to the total, in place if there is one."""
        ...

    def bias_gradient(self, grads: Tensor) -> Tensor: ...


class Rows:
    """One net: y (examples, features), weight (out, in), bias (out). Few large products, of a size for the cache."""

    chunk: ClassVar[int] = 16
    features: ClassVar[int] = -1

    def start(self, is_kept: bool) -> None: ...

    def start_back(self) -> None: ...

    def transposed(self, weight: Tensor) -> Tensor:
        return weight.t()

    def bias(self, bias: Tensor) -> Tensor:
        return bias

    def forward(self, y: Tensor, weight: Tensor, transposed: Tensor, bias: Tensor | None) -> Tensor:
        return torch.mm(y, transposed) if bias is None else torch.addmm(bias, y, transposed)

    def forward_added(
        self, total: Tensor, y: Tensor, weight: Tensor, transposed: Tensor, bias: Tensor | None
    ) -> Tensor:
        result = torch.addmm(total, y, transposed)
        return result if bias is None else result.add_(bias)

    def backward(self, grad: Tensor, weight: Tensor, transposed: Tensor) -> Tensor:
        return torch.mm(grad, weight)

    def backward_added(self, total: Tensor, grad: Tensor, weight: Tensor, transposed: Tensor) -> Tensor:
        return torch.addmm(total, grad, weight)

    def joined(self, parts: list[Tensor]) -> Tensor:
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def weight_gradient(self, total: Tensor | None, grads: Tensor, inputs: Tensor) -> Tensor:
        return torch.mm(grads.t(), inputs) if total is None else total.addmm_(grads.t(), inputs)

    def bias_gradient(self, grads: Tensor) -> Tensor:
        return grads.sum(0)


class Buffers:
    """Tensors that are taken in the same order again and again: large ones are costly to get from the system."""

    def __init__(self) -> None:
        self._tensors: list[Tensor] = []
        self._taken = 0

    def rewind(self) -> None:
        self._taken = 0

    def take(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        place, self._taken = self._taken, self._taken + 1
        if place < len(self._tensors):
            found = self._tensors[place]
            if found.shape == shape and found.dtype == like.dtype and found.device == like.device:
                return found
        fresh = like.new_empty(shape)
        self._tensors[place : place + 1] = [fresh]
        return fresh


class Columns:
    """Several nets: y (nets, features, examples), weight (nets, out, in), bias (nets, out).

    With the examples innermost, narrow layers are as fast as wide ones, which is what several nets gain by.
    """

    chunk: ClassVar[int] = 1
    features: ClassVar[int] = -2

    def __init__(self) -> None:
        self._kept, self._passing, self._is_kept = Buffers(), Buffers(), False

    def start(self, is_kept: bool) -> None:
        self._is_kept = is_kept
        self._kept.rewind()

    def start_back(self) -> None:
        self._passing.rewind()

    def transposed(self, weight: Tensor) -> Tensor:
        return weight.mT

    def bias(self, bias: Tensor) -> Tensor:
        return bias.unsqueeze(-1)

    def forward(self, y: Tensor, weight: Tensor, transposed: Tensor, bias: Tensor | None) -> Tensor:
        out = self._kept.take((len(y), weight.shape[1], y.shape[2]), y) if self._is_kept else None
        return torch.bmm(weight, y, out=out) if bias is None else torch.baddbmm(bias, weight, y, out=out)

    def forward_added(
        self, total: Tensor, y: Tensor, weight: Tensor, transposed: Tensor, bias: Tensor | None
    ) -> Tensor:
        result = torch.baddbmm(total, weight, y)  # not in a buffer: it may be the result of all
        return result if bias is None else result.add_(bias)

    def backward(self, grad: Tensor, weight: Tensor, transposed: Tensor) -> Tensor:
        return torch.bmm(transposed, grad, out=self._passing.take((len(grad), weight.shape[2], grad.shape[2]), grad))

    def backward_added(self, total: Tensor, grad: Tensor, weight: Tensor, transposed: Tensor) -> Tensor:
        return torch.baddbmm(total, transposed, grad)

    def joined(self, parts: list[Tensor]) -> Tensor:
        return parts[0] if len(parts) == 1 else torch.cat(parts, -1)

    def weight_gradient(self, total: Tensor | None, grads: Tensor, inputs: Tensor) -> Tensor:
        if inputs.shape[-2] < grads.shape[-2]:  # the product is fast where its second factor is wide
            return self.weight_gradient(None if total is None else total.mT, inputs, grads).mT
        return torch.bmm(grads, inputs.mT) if total is None else total.baddbmm_(grads, inputs.mT)

    def bias_gradient(self, grads: Tensor) -> Tensor:
        return grads.sum(-1)


ROWS = Rows()
