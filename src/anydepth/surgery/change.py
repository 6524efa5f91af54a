"""A record of what an operation did to a block."""

from dataclasses import asdict, dataclass
from math import isfinite

from torch import nn

from anydepth.block.block import ContinuousBlock
from anydepth.block.passes import Kind
from anydepth.json_values import JsonObject
from anydepth.surgery.blocks import blocks_of
from anydepth.weights.protocol import Move


@dataclass(frozen=True)
class Form:
    """What a block is at one moment: its functions, solver and size."""

    weights: str
    solver: str
    parameters: int
    state: int

    @classmethod
    def of(cls, block: ContinuousBlock) -> "Form":
        weights = " + ".join(sorted({str(function) for function in block.functions.values()}))
        return cls(weights or "none", str(block.solver), *block.counts())

    @classmethod
    def read(cls, described: JsonObject) -> "Form":
        return cls(
            str(described["weights"]),
            str(described["solver"]),
            int(described["parameters"]),
            int(described["state"]),
        )

    def __str__(self) -> str:
        return f"{self.weights}, {self.solver}, {self.parameters:,} parameters"


@dataclass(frozen=True)
class Change:
    """One operation on one block; `errors` is the relative L2 change over depth of each tensor.

    For positive state, which is kept in the logarithm, it is the change of the logarithm.
    """

    operation: str
    before: Form
    after: Form
    errors: dict[str, float]

    @property
    def largest_error(self) -> float:
        """The largest relative change of any tensor."""
        return max(self.errors.values(), default=0.0)

    def __str__(self) -> str:
        worst = max(self.errors, key=lambda name: self.errors[name], default=None)
        moved = "" if worst is None else f"; largest relative change {self.errors[worst]:.2e} in {worst}"
        return f"{self.operation}: {self.before} -> {self.after}{moved}"

    def describe(self) -> JsonObject:
        """JSON values; an error that is not finite (such as NaN) becomes null."""
        finite = {name: error if isfinite(error) else None for name, error in self.errors.items()}
        return asdict(self) | {"errors": finite}

    @classmethod
    def read(cls, described: JsonObject) -> "Change":
        """The change that `describe` wrote down."""
        before, after = (Form.read(described[key]) for key in ("before", "after"))
        errors = {str(k): float("nan") if v is None else float(v) for k, v in described["errors"].items()}
        return cls(str(described["operation"]), before, after, errors)


def relative_error(block: ContinuousBlock, name: str, move: Move) -> float:
    """How much moving a tensor would change it, before it is moved; of tensors without numbers, not a number."""
    if block.stored(name).is_meta:
        return float("nan")
    gap, size = move.error(*block.held(name))
    if block.lifted[name].kind is Kind.POSITIVE:
        return gap
    return gap / size if size > 0 else gap


def history(model: nn.Module) -> dict[str, tuple[Change, ...]]:
    """What was done to each block of a model, in order."""
    return {name: block.history for name, block in blocks_of(model).items()}
