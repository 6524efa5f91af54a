"""The pre-activation residual unit."""

from typing import ClassVar

from torch import Tensor, nn

from anydepth.block.paths import LISTED, RELU
from anydepth.zoo.layers import conv3x3, norm, norm_relu
from anydepth.zoo.parts import UNITS


@UNITS.register("preact_conv")
class PreactConv(nn.Module):
    """BN-ReLU-Conv-BN-ReLU-Conv (Stateful ODE-Nets sec 7; without biases there)."""

    input_rank: ClassVar[int] = 4

    def __init__(self, channels: int, bias: bool = False, normalise: bool = True):
        super().__init__()
        self.bn1, self.conv1 = norm(channels, normalise), conv3x3(channels, channels, bias=bias)
        self.bn2, self.conv2 = norm(channels, normalise), conv3x3(channels, channels, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv1(norm_relu(self.bn1, x))
        return self.conv2(norm_relu(self.bn2, x))


LISTED[PreactConv] = lambda unit: (
    ("bn1", unit.bn1),
    RELU,
    ("conv1", unit.conv1),
    ("bn2", unit.bn2),
    RELU,
    ("conv2", unit.conv2),
)
