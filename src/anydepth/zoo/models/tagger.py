"""The continuous transformer: a tag for every word of a sentence (Stateful ODE-Nets, section 7.3)."""

import torch
from torch import Tensor, nn

from anydepth.errors import ConfigError
from anydepth.weights.choose import Choice, block_weights
from anydepth.zoo.parts import MODELS, single_block

_LONGEST_WAVE = 10_000.0


@MODELS.register("tagger")
class Tagger(nn.Module):
    """Embedding with positions added, one continuous block of encoders, layer norm, classifier.

    Embedding and positions start at a size of 1 / sqrt(width), small beside what the block adds, so that rare words
    are learnt in a few steps.

    Args:
        words: size of the vocabulary; word 0 is padding.
        classes: number of tags.
        width: of the embedding and of the state.
        unit, options: the residual unit by its registered name, and its options; it is called with (x, mask).
        weights: instead of basis and size, functions by tensor name of the unit, as in ContinuousBlock.
        The rest: of the block; `steps` by default as many as `size`.
    """

    def __init__(
        self,
        words: int = 1000,
        classes: int = 10,
        width: int = 128,
        unit: str = "encoder",
        options: dict[str, object] | None = None,
        basis: str = "constant",
        size: int = 1,
        scheme: str = "euler",
        steps: int | None = None,
        scale: float = 1.0,
        weights: dict[str, Choice] | None = None,
    ):
        super().__init__()
        self.config = {key: value for key, value in locals().items() if key not in ("self", "__class__")}
        for name, value in {"words": words, "classes": classes, "width": width}.items():
            if not isinstance(value, int) or value < 1:
                raise ConfigError(f"{name} must be a whole number above 0, got {value!r}")
        if width % 2:
            raise ConfigError(f"width must be even, since positions are pairs of waves, got {width}")
        self.embedding = nn.Embedding(words, width, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=width**-0.5)
        chosen = block_weights(basis, size, weights)
        self.block = single_block(unit, width, options, chosen, scheme, scale, steps=steps)
        self.norm = nn.LayerNorm(width)
        self.classifier = nn.Linear(width, classes)

    def embed(self, tokens: Tensor) -> Tensor:
        """The state at depth 0 (batch, tokens, width)."""
        x = self.embedding(tokens)
        return x + positions(tokens.shape[1], x.shape[-1], x.device).to(x.dtype) * x.shape[-1] ** -0.5

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Scores (batch, tokens, classes); `mask` is True where there is a word."""
        return self.classifier(self.norm(self.block(self.embed(tokens), mask)))


def positions(count: int, width: int, device: torch.device) -> Tensor:
    """(count, width): sines, then cosines, of waves from one token to ten thousand long."""
    place = torch.arange(count, device=device, dtype=torch.float32)[:, None]
    rate = _LONGEST_WAVE ** -torch.linspace(0, 1, width // 2, device=device)
    return torch.cat([torch.sin(place * rate), torch.cos(place * rate)], dim=1)
