"""A plain pre-activation ResNet: the discrete counterpart of the image network, without continuous blocks."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from anydepth.errors import ConfigError
from anydepth.zoo.layers import conv3x3, norm
from anydepth.zoo.models.image_network import pooled_size
from anydepth.zoo.parts import MODELS
from anydepth.zoo.stitch import Stitch
from anydepth.zoo.units.preact_conv import PreactConv


@MODELS.register("resnet")
class ResNet(nn.Module):
    """Stem, stages of residual units x + R(x) joined by stitches, average pool, classifier.

    Stem, stitches, units and head are those of `image`, so that the two differ in what is between the stitches only.
    With `survival` below 1 it trains with stochastic depth (Huang et al. 2016): in a training pass unit l of L, counted
    over all stages, is skipped with probability (1 - survival) l / L; in eval mode R is multiplied by the probability
    that it is not.

    Args:
        channels: width of each stage; every stage after the first halves the image.
        layers: residual units of each stage.
        image: (channels, height, width) of the input.
        pool: window of the average pool.
    """

    def __init__(
        self,
        channels: Sequence[int] = (16, 32, 64),
        layers: int = 8,
        classes: int = 10,
        image: Sequence[int] = (3, 32, 32),
        survival: float = 1.0,
        pool: int = 8,
    ):
        super().__init__()
        self.config = {key: value for key, value in locals().items() if key not in ("self", "__class__")}
        if layers < 1 or not 0 < survival <= 1:
            raise ConfigError(f"a ResNet needs layers >= 1 and survival in (0, 1], got {layers} and {survival}")
        height, width = pooled_size(channels, image, pool, classes)
        self.stem = nn.Sequential(conv3x3(image[0], channels[0]), norm(channels[0]))
        self.stitches = nn.ModuleList(
            [nn.Identity(), *(Stitch(before, after, 2) for before, after in pairwise(channels))]
        )
        self.stages = nn.ModuleList(nn.ModuleList(PreactConv(width) for _ in range(layers)) for width in channels)
        self.norm = norm(channels[-1])
        self.pool = nn.AvgPool2d(pool)
        self.classifier = nn.Linear(channels[-1] * height * width, classes)
        count = layers * len(channels)
        self.chances = [1 - (1 - survival) * number / count for number in range(1, count + 1)]

    def forward(self, x: Tensor) -> Tensor:
        x, chances = self.stem(x), iter(self.chances)
        for stitch, stage in zip(self.stitches, self.stages, strict=True):
            x = stitch(x)
            for unit in stage:  # pyright: ignore[reportGeneralTypeIssues]
                x = self.residual(unit, next(chances), x)
        return self.classifier(self.pool(self.norm(x).relu()).flatten(1))

    def residual(self, unit: nn.Module, chance: float, x: Tensor) -> Tensor:
        if chance == 1:
            return x + unit(x)
        if self.training:
            return x + unit(x) if torch.rand(()) < chance else x
        return torch.add(x, unit(x), alpha=chance)
