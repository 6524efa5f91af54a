"""Whether two ways to compute something give the same on an example."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from anydepth.errors import NumericalError
from anydepth.surgery.stack import Layers

_CLOSE = {torch.float64: 1e-8}
_LOOSE = 1e-3
"""Relative distances allowed; in less than float64, rounding is carried along by as many layers as there are."""


def check_same(layers: nn.Module | Iterable[nn.Module], made: nn.Module, example: object, branches: bool) -> None:
    """Refuse a block whose results on an example are not those of the layers that it was made of."""
    original = layers if isinstance(layers, nn.Module) and not isinstance(layers, nn.ModuleList) else Layers(layers)
    if isinstance(original, Layers):
        original.is_bare = branches
    old, new = ([t for t in tree_leaves(_called(each, example)) if isinstance(t, Tensor)] for each in (original, made))
    for one, other in zip(old, new, strict=True):
        limit = _CLOSE.get(one.dtype, _LOOSE)
        gap = float((one - other).norm() / one.norm().clamp_min(1e-30)) if one.is_floating_point() else 0.0
        if not gap <= limit:
            raise NumericalError(
                f"the block's result differs from that of its layers by {gap:.1e} on the example, expected at most "
                f"{limit:.0e}; do layers use their own index, or random numbers? For another basis or solver than "
                "'constant' and 'euler' leave example out"
            )


def _called(module: nn.Module, example: object) -> object:
    with _at_rest(module), torch.no_grad():
        if isinstance(example, Mapping):
            return module(**example)
        return module(*(example if isinstance(example, tuple) else (example,)))


@contextmanager
def _at_rest(module: nn.Module) -> Iterator[None]:
    """Eval mode; afterwards every module is in the mode it was in."""
    modes = {each: each.training for each in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for each, mode in modes.items():
            each.training = mode
