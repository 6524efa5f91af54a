"""How far outputs are apart."""

from collections.abc import Sequence
from math import frexp, inf, isfinite

from torch import Tensor

Outputs = Tensor | Sequence[Tensor]


def distance(a: Outputs, b: Outputs) -> float:
    """Root mean square of b - a; of tensors, or of batches of them. Infinite where anything is not finite."""
    pairs = zip(_listed(a), _listed(b), strict=True)
    return _rms([after.detach().double().to(before.device) - before.detach().double() for before, after in pairs])


def relative_distance(a: Outputs, b: Outputs) -> float:
    """Root mean square of b - a, relative to that of a; not relative where a is zero."""
    size = _rms([tensor.detach().double() for tensor in _listed(a)])
    gap = distance(a, b)
    return gap / size if size > 0 and isfinite(gap) else gap


def _rms(tensors: Sequence[Tensor]) -> float:
    """Scaled by a power of two, which is exact, so that no square overflows or vanishes."""
    sizes = [tensor.abs().max().item() for tensor in tensors if tensor.numel()]
    if not all(map(isfinite, sizes)):
        return inf
    largest = max(sizes, default=0.0)
    if largest == 0:
        return 0.0
    unit = 2.0 ** (frexp(largest)[1] - 1)
    total = sum((tensor / unit).square().sum().item() for tensor in tensors)
    return unit * (total / sum(tensor.numel() for tensor in tensors)) ** 0.5


def _listed(outputs: Outputs) -> Sequence[Tensor]:
    return [outputs] if isinstance(outputs, Tensor) else outputs
