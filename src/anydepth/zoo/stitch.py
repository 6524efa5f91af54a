"""Stitch: the discrete residual unit between two continuous blocks."""

import torch
from torch import Tensor, nn

from anydepth.errors import ConfigError
from anydepth.zoo.layers import conv1x1, conv3x3, norm, norm_relu


class Stitch(nn.Module):
    """x -> skip(x) + scale * R(x), with R = BN-ReLU-Conv-BN-ReLU-Conv; may change channels and stride.

    The skip is the identity where the shape stays, else a 1 x 1 convolution and BN (ContinuousNet eq 28).
    With `skip_init`, R has a factor that starts at zero. `scale` is fixed: to match a block, take
    scale_of_block / steps for the steps that training ends with.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        stride: int = 1,
        scale: float = 1.0,
        skip_init: bool = False,
        normalise: bool = True,
    ):
        super().__init__()
        if stride not in (1, 2):
            raise ConfigError(f"stride of a stitch must be 1 or 2, got {stride}")
        self.scale = scale
        self.bn1, self.conv1 = norm(inputs, normalise), conv3x3(inputs, outputs, stride)
        self.bn2, self.conv2 = norm(outputs, normalise), conv3x3(outputs, outputs)
        same = inputs == outputs and stride == 1
        self.skip = nn.Identity() if same else nn.Sequential(conv1x1(inputs, outputs, stride), norm(outputs, normalise))
        self.factor = nn.Parameter(torch.zeros(())) if skip_init else None

    def forward(self, x: Tensor) -> Tensor:
        """skip(x) + scale * R(x)."""
        residual = self.conv2(norm_relu(self.bn2, self.conv1(norm_relu(self.bn1, x))))
        if self.factor is not None:
            residual = self.factor * residual
        return torch.add(self.skip(x), residual, alpha=self.scale)
