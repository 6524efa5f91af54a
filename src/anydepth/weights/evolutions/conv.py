"""A small convolutional block on a kernel's pixels."""

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn

from anydepth.errors import ConfigError
from anydepth.weights.evolutions import EVOLUTIONS, Evolution

LAYERS: dict[int, type[nn.Conv1d] | type[nn.Conv2d] | type[nn.Conv3d]] = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
"""By the number of spatial axes."""


@EVOLUTIONS.register("conv")
class ConvolutionalBlock(Evolution):
    """dw/dt = conv(tanh(... conv(w))), zeros beyond the edge; its last layer starts at zero, so that q = 0 at first.

    A filter is an image whose channels are the kernel's inputs; one block serves all filters (ANODEV2 sec 2.1).

    Args:
        hidden: channels of its hidden layers.
        layers: how many hidden layers; 0: one linear convolution.
        kernel: its own taps along every axis, an odd number.
        mix: whether it mixes the inputs of a filter; else every plane is an image of one channel.
    """

    def __init__(self, shape: Sequence[int], hidden: int = 8, layers: int = 1, kernel: int = 3, mix: bool = True):
        super().__init__(shape)
        if len(self.shape) - 2 not in LAYERS:
            raise ConfigError(
                f"a convolutional block needs a kernel with one to three spatial axes, got shape {self.shape}; "
                "give it the evolution 'linear' or 'network', or a basis"
            )
        _check(hidden, layers, kernel)
        self.channels = self.shape[1] if mix else 1
        make = LAYERS[len(self.space)]
        widths = [self.channels, *[hidden] * layers]
        inner = [part for a, b in pairwise(widths) for part in (make(a, b, kernel, padding="same"), nn.Tanh())]
        last = make(widths[-1], self.channels, kernel, padding="same")
        nn.init.zeros_(last.weight)
        if last.bias is not None:
            nn.init.zeros_(last.bias)
        self.net = nn.Sequential(*inner, last)

    def forward(self, w: Tensor) -> Tensor:
        return self.net(w.reshape(-1, self.channels, *self.space)).view(w.shape)


def _check(hidden: int, layers: int, kernel: int) -> None:
    if type(hidden) is not int or not 1 <= hidden <= 4096 or type(layers) is not int or not 0 <= layers <= 64:
        raise ConfigError(f"hidden must be 1 to 4096 and layers 0 to 64, got {hidden!r} and {layers!r}")
    if type(kernel) is not int or kernel % 2 == 0 or not 1 <= kernel <= 63:
        raise ConfigError(f"kernel must be an odd number of taps up to 63, got {kernel!r}")
