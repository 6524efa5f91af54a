"""A flow on vectors or images: one continuous block, and a linear classifier if there are classes."""

from collections.abc import Sequence
from math import prod

from torch import Tensor, nn

from anydepth.errors import ConfigError
from anydepth.weights.choose import Choice, block_weights
from anydepth.zoo.parts import MODELS, single_block


@MODELS.register("flow")
class Flow(nn.Module):
    """A continuous block on the input itself, then a linear classifier; without classes, the block alone.

    Args:
        features: length of the input vectors.
        image: instead, (channels, height, width) of input images, whose end state is flattened for the classifier.
        classes: outputs of the classifier; None: the state at depth 1 is the output.
        unit, options: the vector field by its registered name, and its options.
        weights: instead of basis and size, functions by tensor name of the unit, as in ContinuousBlock.
        The rest: of the block; adaptive schemes take rtol and atol instead of steps.
    """

    def __init__(
        self,
        features: int = 2,
        classes: int | None = None,
        unit: str = "mlp",
        options: dict[str, object] | None = None,
        basis: str = "constant",
        size: int = 1,
        scheme: str = "rk4",
        steps: int | None = None,
        rtol: float | None = None,
        atol: float | None = None,
        scale: float = 1.0,
        image: Sequence[int] | None = None,
        weights: dict[str, Choice] | None = None,
    ):
        super().__init__()
        self.config = {key: value for key, value in locals().items() if key not in ("self", "__class__")}
        sizes = {"features": [features], "classes": [1 if classes is None else classes], "image": image or [1] * 3}
        for name, values in sizes.items():
            if not all(isinstance(value, int) and value > 0 for value in values):
                raise ConfigError(f"{name} must be a whole number above 0, got {values}")
        if len(sizes["image"]) != 3:
            raise ConfigError(f"image must be (channels, height, width), got {image}")
        width = image[0] if image else features
        chosen = block_weights(basis, size, weights)
        self.block = single_block(unit, width, options, chosen, scheme, scale, steps=steps, rtol=rtol, atol=atol)
        self.classifier = nn.Identity() if classes is None else nn.Linear(prod(image or [features]), classes)

    def forward(self, x: Tensor) -> Tensor:
        y = self.block(x)
        return self.classifier(y.flatten(1) if self.config["image"] and self.config["classes"] else y)
