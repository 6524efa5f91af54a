"""A flow on vectors: one continuous block, and a linear classifier if there are classes."""

from typing import Any

from torch import Tensor, nn

from anydepth.errors import ConfigError
from anydepth.nn.block import ContinuousBlock
from anydepth.nn.parts import MODELS, UNITS


@MODELS.register("flow")
class Flow(nn.Module):
    """A continuous block on the input itself, then a linear classifier; without classes, the block alone.

    Args:
        features: length of the input vectors.
        classes: outputs of the classifier; None: the state at depth 1 is the output.
        unit, options: the vector field by its registered name, and its options.
        The rest: of the block; adaptive schemes take rtol and atol instead of steps.
    """

    def __init__(
        self,
        features: int = 2,
        classes: int | None = None,
        unit: str = "mlp",
        options: dict[str, Any] | None = None,
        basis: str = "constant",
        size: int = 1,
        scheme: str = "rk4",
        steps: int | None = None,
        rtol: float | None = None,
        atol: float | None = None,
        scale: float = 1.0,
    ):
        super().__init__()
        self.config = {key: value for key, value in locals().items() if key not in ("self", "__class__")}
        for name, value in (("features", features), ("classes", 1 if classes is None else classes)):
            if not isinstance(value, int) or value < 1:
                raise ConfigError(f"{name} must be a whole number above 0, got {value!r}")
        make_unit, chosen = UNITS[unit], options or {}
        self.block = ContinuousBlock(
            lambda: make_unit(features, **chosen),
            basis,
            size,
            scheme=scheme,
            steps=steps,
            rtol=rtol,
            atol=atol,
            scale=scale,
            name="block",
        )
        self.classifier = nn.Identity() if classes is None else nn.Linear(features, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.block(x))
