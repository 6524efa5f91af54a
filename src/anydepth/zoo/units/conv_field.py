"""The vector field on images of Ott et al. 2020, app. A.1 and A.2."""

from typing import ClassVar

from torch import Tensor, nn

from anydepth.zoo.layers import conv1x1, conv3x3
from anydepth.zoo.parts import UNITS


@UNITS.register("conv_field")
class ConvField(nn.Module):
    """Conv 1x1, ReLU, Conv 3x3, ReLU, Conv 1x1 on the image itself; Kaiming fan-in, zero biases."""

    input_rank: ClassVar[int] = 4

    def __init__(self, channels: int, hidden: int = 96):
        super().__init__()
        self.conv1 = conv1x1(channels, hidden, bias=True)
        self.conv2 = conv3x3(hidden, hidden, bias=True)
        self.conv3 = conv1x1(hidden, channels, bias=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv3(self.conv2(self.conv1(x).relu()).relu())
