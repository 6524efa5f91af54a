"""The form of a model in four words."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Candidate:
    """A form of a model. Where blocks differ, size and steps are what no block may exceed."""

    basis: str
    size: int
    steps: int | None
    """None: an adaptive scheme, which chooses its own; of the source only."""
    scheme: str

    def __str__(self) -> str:
        steps = "" if self.steps is None else f" x {self.steps}"
        return f"{self.basis}:{self.size}, {self.scheme}{steps}"
