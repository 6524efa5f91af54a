"""The image network of ContinuousNet (Fig 6) and Stateful ODE-Nets (Tables 6-8)."""

from collections.abc import Sequence
from functools import partial

from torch import Tensor, nn

from anydepth.block.block import ContinuousBlock
from anydepth.errors import ConfigError
from anydepth.weights.choose import Choice, block_weights
from anydepth.zoo.layers import conv3x3, norm
from anydepth.zoo.parts import MODELS, UNITS
from anydepth.zoo.stitch import Stitch


@MODELS.register("image")
class ImageNetwork(nn.Module):
    """Stem, continuous blocks of growing width joined by stitches, average pool, classifier.

    Args:
        channels: width of each block; every block after the first halves the image.
        image: (channels, height, width) of the input.
        unit, options: the residual unit by its registered name, and its options.
        first_stitch: put a stitch of stride 1 before the first block.
        pool: window of the average pool; None: the whole image, whatever its size.
        stitch_scale, stitch_skip_init: of the stitches.
        weights: instead of basis and size, functions by tensor name of the unit, as in ContinuousBlock.
        init: "independent" initial weights at every depth, or "shared" ones.
        The rest: of every block; `steps` by default as many as `size`.
    """

    def __init__(
        self,
        channels: Sequence[int] = (16, 32, 64),
        classes: int = 10,
        image: Sequence[int] = (3, 32, 32),
        unit: str = "preact_conv",
        options: dict[str, object] | None = None,
        basis: str = "constant",
        size: int = 1,
        scheme: str = "rk4",
        steps: int | None = None,
        scale: float = 1.0,
        first_stitch: bool = True,
        stitch_scale: float = 1.0,
        stitch_skip_init: bool = False,
        normalise: bool = True,
        pool: int | None = 8,
        weights: dict[str, Choice] | None = None,
        init: str = "independent",
    ):
        super().__init__()
        self.config = {key: value for key, value in locals().items() if key not in ("self", "__class__")}
        options = {"normalise": normalise, **(options or {})}
        make_unit, chosen = UNITS[unit], block_weights(basis, size, weights)
        height, width = pooled_size(channels, image, pool, classes)
        self.stem = nn.Sequential(conv3x3(image[0], channels[0]), norm(channels[0], normalise))
        self.stitches, self.blocks = nn.ModuleList(), nn.ModuleList()
        for i, after in enumerate(channels):
            before = channels[max(i - 1, 0)]
            stitch = Stitch(before, after, 2 if i else 1, stitch_scale, stitch_skip_init, normalise)
            self.stitches.append(stitch if i or first_stitch else nn.Identity())
            factory = partial(make_unit, after, **options)
            self.blocks.append(
                ContinuousBlock(
                    factory, scheme=scheme, steps=steps, scale=scale, init=init, name=f"blocks.{i}", **chosen
                )
            )
        self.norm = norm(channels[-1], normalise)
        self.pool = nn.AdaptiveAvgPool2d(1) if pool is None else nn.AvgPool2d(pool)
        self.classifier = nn.Linear(channels[-1] * height * width, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for stitch, block in zip(self.stitches, self.blocks, strict=True):
            x = block(stitch(x))
        return self.classifier(self.pool(self.norm(x).relu()).flatten(1))


def pooled_size(channels: Sequence[int], image: Sequence[int], pool: int | None, classes: int) -> tuple[int, int]:
    """Height and width of what the classifier sees; sizes that make no network are refused."""
    sizes = {"channels": channels, "image": image, "pool": [1 if pool is None else pool], "classes": [classes]}
    for name, values in sizes.items():
        if not values or not all(isinstance(value, int) and value > 0 for value in values):
            raise ConfigError(f"{name} must be whole numbers above 0, got {values}")
    if len(image) != 3:
        raise ConfigError(f"image must be (channels, height, width), got {tuple(image)}")
    shrink = 2 ** (len(channels) - 1) * (pool or 1)
    if min(image[1:]) < shrink:
        raise ConfigError(f"{len(channels)} blocks and a pool of {pool} leave nothing of an image of {tuple(image)}")
    if pool is None:
        return 1, 1
    return image[1] // shrink, image[2] // shrink
