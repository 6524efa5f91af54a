"""What is read of a block's weights in evaluation, kept until a weight changes.

A change is another tensor, another place in memory, or a write that PyTorch counts (an optimiser's step, `copy_`,
loading). Writes through `.data` into the same memory are not counted: replace the tensor, or write under `no_grad`.
"""

from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from anydepth.block.passes import Pass

Found = TypeVar("Found")

_KEPT: "WeakKeyDictionary[nn.Module, tuple[Any, list[Tensor], Any]]" = WeakKeyDictionary()


def kept_weights(given: Pass, key: object, make: Callable[[], Found]) -> Found:
    """What `make` reads, as long as neither the key nor a weight changes; with gradients or in training read anew."""
    tensors = [tensor for held in given.held.values() for tensor in held]
    if torch.is_grad_enabled() or given.is_training or any(tensor.is_inference() for tensor in tensors):
        return make()
    stamp = (key, tuple([(id(tensor), tensor._version, tensor.data_ptr()) for tensor in tensors]))
    kept = _KEPT.get(given.unit)
    if kept is None or kept[0] != stamp:
        with torch.inference_mode(False), torch.no_grad():
            kept = _KEPT[given.unit] = (stamp, tensors, make())  # the tensors are held: no other can have their ids
    return kept[2]
