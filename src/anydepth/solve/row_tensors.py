"""States in which every example of a batch has its own factor, its own error and its own decision."""

from collections.abc import Sequence

import torch
from torch import Tensor

from anydepth.solve.tensors import State


def beside(part: Tensor, values: Tensor) -> Tensor:
    """One number for every example, beside a part of the state."""
    return values.to(part.device, part.dtype).reshape(-1, *[1] * (part.dim() - 1))


def combined(factors: Sequence[float], slopes: Sequence[Tensor]) -> Tensor:
    """The sum of factor * slope."""
    pairs = [(factor, slope) for factor, slope in zip(factors, slopes, strict=False) if factor]
    total = pairs[0][1] * pairs[0][0]
    for factor, slope in pairs[1:]:
        total = torch.add(total, slope, alpha=factor)
    return total


def moved(y: State, step: Sequence[Tensor], factors: Sequence[float], slopes: Sequence[State]) -> State:
    """y + step * sum of factor * slope, the step another for every example."""
    return tuple(
        part + h * combined(factors, [slope[i] for slope in slopes])
        for i, (part, h) in enumerate(zip(y, step, strict=True))
    )


def chosen(is_good: Tensor, new: State, old: State) -> State:
    if bool(is_good.all()):
        return new
    if not bool(is_good.any()):
        return old
    return tuple(
        torch.where(is_good.to(a.device).reshape(-1, *[1] * (a.dim() - 1)), a, b) for a, b in zip(new, old, strict=True)
    )


def finite_rows(parts: State) -> Tensor:
    """For every example, whether all its numbers are finite; on the CPU."""
    flat = [part.detach().isfinite().flatten(1).all(-1) if part.dim() > 1 else part.isfinite() for part in parts]
    return torch.stack(flat).all(0).cpu()


def rms_rows(parts: State, limits: Sequence[Tensor]) -> Tensor:
    """For every example the root mean square of the parts over their limits; float64, on the CPU."""
    count = sum(part[0].numel() if len(part) else 1 for part in parts)
    ratios = [p.detach().double() / q.double().clamp_min(1e-300) for p, q in zip(parts, limits, strict=True)]
    total = torch.stack([r.square().flatten(1).sum(-1) if r.dim() > 1 else r.square() for r in ratios]).sum(0)
    return (total / max(count, 1)).sqrt().cpu()


def short(width: Tensor) -> Tensor:
    """Widths with short binary expansions, as those of a batch that steps together."""
    return torch.where((width > 1e-30) & (width < 1e30), width.float().double(), width)
