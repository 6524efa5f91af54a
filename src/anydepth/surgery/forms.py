"""What form a model has: basis, size, steps and scheme; and the same model in another form."""

from dataclasses import dataclass

from torch import nn

from anydepth.surgery.blocks import blocks_of
from anydepth.surgery.resize import compress

MIXED = "mixed"
"""The name for the basis of a model that has several."""


@dataclass(frozen=True)
class Form:
    """A form of a model. Where blocks differ, size and steps are what no block may exceed."""

    basis: str
    size: int
    steps: int | None
    """None: an adaptive scheme, which chooses its own; of the source only."""
    scheme: str

    def __str__(self) -> str:
        steps = "" if self.steps is None else f" x {self.steps}"
        return f"{self.basis}:{self.size}, {self.scheme}{steps}"


def form_of(model: nn.Module) -> Form:
    """The form that a model has."""
    blocks = blocks_of(model).values()
    schemes = {block.scheme.name for block in blocks}
    steps = max((block.steps for block in blocks if block.steps is not None), default=None)
    scheme = schemes.pop() if len(schemes) == 1 else MIXED
    return Form(own_basis(model), max(block.size for block in blocks), steps, scheme)


def in_form(model: nn.Module, candidate: Form) -> nn.Module:
    """A new model in another form, by projection: no data, no retraining."""
    own = form_of(model)
    is_same = candidate.basis == own.basis and candidate.size == own.size
    scheme = None if candidate.scheme in (MIXED, own.scheme) else candidate.scheme
    return compress(
        model,
        basis=None if is_same or candidate.basis == MIXED else candidate.basis,
        size=None if is_same else _sizes(model, candidate.size),
        steps=None if candidate.steps in (None, own.steps) else _steps(model, candidate.steps),
        scheme=scheme,
    )


def _sizes(model: nn.Module, size: int) -> int | dict[str, dict[str, int]]:
    own = {function.size for block in blocks_of(model).values() for function in block.functions.values()}
    return size if len(own) == 1 else sizes_up_to(model, size)


def _steps(model: nn.Module, steps: int | None) -> int | dict[str, int] | None:
    own = {name: block.steps for name, block in blocks_of(model).items()}
    if len(set(own.values())) == 1 or steps is None:
        return steps
    return {name: min(steps, count or steps) for name, count in own.items()}


def own_basis(model: nn.Module) -> str:
    """The basis of all weights, if it is one."""
    told = (f.describe() for block in blocks_of(model).values() for f in block.functions.values())
    names = {str(description.get("basis", MIXED)) for description in told}
    return names.pop() if len(names) == 1 else MIXED


def sizes_up_to(model: nn.Module, size: int) -> dict[str, dict[str, int]]:
    """For `compress`: no tensor grows by it, those that are smaller than the size stay as large as they are."""
    return {
        name: {tensor: min(size, function.size) for tensor, function in block.functions.items()}
        for name, block in blocks_of(model).items()
    }
