"""The bottleneck residual unit."""

from typing import ClassVar

from torch import Tensor, nn

from anydepth.block.paths import LISTED, RELU
from anydepth.zoo.layers import conv1x1, conv3x3, norm, norm_relu
from anydepth.zoo.parts import UNITS


@UNITS.register("bottleneck")
class Bottleneck(nn.Module):
    """BN-ReLU-Conv 1x1 down, 3x3 (grouped if asked), 1x1 up, each behind BN-ReLU."""

    input_rank: ClassVar[int] = 4

    def __init__(self, channels: int, reduction: int = 4, groups: int = 1, bias: bool = False, normalise: bool = True):
        super().__init__()
        width = max(channels // reduction, 1)
        self.bn1, self.conv1 = norm(channels, normalise), conv1x1(channels, width, bias=bias)
        self.bn2, self.conv2 = norm(width, normalise), conv3x3(width, width, bias=bias, groups=groups)
        self.bn3, self.conv3 = norm(width, normalise), conv1x1(width, channels, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv1(norm_relu(self.bn1, x))
        x = self.conv2(norm_relu(self.bn2, x))
        return self.conv3(norm_relu(self.bn3, x))


LISTED[Bottleneck] = lambda unit: tuple(
    layer
    for i in (1, 2, 3)
    for layer in ((f"bn{i}", getattr(unit, f"bn{i}")), RELU, (f"conv{i}", getattr(unit, f"conv{i}")))
)
