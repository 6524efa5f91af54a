"""An initial value problem as torchdiffeq states it: checked, and with its state as one tensor."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from anydepth.errors import ConfigError, ShapeError

Func = Callable[[Tensor, Any], Any]


@dataclass(frozen=True)
class Packing:
    """How a state, a tensor or a tuple of tensors, lies in one tensor; a tuple is flattened."""

    shapes: tuple[torch.Size, ...]
    is_tuple: bool
    dtype: torch.dtype
    """What the field is given and the caller gets; steps accumulate in at least float32."""

    def unpacked(self, y: Tensor, lead: tuple[int, ...] = ()) -> Any:
        """The state in its own structure, with leading axes."""
        if not self.is_tuple:
            return y
        parts = y.split([shape.numel() for shape in self.shapes], dim=-1)
        return tuple(part.view((*lead, *shape)) for part, shape in zip(parts, self.shapes, strict=True))

    def slope(self, func: Func, t: Tensor, y: Tensor) -> Tensor:
        """The field at a packed state."""
        found = func(t, self.unpacked(y.to(self.dtype)))
        if not self.is_tuple:
            if not isinstance(found, Tensor) or found.shape != y.shape:
                raise self._misfit((found,))
            return found.to(y.dtype)
        parts = tuple(found) if isinstance(found, tuple | list) else (found,)
        if tuple(part.shape if isinstance(part, Tensor) else None for part in parts) != self.shapes:
            raise self._misfit(parts)
        return torch.cat([part.reshape(-1) for part in parts]).to(y.dtype)

    def _misfit(self, parts: tuple) -> ShapeError:
        got = ", ".join(str(tuple(p.shape)) if isinstance(p, Tensor) else type(p).__name__ for p in parts)
        expected = ", ".join(str(tuple(shape)) for shape in self.shapes)
        return ShapeError(
            f"func returned {got}, expected {expected}, the {'shapes' if self.is_tuple else 'shape'} of y0"
        )


def packed(y0: Any) -> tuple[Packing, Tensor]:
    """A state as one tensor in the precision of the steps, and how to get it back."""
    parts = y0 if isinstance(y0, tuple) else (y0,)
    if not parts or not all(isinstance(part, Tensor) for part in parts):
        raise ShapeError(f"y0 must be a tensor or a tuple of tensors, got {type(y0).__name__}")
    if any(part.is_complex() for part in parts):
        raise ShapeError("complex numbers are not supported; solve for torch.view_as_real(y0)")
    if not all(part.is_floating_point() for part in parts):
        raise ShapeError(f"y0 must be floating-point, got {', '.join(str(part.dtype) for part in parts)}")
    flat = torch.cat([part.reshape(-1) for part in parts]) if isinstance(y0, tuple) else parts[0]
    packing = Packing(tuple(part.shape for part in parts), isinstance(y0, tuple), flat.dtype)
    return packing, flat.to(torch.promote_types(flat.dtype, torch.float32))


def checked_times(t: object, like: Tensor) -> Tensor:
    """Times in strict order, on the state's device."""
    if not isinstance(t, Tensor) or not t.is_floating_point() or t.dim() != 1 or not len(t):
        got = f"{t.dtype} of shape {tuple(t.shape)}" if isinstance(t, Tensor) else type(t).__name__
        raise ConfigError(f"t must be a one-dimensional floating-point tensor of at least one time, got {got}")
    times = t.detach().double().tolist()
    if not all(map(isfinite, times)):
        raise ConfigError("t must hold finite times")
    if len({later > earlier for earlier, later in pairwise(times)}) > 1 or len(set(times)) < len(times):
        raise ConfigError("t must be strictly increasing or strictly decreasing")
    return t.to(like.device)


def tolerance(name: str, value: object, packing: Packing, like: Tensor) -> float | Tensor:
    """A tolerance: one number, one for each part of a tuple, or one for every element of the state."""
    if isinstance(value, tuple | list) or (isinstance(value, Tensor) and value.dim() > 0):
        return _spread(name, value, packing, like)
    number = value.item() if isinstance(value, Tensor) else value
    if not isinstance(number, Real) or isinstance(number, bool) or not isfinite(number) or number < 0:
        raise ConfigError(f"{name} must be a finite number of at least 0, got {value!r}")
    return float(number)


def _spread(name: str, value: Any, packing: Packing, like: Tensor) -> Tensor:
    values = list(value) if packing.is_tuple else [value]
    if len(values) != len(packing.shapes):
        raise ConfigError(f"{name} must be one number or have one for each of the {len(packing.shapes)} parts of y0")
    try:
        parts = [
            torch.as_tensor(part, dtype=like.dtype, device=like.device).expand(shape)
            for part, shape in zip(values, packing.shapes, strict=True)
        ]
    except (RuntimeError, TypeError, ValueError):
        raise ConfigError(f"{name} does not fit the shape of y0; give one number, or one for each element") from None
    found = torch.cat([part.reshape(-1) for part in parts]) if packing.is_tuple else parts[0]
    if found.requires_grad or not bool((torch.isfinite(found) & (found >= 0)).all()):
        raise ConfigError(f"{name} must hold finite numbers of at least 0 without a gradient")
    return found
