"""The controllers by name, and what they cannot control."""

from collections.abc import Callable
from typing import Any

from torch import nn

from anydepth.errors import ConfigError
from anydepth.train.config import RunConfig
from anydepth.train.control.controller import Controller
from anydepth.train.control.paper import Paper
from anydepth.train.control.paper_tolerance import PaperTolerance
from anydepth.train.control.probe import solvers_of
from anydepth.train.control.settings import ControlSettings
from anydepth.train.control.steady import Steady

CONTROLLERS: dict[str, Callable[[Any], Controller]] = {
    "paper": Paper,
    "paper_tolerance": PaperTolerance,
    "steady": Steady,
}


def make_controller(settings: ControlSettings) -> Controller | None:
    """The controller that is asked for; None: the solver stays what it is."""
    return None if settings.name == "none" else CONTROLLERS[settings.name](settings)


def check_control(config: RunConfig, model: nn.Module) -> None:
    """Refuse, before training, what a controller cannot do."""
    controller = make_controller(config.control)
    if controller is None:
        return
    controller.refuse(solvers_of(model))
    if config.refine.at and config.refine.rule != "weights":
        raise ConfigError(
            f"control {config.control.name!r} chooses the steps, but refine.rule {config.refine.rule!r} would change "
            "them too; use refine.rule=weights, or control.name=none"
        )
