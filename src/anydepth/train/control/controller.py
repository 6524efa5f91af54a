"""What a step controller is, the controllers by name, and what they cannot control."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import isfinite
from typing import NamedTuple, Protocol, get_args

from torch import nn

from anydepth.errors import ConfigError
from anydepth.registry import Registry, check_options
from anydepth.runs.config import RunConfig
from anydepth.runs.control import ControlSettings, NoControl, OwnControl
from anydepth.solve.solver import Solver
from anydepth.train.control.probe import Probe, solvers_of

Solvers = dict[str, Solver]
"""The solver of every block, by its name."""


class Clock(NamedTuple):
    """Where a training is: steps of the optimiser done, and of the whole."""

    step: int
    total: int


@dataclass(frozen=True)
class Decision:
    """What came of a check: the solvers from now on, and why."""

    event: str
    """start, keep, grow or shrink (of the step or the tolerance), or revert (a growth that was taken back)."""
    solvers: Solvers
    tests: tuple[bool, ...] = ()
    """Comparisons with a more accurate solver that were made, and whether each of them passed."""
    measured: dict[str, float | None] = field(default_factory=dict)
    memory: dict[str, object] = field(default_factory=dict)
    """JSON values that the controller is given back next time."""


class Controller(Protocol):
    """Chooses solvers; a pure function of what it is given, so that a resumed training decides alike."""

    examples: int | None
    """How many training examples it looks at, always the same; None: the batch that is trained on next."""

    def refuse(self, solvers: Solvers) -> None:
        """Raise a ConfigError if such solvers cannot be controlled."""
        ...

    def start(self, probe: Probe) -> Decision:
        """Before the first step."""
        ...

    def recall(self, memory: dict[str, object]) -> object:
        """What a memory says; a ValueError if it cannot be one of this controller."""
        ...

    def is_due(self, clock: Clock, memory: dict[str, object]) -> bool:
        """Whether to check before the step that follows; after the last one, only what has examples of its own may."""
        ...

    def check(self, probe: Probe, clock: Clock, memory: dict[str, object]) -> Decision: ...


CONTROLLERS: Registry[Callable[..., Controller]] = Registry("step controller", package="anydepth.train.control")
"""Controllers by name. Those of anydepth are made from their settings, others from `control.options` by keyword."""


def make_controller(settings: ControlSettings) -> Controller | None:
    """The controller that is asked for; None: the solver stays what it is."""
    if isinstance(settings, NoControl):
        return None
    if not isinstance(settings, OwnControl):
        return CONTROLLERS[settings.name](settings)
    name = settings.controller
    make = CONTROLLERS[name]
    if any(name == kind.model_fields["name"].default for kind in get_args(ControlSettings)):
        raise ConfigError(f"{CONTROLLERS.kind} {name!r} is built in and has its own settings; use control.name={name}")
    check_options(f"{CONTROLLERS.kind} {name!r}", make, settings.options)
    return make(**settings.options)


def check_control(config: RunConfig, model: nn.Module) -> None:
    """Refuse, before training, what a controller cannot do."""
    controller = make_controller(config.control)
    if controller is None:
        return
    controller.refuse(solvers_of(model))
    if config.refine.count and config.refine.rule != "weights":
        raise ConfigError(
            f"control {config.control.name!r} chooses the steps, but refine.rule {config.refine.rule!r} would change "
            "them too; use refine.rule=weights, or control.name=none"
        )


def known(**measured: float) -> dict[str, float | None]:
    """Measurements as JSON values: what is not a finite number is null."""
    return {name: value if isfinite(value) else None for name, value in measured.items()}
