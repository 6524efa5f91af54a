"""One convolution as a residual unit."""

from typing import ClassVar

from torch import Tensor, nn

from anydepth.zoo.layers import he_initialised, norm
from anydepth.zoo.parts import UNITS


@UNITS.register("conv_norm")
class ConvNorm(nn.Module):
    """Conv k x k with bias, BN, ReLU: the layer of AlexNet that ANODEV2 gives a residual connection."""

    input_rank: ClassVar[int] = 4

    def __init__(self, channels: int, kernel: int = 5, normalise: bool = True):
        super().__init__()
        self.conv = he_initialised(nn.Conv2d(channels, channels, kernel, padding="same"))
        self.bn = norm(channels, normalise)

    def forward(self, x: Tensor) -> Tensor:
        return self.bn(self.conv(x)).relu()
