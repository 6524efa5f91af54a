"""The transformer's encoder as a residual unit."""

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from anydepth.errors import ConfigError
from anydepth.zoo.parts import UNITS


@UNITS.register("encoder")
class Encoder(nn.Module):
    """T(x) + M(x + T(x)): self-attention T and perceptron M, each behind a layer norm (Stateful ODE-Nets eq 17).

    x is (batch, tokens, width). `mask` (batch, tokens), True where there is a token, keeps attention off padding.
    """

    input_rank: ClassVar[int] = 3

    def __init__(self, width: int, heads: int = 1, hidden: int | None = None):
        super().__init__()
        if heads < 1 or width % heads:
            raise ConfigError(f"width {width} cannot be shared by {heads} heads; it must be a multiple of them")
        if hidden is not None and hidden < 1:
            raise ConfigError(f"hidden must be a whole number above 0, got {hidden}")
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value, self.mix = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.inner, self.out = nn.Linear(width, hidden or width), nn.Linear(hidden or width, width)
        for linear in (self.query, self.key, self.value, self.mix, self.inner, self.out):
            nn.init.xavier_uniform_(linear.weight)
        for linear in (self.inner, self.out):
            nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        query, key, value = self._projected(x)
        allowed = None if mask is None else mask[:, None, None, :]
        mixed = scaled_dot_product_attention(query, key, value, allowed)
        attended = self.mix(mixed.transpose(1, 2).flatten(2))
        return attended + self.out(torch.relu(self.inner(self.norm2(x + attended))))

    def attention(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """The weights (batch, heads, tokens, tokens) with which each token looks at the others."""
        query, key, _ = self._projected(x)
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None, None, :], float("-inf"))
        return scores.softmax(-1)

    def _projected(self, x: Tensor) -> tuple[Tensor, ...]:
        """Query, key and value, each (batch, heads, tokens, width per head)."""
        normed = self.norm1(x)
        return tuple(
            part(normed).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
