"""How a model grows while it trains: registered rules for the next size, steps and scheme."""

from collections.abc import Callable
from copy import deepcopy
from inspect import signature
from typing import NamedTuple, TypeVar
from warnings import catch_warnings, simplefilter

from torch import nn
from torch.optim import Optimizer

from anydepth.block.block import ContinuousBlock
from anydepth.depth.schemes import SCHEMES
from anydepth.errors import AnydepthWarning, ConfigError
from anydepth.registry import Registry, check_options
from anydepth.runs.config import RefineSettings
from anydepth.surgery.blocks import blocks_of
from anydepth.surgery.resize import refine, set_solver


class Growth(NamedTuple):
    """What a block becomes; None leaves the choice to `refine`: the next nested size, twice the steps."""

    size: int | None = None
    steps: int | None = None
    scheme: str | None = None


Rule = Callable[..., Growth]
"""rule(block, level, **options), where level counts the refinements from 0."""

RULES: Registry[Rule] = Registry("refinement rule")


@RULES.register("nested")
def nested(block: ContinuousBlock, level: int) -> Growth:
    """The next nested size, twice the steps."""
    return Growth()


@RULES.register("weights")
def weights(block: ContinuousBlock, level: int) -> Growth:
    """The next nested size, the same steps."""
    return Growth(steps=block.steps)


@RULES.register("steps")
def steps(block: ContinuousBlock, level: int) -> Growth:
    """The same weights, twice the steps."""
    return Growth(size=block.size)


@RULES.register("equal")
def equal(block: ContinuousBlock, level: int) -> Growth:
    """The next nested size, and as many steps as basis functions."""
    size = max(function.refined().size for function in block.functions.values())
    return Growth(steps=None if block.steps is None else size)


@RULES.register("listed")
def listed(
    block: ContinuousBlock,
    level: int,
    sizes: list[int] | None = None,
    steps: list[int] | None = None,
    schemes: list[str] | None = None,
) -> Growth:
    """Sizes, steps and schemes as given, one for every refinement; what is not given stays."""
    size = block.size if sizes is None else _entry("sizes", sizes, level, int)
    scheme = block.scheme.name if schemes is None else _entry("schemes", schemes, level, str)
    count = block.steps if steps is None else _entry("steps", steps, level, int)
    return Growth(size, None if SCHEMES[scheme].is_adaptive else count, scheme)


Value = TypeVar("Value", int, str)


def _entry(name: str, values: object, level: int, kind: type[Value]) -> Value:
    if not isinstance(values, list) or level >= len(values):
        raise ConfigError(f"refine.options.{name} needs an entry for refinement {level + 1}, got {values!r}")
    if not isinstance(values[level], kind) or isinstance(values[level], bool):
        raise ConfigError(f"refine.options.{name} must hold {kind.__name__} values, got {values[level]!r}")
    return values[level]


def check_rule(settings: RefineSettings, model: nn.Module) -> nn.Module:
    """Refuse, before training, what would fail in the middle of it: try every refinement on a copy, which is what the
    model grows to at most."""
    check_options(f"refinement rule {settings.rule!r}", RULES[settings.rule], settings.options, given=2)
    missing = [n for n, p in signature(RULES[settings.rule]).parameters.items() if p.default is p.empty][2:]
    for name in missing:
        if name not in settings.options:
            raise ConfigError(f"refinement rule {settings.rule!r} needs refine.options.{name}")
    trial = deepcopy(model) if settings.count else model
    if settings.count:
        with catch_warnings():
            simplefilter("ignore", AnydepthWarning)
            for level in range(settings.count):
                grow(trial, settings, level, None)
    return trial


def grow(model: nn.Module, settings: RefineSettings, level: int, optimizer: Optimizer | None) -> None:
    """Apply one refinement in place; the optimiser keeps its groups, and its moments unless they are reset."""
    rule = RULES[settings.rule]
    growths = {name: rule(block, level, **settings.options) for name, block in blocks_of(model).items()}
    before = {id(p) for p in model.parameters()}
    for name, growth in growths.items():
        if growth.scheme is not None:
            set_solver(model, scheme=growth.scheme, steps=growth.steps, where=name)
        refine(model, size=growth.size, steps=growth.steps, optimizer=optimizer, method=settings.method, where=name)
    if optimizer is not None and settings.moments == "reset":
        for parameter in model.parameters():
            if id(parameter) not in before:
                optimizer.state.pop(parameter, None)
