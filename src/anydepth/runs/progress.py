"""Where a training is."""

from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from anydepth.measure.evaluation import Tally
from anydepth.runs.settings import Count, NotNegative, Whole


@dataclass
class Progress:
    """What changes while a model trains, besides the model and its optimiser."""

    step: Whole = 0
    """Optimiser steps done."""
    level: Annotated[int, Field(ge=0, le=10_000)] = 0
    """Refinements done."""
    sums: Tally = field(default_factory=Tally)
    """Over the present epoch."""
    seconds: NotNegative = 0.0
    evaluations: Whole = 0
    """Of all units, in all forward passes of the training, those of checks included; validation does not count."""
    check_evaluations: Whole = 0
    """Those that a step controller needed for its checks."""
    checks: Whole = 0
    """Comparisons with a more accurate solver."""
    failed_checks: Whole = 0
    changes: Whole = 0
    """Of the solver, by its controller."""
    stalled_at: Annotated[list[Count], Field(max_length=10_000)] = field(default_factory=list)
    """Steps before which the model grows because its validation loss stalls."""
    best_loss: float | None = None
    """The lowest validation loss since the model grew, where it grows when that stalls."""
    waited: Whole = 0
    """Validations since then that were no better."""
    memory: dict[str, object] = field(default_factory=dict)
    """What the step controller remembers, in JSON values."""

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

    def event(self, line: dict[str, object]) -> None: ...
