"""Norms of a state: the root mean square, and over several tensors the largest of theirs."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from anydepth.errors import ConfigError
from anydepth.torchdiffeq.problem import Packing

StateNorm = Callable[[Tensor], Any]
"""The norm of a packed state."""


def rms(x: Tensor) -> Tensor:
    return torch.linalg.vector_norm(x) / max(x.numel(), 1) ** 0.5


def largest_rms(parts: Sequence[Tensor]) -> Tensor:
    """The largest root mean square among several tensors, of which there is at least one."""
    norms = torch.stack(torch._foreach_norm(list(parts)))  # pyright: ignore[reportPrivateImportUsage]
    counts = torch.tensor([max(part.numel(), 1) for part in parts], dtype=norms.dtype, device=norms.device)
    return (norms / counts.sqrt()).max()


def state_norm(given: Any, packing: Packing) -> StateNorm:
    """The norm in `options`, which sees the state in its own structure, or the default one."""
    if given is None:
        return (lambda y: largest_rms(packing.unpacked(y))) if packing.is_tuple else rms
    if not callable(given):
        raise ConfigError(f"norm must be a function of the state, got {given!r}")
    return lambda y: given(packing.unpacked(y))


class AdjointNorm:
    """The norm of (t, y, adjoint of y, *gradients of parameters); a seminorm leaves the parameters out."""

    def __init__(self, norm: StateNorm, is_seminorm: bool = False):
        self.norm, self.is_seminorm = norm, is_seminorm

    def __call__(self, parts: Sequence[Tensor]) -> Tensor:
        t, y, costate, *params = parts
        norms = [t.abs(), *(torch.as_tensor(self.norm(part)) for part in (y, costate))]
        if params and not self.is_seminorm:
            norms.append(largest_rms(params))
        return torch.stack([norm.reshape(()).to(y) for norm in norms]).max()


def adjoint_norm(given: object, norm: StateNorm, packing: Packing) -> Callable[[Sequence[Tensor]], object]:
    """The norm of the backward pass: in `adjoint_options`, "seminorm", or the default."""
    if given is None or isinstance(given, str):
        if given not in (None, "seminorm"):
            raise ConfigError(f"the norm in adjoint_options must be 'seminorm' or a function, got {given!r}")
        return AdjointNorm(norm, given == "seminorm")
    if not callable(given):
        raise ConfigError(f"the norm in adjoint_options must be 'seminorm' or a function, got {given!r}")
    if not packing.is_tuple:
        return given

    def on_parts(parts: Sequence[Tensor]) -> Any:
        t, y, costate, *params = parts
        return given((t, *packing.unpacked(y), *packing.unpacked(costate), *params))

    return on_parts
