"""The grouped ("aggregated") residual unit."""

from typing import ClassVar

from anydepth.block.paths import LISTED
from anydepth.zoo.parts import UNITS
from anydepth.zoo.units.bottleneck import Bottleneck


@UNITS.register("grouped_conv")
class GroupedConv(Bottleneck):
    """A bottleneck of half the width whose 3 x 3 convolution works in groups."""

    input_rank: ClassVar[int] = 4

    def __init__(self, channels: int, groups: int = 2, bias: bool = False, normalise: bool = True):
        super().__init__(channels, reduction=2, groups=groups, bias=bias, normalise=normalise)


LISTED[GroupedConv] = LISTED[Bottleneck]
