"""The network of the pendulum experiment."""

from typing import ClassVar

from torch import Tensor, nn

from anydepth.zoo.parts import UNITS


@UNITS.register("tanh_net")
class TanhNet(nn.Module):
    """A tanh(W x + b), without output bias (ContinuousNet eq 14)."""

    input_rank: ClassVar[int] = 2

    def __init__(self, dimensions: int = 2, hidden: int = 50):
        super().__init__()
        self.inner = nn.Linear(dimensions, hidden)
        self.out = nn.Linear(hidden, dimensions, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.inner(x).tanh())
