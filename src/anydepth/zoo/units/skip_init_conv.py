"""The residual unit that starts as nothing."""

from typing import ClassVar

import torch
from torch import Tensor, nn

from anydepth.zoo.parts import UNITS
from anydepth.zoo.units.preact_conv import PreactConv


@UNITS.register("skip_init_conv")
class SkipInitConv(nn.Module):
    """s(t) times the pre-activation unit; s starts at zero, so the block starts as the identity.

    (ContinuousNet A.2; its convolutions have biases.)
    """

    input_rank: ClassVar[int] = 4

    def __init__(self, channels: int, bias: bool = True, normalise: bool = True):
        super().__init__()
        self.residual = PreactConv(channels, bias, normalise)
        self.skip = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        return self.skip * self.residual(x)
