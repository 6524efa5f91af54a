"""Settings of the step controllers."""

from typing import Annotated, Literal

from pydantic import Field

from anydepth.json_values import JsonObject
from anydepth.runs.settings import Count, Settings

Steps = Annotated[int, Field(ge=1, le=16_384)]
Part = Annotated[float, Field(gt=0, lt=1)]
Width = Annotated[float, Field(gt=0, le=1)]


class NoControl(Settings):
    """The solver stays what the model's options say."""

    name: Literal["none"] = "none"


class Adaption(Settings):
    """The constants of Algorithm 1 of Ott et al. 2020."""

    every: Count = 50
    """Steps of the optimiser between checks."""
    threshold: Part = 0.1
    """Largest change of the accuracy by a more accurate solver; where there are no classes, relative change of the
    outputs."""
    shrink: Part = 0.5
    """Factor on the step after a failed check."""
    grow: Annotated[float, Field(gt=1, le=100)] = 1.1
    """Factor on the step after a check that passed."""


class PaperControl(Adaption):
    """Algorithm 1: one step size for all blocks."""

    name: Literal["paper"] = "paper"
    first: Width | None = None
    """Step at the start; None: by Hairer's rule."""
    check_steps: Steps = 50
    """The more accurate solver takes at least so many steps."""
    most_steps: Steps = 1000
    """Where shrinking ends."""


class ToleranceControl(Adaption):
    """Algorithm 1 with the tolerances of adaptive solvers in the place of the step."""

    name: Literal["paper_tolerance"] = "paper_tolerance"
    first: Width | None = None
    """Relative tolerance at the start; None: that of the model's options."""
    tighter: Part = 0.1
    """Factor on the tolerances of the more accurate solver."""
    tightest: Width = 1e-5
    """Where shrinking ends, as a relative tolerance."""


class SteadyControl(Settings):
    """A number of steps that is predicted from measured errors, and then kept."""

    name: Literal["steady"] = "steady"
    every: Count = 50
    """Steps of the optimiser between checks at first; the time between them doubles while they pass."""
    rough: Part = 0.15
    """Error that is allowed while the model learns, until `settle`: the probability that moves to other classes; where
    there are no classes, relative error of the outputs."""
    settle: Part = 0.96
    """Share of the training after which the predictions count."""
    limit: Part = 0.04
    """Share of predictions that a more accurate solver may change from then on, as in a verdict; where there are no
    classes, relative error of the outputs."""
    examples: Count = 512
    """Training examples that the checks look at, always the same."""
    least_steps: Steps = 12
    """Never take fewer with Euler's method, and with a method of order p the p-th root of it: what a model learns with
    very large steps may be far from anything that small ones can do."""
    most_steps: Steps = 1000
    """Never take more."""


class OwnControl(Settings):
    """A registered controller of someone else's."""

    name: Literal["own"] = "own"
    controller: str
    """Its name."""
    options: JsonObject = Field(default_factory=dict)
    """What it is made with."""


ControlSettings = NoControl | PaperControl | ToleranceControl | SteadyControl | OwnControl
