"""The unit for series: convolutions over time."""

from typing import ClassVar

from torch import Tensor, nn

from anydepth.errors import ConfigError
from anydepth.zoo.parts import UNITS


@UNITS.register("series_conv")
class SeriesConv(nn.Module):
    """Layer norm, Conv1d over time, ReLU, Conv1d; x is (batch, times, width). Kaiming fan-in, zero biases."""

    input_rank: ClassVar[int] = 3

    def __init__(self, width: int, kernel: int = 5):
        super().__init__()
        if kernel < 1 or kernel % 2 == 0:
            raise ConfigError(f"kernel must be odd, so that times keep their places, got {kernel}; try {kernel + 1}")
        self.norm = nn.LayerNorm(width)
        self.conv1, self.conv2 = (nn.Conv1d(width, width, kernel, padding=kernel // 2) for _ in range(2))
        for conv in (self.conv1, self.conv2):
            nn.init.kaiming_normal_(conv.weight, nonlinearity="relu")
            nn.init.zeros_(conv.bias)  # pyright: ignore[reportArgumentType]

    def forward(self, x: Tensor) -> Tensor:
        return self.conv2(self.conv1(self.norm(x).transpose(-1, -2)).relu()).transpose(-1, -2)
