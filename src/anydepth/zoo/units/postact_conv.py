"""The post-activation residual unit."""

from typing import ClassVar

from torch import Tensor, nn

from anydepth.block.paths import LISTED, RELU
from anydepth.zoo.layers import conv3x3, norm, norm_relu
from anydepth.zoo.parts import UNITS


@UNITS.register("postact_conv")
class PostactConv(nn.Module):
    """Conv-BN-ReLU-Conv-BN-ReLU, the order of ANODE's units."""

    input_rank: ClassVar[int] = 4

    def __init__(self, channels: int, bias: bool = False, normalise: bool = True):
        super().__init__()
        self.conv1, self.bn1 = conv3x3(channels, channels, bias=bias), norm(channels, normalise)
        self.conv2, self.bn2 = conv3x3(channels, channels, bias=bias), norm(channels, normalise)

    def forward(self, x: Tensor) -> Tensor:
        x = norm_relu(self.bn1, self.conv1(x))
        return norm_relu(self.bn2, self.conv2(x))


LISTED[PostactConv] = lambda unit: (
    ("conv1", unit.conv1),
    ("bn1", unit.bn1),
    RELU,
    ("conv2", unit.conv2),
    ("bn2", unit.bn2),
    RELU,
)
