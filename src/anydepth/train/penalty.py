"""The regulariser of evolving weights, R(w0, p) (ANODEV2 eq 5a)."""

import torch
from torch import Tensor, nn

from anydepth.surgery.blocks import blocks_in


def penalty(model: nn.Module, initial: float, evolution: float) -> Tensor | None:
    """initial |w0|^2 + evolution |p|^2 over all tensors that evolve; None where there is nothing to add."""
    if not initial and not evolution:
        return None
    blocks = blocks_in(model).values()
    held = [b.held(name) for b in blocks for name, function in b.functions.items() if not function.is_linear]
    parts = [(initial, first) for first, *_ in held if initial]
    parts += [(evolution, tensor) for _, *own in held for tensor in own if evolution]
    terms = [factor * tensor.square().sum() for factor, tensor in parts]
    return torch.stack(terms).sum() if terms else None
