"""The networks of ANODEV2: small post-activation ResNets, and AlexNet with a residual connection."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from torch import Tensor, nn

from anydepth.block.block import ContinuousBlock
from anydepth.errors import ConfigError, choices
from anydepth.weights.choose import block_weights
from anydepth.zoo.layers import conv1x1, conv3x3, he_initialised
from anydepth.zoo.parts import MODELS
from anydepth.zoo.units.postact_conv import PostactConv
from anydepth_papers.units.conv_norm import ConvNorm

LAYOUTS = {"resnet4": 1, "resnet10": 3, "alexnet": 1}
"""How many blocks each has."""
PLAIN: dict[str, Any] = {"basis": "constant", "size": 1, "scheme": "euler", "steps": 1}
"""A residual unit as a block."""


class Widening(nn.Module):
    """The residual unit between widths: half the image, twice the channels, 1 x 1 convolution and BN as its skip."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.conv1, self.bn1 = conv3x3(inputs, outputs, stride=2), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = conv3x3(outputs, outputs), nn.BatchNorm2d(outputs)
        self.skip = nn.Sequential(conv1x1(inputs, outputs, stride=2), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        inner = self.bn1(self.conv1(x)).relu()
        return self.skip(x) + self.bn2(self.conv2(inner)).relu()


@MODELS.register("anode")
class AnodeNetwork(nn.Module):
    """ResNet-4, ResNet-10 or AlexNet with continuous blocks in the place of residual units (ANODEV2, appendix B).

    With one Euler step and one set of weights they are the paper's baselines of 7,706, 44,186 and 1,756,682 parameters.

    Args:
        layout: resnet4, resnet10 or alexnet.
        width: channels of the first layer; None: 16, and 64 for AlexNet.
        image: (channels, height, width) of the input.
        weights: instead of basis and size, functions by tensor name of the unit, as in ContinuousBlock.
        init: "independent" initial weights at every depth, or "shared" ones.
        blocks: places, from 0, of the blocks that get these options; the others stay plain residual units. None: all.
        The rest: of every such block; `steps` by default as many as the largest size.
    """

    def __init__(
        self,
        layout: str = "resnet4",
        classes: int = 10,
        image: Sequence[int] = (3, 32, 32),
        width: int | None = None,
        basis: str = "constant",
        size: int = 1,
        scheme: str = "euler",
        steps: int | None = None,
        scale: float = 1.0,
        weights: dict[str, Any] | None = None,
        init: str = "independent",
        blocks: Sequence[int] | None = None,
    ):
        super().__init__()
        self.config = {key: value for key, value in locals().items() if key not in ("self", "__class__")}
        if layout not in LAYOUTS:
            raise ConfigError(f"unknown layout {layout!r}; {choices(layout, LAYOUTS)}")
        first = width or (64 if layout == "alexnet" else 16)
        halvings = {"resnet4": 3, "resnet10": 4, "alexnet": 2}[layout]
        if len(image) != 3 or min(image[1:]) < 2**halvings:
            raise ConfigError(f"image must be (channels, height, width) of at least {2**halvings} pixels, got {image}")
        area = (image[1] >> halvings) * (image[2] >> halvings)
        chosen = block_weights(basis, size, weights) | {"scheme": scheme, "steps": steps, "scale": scale, "init": init}
        options = _by_place(layout, blocks, chosen)
        make = self._alexnet if layout == "alexnet" else self._resnet
        self.layers, self.classifier = make(image[0], first, area, classes, options)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.layers(x).flatten(1))

    @staticmethod
    def _block(unit: type[nn.Module], channels: int, chosen: dict[str, Any]) -> ContinuousBlock:
        return ContinuousBlock(partial(unit, channels), name=f"{unit.__name__} of {channels} channels", **chosen)

    def _resnet(
        self, inputs: int, width: int, area: int, classes: int, options: list[dict[str, Any]]
    ) -> tuple[nn.Module, nn.Module]:
        layers = [conv3x3(inputs, width), nn.BatchNorm2d(width), nn.ReLU(), self._block(PostactConv, width, options[0])]
        last = width
        if len(options) > 1:
            last = 2 * width
            wide = self._block(PostactConv, last, options[2])
            layers += [self._block(PostactConv, width, options[1]), Widening(width, last), wide]
        return nn.Sequential(*layers, nn.AvgPool2d(8)), nn.Linear(last * area, classes)

    def _alexnet(
        self, inputs: int, width: int, area: int, classes: int, options: list[dict[str, Any]]
    ) -> tuple[nn.Module, nn.Module]:
        first = he_initialised(nn.Conv2d(inputs, width, 5, padding=2))
        block = self._block(ConvNorm, width, options[0])
        layers = (first, nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2), block, nn.MaxPool2d(2))
        dense = (nn.Linear(width * area, 384), nn.ReLU(), nn.Linear(384, 192), nn.ReLU(), nn.Linear(192, classes))
        return nn.Sequential(*layers), nn.Sequential(*dense)


def _by_place(layout: str, blocks: Sequence[int] | None, chosen: dict[str, Any]) -> list[dict[str, Any]]:
    """The options of every block of a layout."""
    count = LAYOUTS[layout]
    if blocks is None:
        return [chosen] * count
    places = list(blocks) if isinstance(blocks, (list, tuple)) else []
    if not places or not all(type(place) is int and 0 <= place < count for place in places):
        raise ConfigError(f"blocks of {layout} are a list of places from 0 to {count - 1}, got {blocks!r:.80}")
    return [chosen if place in places else PLAIN for place in range(count)]
