"""A network for rows of a table: a linear layer in, one continuous block, a linear layer out."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from anydepth.errors import ConfigError
from anydepth.weights.choose import Choice, block_weights
from anydepth.zoo.parts import MODELS, single_block


@MODELS.register("tabular")
class TabularNetwork(nn.Module):
    """Features to a state of some width, a continuous block on it, then classes or regression targets.

    Args:
        features: length of the input vectors; windows of series are flattened.
        classes: the number of classes; None for regression.
        target_mean, target_std: for regression, of every target: the network's own outputs have about size one.
        width: of the state.
        dropout: of the state before the last layer.
        unit, options: the vector field by its registered name, and its options.
        weights: instead of basis and size, functions by tensor name of the unit, as in ContinuousBlock.
        The rest: of the block.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        features: int = 2,
        classes: int | None = None,
        target_mean: Sequence[float] | None = None,
        target_std: Sequence[float] | None = None,
        width: int = 32,
        dropout: float = 0.0,
        unit: str = "mlp",
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
        check_outputs({"features": features, "width": width}, classes, mean, std, dropout)
        self.enter = nn.Linear(features, width)
        chosen = block_weights(basis, size, weights)
        self.block = single_block(unit, width, options, chosen, scheme, scale, steps=steps)
        self.norm, self.dropout = nn.LayerNorm(width), nn.Dropout(dropout)
        self.leave = nn.Linear(width, classes or len(mean))
        if not classes:
            self.register_buffer("mean", torch.tensor(mean), persistent=False)
            self.register_buffer("std", torch.tensor(std), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.leave(self.dropout(self.norm(self.block(self.enter(x.flatten(1))))))
        return y if self.config["classes"] else torch.addcmul(self.mean, y, self.std)


def check_outputs(
    counts: dict[str, int], classes: int | None, mean: list[float], std: list[float], dropout: float
) -> None:
    for name, value in (counts | {"classes": 1 if classes is None else classes}).items():
        if not isinstance(value, int) or value < 1:
            raise ConfigError(f"{name} must be a whole number above 0, got {value!r}")
    if (classes is None) == (not mean) or len(mean) != len(std) or not all(value > 0 for value in std):
        raise ConfigError(
            "a network needs classes, or target_mean and a positive target_std for every number to be found; "
            f"got classes {classes}, target_mean {mean!r:.60}, target_std {std!r:.60}"
        )
    if not 0 <= dropout < 1:
        raise ConfigError(f"dropout must be from 0 to below 1, got {dropout}")
