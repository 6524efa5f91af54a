"""Where a training is."""

from dataclasses import asdict, dataclass, field
from typing import Any

from anydepth.measure.evaluation import Tally


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
    evaluations: int = 0
    """Of all units, in all forward passes of the training, those of checks included; validation does not count."""
    check_evaluations: int = 0
    """Those that a step controller needed for its checks."""
    checks: int = 0
    """Comparisons with a more accurate solver."""
    failed_checks: int = 0
    changes: int = 0
    """Of the solver, by its controller."""
    stalled_at: list[int] = field(default_factory=list)
    """Steps before which the model grows because its validation loss stalls."""
    best_loss: float | None = None
    """The lowest validation loss since the model grew, where it grows when that stalls."""
    waited: int = 0
    """Validations since then that were no better."""
    memory: dict[str, Any] = field(default_factory=dict)
    """What the step controller remembers, in JSON values."""

    def describe(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def read(cls, values: dict[str, Any]) -> "Progress":
        return cls(**{**values, "sums": Tally(**values["sums"])})

    def accounts(self, is_controlled: bool) -> dict[str, int]:
        """Evaluations so far; of a controlled training also what control took and did."""
        if not is_controlled:
            return {"evaluations": self.evaluations}
        names = ("evaluations", "check_evaluations", "checks", "failed_checks", "changes")
        return {name: getattr(self, name) for name in names}


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
    """Told of the data, of every step and of every line of metrics; this one looks away."""

    def begin(self, about: str) -> None: ...

    def step(self, status: Status) -> None: ...

    def event(self, line: dict[str, Any]) -> None: ...
