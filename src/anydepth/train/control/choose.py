"""The controllers by name, and what they cannot control."""

from collections.abc import Callable

from torch import nn

from anydepth.errors import ConfigError
from anydepth.registry import Registry, check_options
from anydepth.train.config import RunConfig
from anydepth.train.control.controller import Controller
from anydepth.train.control.paper import Paper
from anydepth.train.control.paper_tolerance import PaperTolerance
from anydepth.train.control.probe import solvers_of
from anydepth.train.control.settings import ControlSettings, NoControl, OwnControl
from anydepth.train.control.steady import Steady

CONTROLLERS: Registry[Callable[..., Controller]] = Registry("controller")
"""Controllers by name. Those of anydepth are made with their settings, others with `control.options` by keyword."""
_OURS = {"paper": Paper, "paper_tolerance": PaperTolerance, "steady": Steady}
for _name, _controller in _OURS.items():
    CONTROLLERS.add(_name, _controller)


def make_controller(settings: ControlSettings) -> Controller | None:
    """The controller that is asked for; None: the solver stays what it is."""
    if isinstance(settings, NoControl):
        return None
    if not isinstance(settings, OwnControl):
        return _OURS[settings.name](settings)  # pyright: ignore[reportArgumentType]
    make = CONTROLLERS[settings.controller]
    if settings.controller in _OURS:
        raise ConfigError(f"controller {settings.controller!r} is ours; use control.name={settings.controller}")
    check_options(f"controller {settings.controller!r}", make, settings.options)
    return make(**settings.options)


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
