"""Building a model from a file without letting the file ask for more memory than its tensors have."""

from collections.abc import Callable, Iterable
from math import prod

import torch
from torch.overrides import TorchFunctionMode

from anydepth.errors import ModelFileError

_BY_SHAPE = {torch.empty, torch.zeros, torch.ones, torch.rand, torch.randn, torch.full, torch.eye}
_BY_RANGE = {torch.arange, torch.linspace}
_SLACK = 2**22
"""Numbers that a model may make besides those it stores."""


class SizeLimit(TorchFunctionMode):
    """Refuses to make more numbers or more tensors than allowed, before they are made."""

    def __init__(self, numbers: int, tensors: int):
        super().__init__()
        self.left, self.calls = numbers + _SLACK, 4 * tensors + 100

    def __torch_function__(
        self, func: Callable, types: Iterable[type], args: tuple = (), kwargs: dict[str, object] | None = None
    ) -> object:
        kwargs = kwargs or {}
        if func in _BY_SHAPE or func in _BY_RANGE:
            self.left -= _numbers(func, args, kwargs)
            self.calls -= 1
            if self.left < 0 or self.calls < 0:
                raise ModelFileError("the file describes a model that is larger than the tensors it comes with")
        return func(*args, **kwargs)


def _numbers(func: Callable, args: tuple, kwargs: dict[str, object]) -> int:
    given = [*args, *(kwargs[name] for name in ("size", "end", "steps", "n", "m") if name in kwargs)]
    if func is torch.full:
        given = given[:1]
    flat = [n for value in given for n in (value if isinstance(value, (tuple, list)) else (value,))]
    counts = [int(n) for n in flat if isinstance(n, int) and not isinstance(n, bool)]
    if func is torch.eye and len(counts) == 1:
        counts *= 2
    return max(map(abs, counts), default=0) if func in _BY_RANGE else prod(counts)
