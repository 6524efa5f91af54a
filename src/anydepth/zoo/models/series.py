"""A network for windows of series: a linear layer in, one continuous block over time, a linear layer out."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from anydepth.errors import ConfigError
from anydepth.weights.choose import Choice, block_weights
from anydepth.zoo.models.tabular import check_outputs
from anydepth.zoo.parts import MODELS, single_block


@MODELS.register("series")
class SeriesNetwork(nn.Module):
    """Windows (batch, times, channels) to a state (batch, times, width), a continuous block on it, then classes or
    regression targets in their own units, from the state's mean over time and its last time.

    Every time has an offset of its own that is learnt, so that the block knows where in the window it is.

    Args:
        window: (times, channels).
        classes: the number of classes; None for regression.
        target_mean, target_std: for regression, of every target: the network's own outputs have about size one.
        width: of the state.
        dropout: of the features before the last layer.
        unit, options: the vector field by its registered name, such as encoder, and its options.
        weights: instead of basis and size, functions by tensor name of the unit, as in ContinuousBlock.
        The rest: of the block.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        window: Sequence[int] = (16, 1),
        classes: int | None = None,
        target_mean: Sequence[float] | None = None,
        target_std: Sequence[float] | None = None,
        width: int = 32,
        dropout: float = 0.0,
        unit: str = "series_conv",
        options: dict[str, object] | None = None,
        basis: str = "constant",
        size: int = 1,
        scheme: str = "rk4",
        steps: int | None = None,
        scale: float = 1.0,
        weights: dict[str, Choice] | None = None,
    ):
        super().__init__()
        self.config = {key: value for key, value in locals().items() if key not in ("self", "__class__")}
        mean, std = list(target_mean or []), list(target_std or [])
        if len(window) != 2:
            raise ConfigError(f"window must be (times, channels), got {window!r:.60}")
        times, channels = window
        check_outputs({"times": times, "channels": channels, "width": width}, classes, mean, std, dropout)
        self.enter = nn.Linear(channels, width)
        self.place = nn.Parameter(torch.zeros(times, width))
        chosen = block_weights(basis, size, weights)
        self.block = single_block(unit, width, options, chosen, scheme, scale, steps=steps)
        self.norm, self.dropout = nn.LayerNorm(2 * width), nn.Dropout(dropout)
        self.leave = nn.Linear(2 * width, classes or len(mean))
        if not classes:
            self.register_buffer("mean", torch.tensor(mean), persistent=False)
            self.register_buffer("std", torch.tensor(std), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        state = self.block(self.enter(x) + self.place)
        features = torch.cat([state.mean(1), state[:, -1]], 1)
        y = self.leave(self.dropout(self.norm(features)))
        return y if self.config["classes"] else torch.addcmul(self.mean, y, self.std)
