"""The vector field on vectors of Ott et al. 2020, app. A.3."""

from typing import ClassVar

from torch import Tensor, nn

from anydepth.zoo.parts import UNITS


@UNITS.register("vector_conv_field")
class VectorConvField(nn.Module):
    """A vector as one channel: Conv1d 1, ReLU, Conv1d 3, ReLU, Conv1d 1; Kaiming fan-in, zero biases."""

    input_rank: ClassVar[int] = 2

    def __init__(self, dimensions: int, hidden: int = 32):
        super().__init__()
        self.dimensions = dimensions
        self.conv1 = nn.Conv1d(1, hidden, 1)
        self.conv2 = nn.Conv1d(hidden, hidden, 3, padding=1)
        self.conv3 = nn.Conv1d(hidden, 1, 1)
        for conv in (self.conv1, self.conv2, self.conv3):
            nn.init.kaiming_normal_(conv.weight, nonlinearity="relu")
            nn.init.zeros_(conv.bias)  # pyright: ignore[reportArgumentType]

    def forward(self, x: Tensor) -> Tensor:
        return self.conv3(self.conv2(self.conv1(x.unsqueeze(-2)).relu()).relu()).squeeze(-2)
