"""The regulariser of evolving weights, R(w0, p) (ANODEV2 eq 5a)."""

import torch
from torch import Tensor, nn

from anydepth.surgery.blocks import blocks_of


def penalty(model: nn.Module, initial: float, evolution: float) -> Tensor | None:
    """initial |w0|^2 + evolution |p|^2 over all tensors that evolve; None where there is nothing to add."""
    if not initial and not evolution:
        return None
    held = [block.held(name) for block in blocks_of(model).values() for name in block.lifted]
    parts = [(initial, first) for first, *own in held if own and initial]
    parts += [(evolution, tensor) for _, *own in held for tensor in own if evolution]
    terms = [factor * tensor.square().sum() for factor, tensor in parts]
    return torch.stack(terms).sum() if terms else None
