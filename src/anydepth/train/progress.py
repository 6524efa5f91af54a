"""Where a training is."""

from dataclasses import asdict, dataclass, field
from typing import Any

from anydepth.train.task import Tally


@dataclass
class Progress:
    """What changes while a model trains, besides the model and its optimiser."""

    step: int = 0
    """Optimiser steps done."""
    level: int = 0
    """Refinements done."""
    sums: Tally = field(default_factory=Tally)
    """Over the present epoch."""
    seconds: float = 0.0

    def describe(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def read(cls, values: dict[str, Any]) -> "Progress":
        return cls(int(values["step"]), int(values["level"]), Tally(**values["sums"]), float(values["seconds"]))


@dataclass(frozen=True)
class Status:
    """A training at one step, for whoever watches."""

    step: int
    total: int
    epoch: int
    loss: float
    metric: str
    value: float
    nfe: int
    depth: str
    parameters: int


class Watch:
    """Told of every step and of every line of metrics; this one looks away."""

    def step(self, status: Status) -> None: ...

    def event(self, line: dict[str, Any]) -> None: ...
