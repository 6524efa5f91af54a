"""Passes that leave no trace: what a model would write into its buffers goes into copies that are thrown away."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn


@contextmanager
def spare_state(model: nn.Module) -> Iterator[None]:
    """While in it, every buffer is a copy; afterwards the model has its own again, untouched."""
    own: list[tuple[dict[str, Tensor | None], str, Tensor]] = []
    copies: dict[int, Tensor] = {}
    try:
        for module in model.modules():
            for name, buffer in module._buffers.items():
                if buffer is not None:
                    own.append((module._buffers, name, buffer))
                    copy = copies.setdefault(id(buffer), buffer.detach().clone())
                    vars(copy).update(vars(buffer))
                    module._buffers[name] = copy
        yield
    finally:
        for table, name, buffer in own:
            table[name] = buffer
