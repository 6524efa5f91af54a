"""How rough weights are over depth (ContinuousNet, Fig 8)."""

from typing import Any

import torch
from torch import Tensor, nn

from anydepth.surgery.blocks import blocks_of

LINES = 6
"""Weights of the first convolution that are drawn."""


def kernels_of(model: nn.Module) -> list[Tensor]:
    """The convolutions' weights of all blocks, each (K, out, in, height, width)."""
    stored = (block.stored(name).detach() for block in blocks_of(model).values() for name in block.lifted)
    return [tensor for tensor in stored if tensor.dim() == 5]


def roughness(tensors: list[Tensor]) -> float:
    """sum_k |w_k+1 - w_k| over the mean over k of |w_k|, each summed over all weights."""
    way = sum(float(tensor.diff(dim=0).abs().sum()) for tensor in tensors)
    return way / sum(float(tensor.abs().sum()) / len(tensor) for tensor in tensors)


def over_depth(kernels: list[Tensor]) -> dict[str, Any]:
    """Roughness, and some weights of the first convolution over depth."""
    flat = kernels[0].flatten(1)
    places = torch.linspace(0, flat.shape[1] - 1, LINES).round().long()
    return {"roughness": roughness(kernels), "lines": flat[:, places].T.tolist()}
