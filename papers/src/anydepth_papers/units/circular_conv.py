"""A linear layer on a circle."""

from typing import ClassVar

import torch
from torch import Tensor, nn

from anydepth.zoo.parts import UNITS


@UNITS.register("circular_conv")
class CircularConv(nn.Module):
    """One convolution of a signal on a circle, linear and without bias; starts at zero.

    With the stencil of a derivative it is a transport equation (ANODEV2 sec 6).

    Args:
        features: length of the signal.
        kernel: number of taps.
    """

    input_rank: ClassVar[int] = 2

    def __init__(self, features: int, kernel: int = 5):
        super().__init__()
        self.conv = nn.Conv1d(1, 1, kernel, padding="same", padding_mode="circular", bias=False)
        nn.init.zeros_(self.conv.weight)

    def forward(self, x: Tensor) -> Tensor:
        return torch.squeeze(self.conv(x[:, None]), 1)
