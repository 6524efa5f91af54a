"""Batch norm over a batch that is spread over processes; works on any backend, gloo included."""

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from anydepth.errors import RankLostError


def add_up(x: Tensor) -> Tensor:
    """Add up a tensor over all processes, in place; a lost process is reported as such."""
    try:
        dist.all_reduce(x)
    except RuntimeError as error:
        raise RankLostError(f"another rank was lost ({error}); continue with --resume") from error
    return x


class _Sum(torch.autograd.Function):
    """The sum of a tensor over all processes; its gradient is the sum of their gradients."""

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return add_up(x.clone())

    @staticmethod
    def backward(ctx: object, *grads: Tensor) -> Tensor:
        return add_up(grads[0].contiguous().clone())


class SyncedNorm(_BatchNorm):
    """Batch norm whose mean and variance in training are those of the whole batch, over all processes."""

    def _check_input_dim(self, input: Tensor) -> None:
        """Checked by the module that this was made from, when the model was tried out."""

    def forward(self, input: Tensor) -> Tensor:
        is_single = not (dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1)
        if not self.training or is_single:
            return super().forward(input)
        axes = [axis for axis in range(input.dim()) if axis != 1]
        shape = [1, -1, *[1] * (input.dim() - 2)]
        x = input if input.dtype == torch.float64 else input.float()
        count = _Sum.apply(x.new_tensor([x.numel() / x.shape[1]])).item()  # pyright: ignore[reportOptionalMemberAccess]
        mean = _Sum.apply(x.sum(axes)) / count  # pyright: ignore[reportOptionalOperand]
        centred = x - mean.view(shape)
        variance = _Sum.apply(centred.square().sum(axes)) / count  # pyright: ignore[reportOptionalOperand]
        self._note(mean.detach(), variance.detach(), count)
        normal = centred * (variance + self.eps).rsqrt().view(shape)
        if self.affine:
            normal = normal * self.weight.view(shape) + self.bias.view(shape)
        return normal.to(input.dtype)

    @torch.no_grad()
    def _note(self, mean: Tensor, variance: Tensor, count: float) -> None:
        """Running statistics, with the unbiased variance, as batch norm keeps them."""
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        self.num_batches_tracked.add_(1)
        share = self.momentum if self.momentum is not None else 1.0 / float(self.num_batches_tracked)
        unbiased = variance * (count / max(1.0, count - 1))
        for running, value in ((self.running_mean, mean), (self.running_var, unbiased)):
            running.mul_(1 - share).add_(value.to(running.dtype), alpha=share)


def synchronise(model: nn.Module) -> None:
    """Make every batch norm of a model one over all processes, in place; parameters and names stay."""
    for module in model.modules():
        if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)):
            module.__class__ = SyncedNorm  # pyright: ignore[reportAttributeAccessIssue]
