"""Registered units and models, and building a model from its name and config."""

from collections.abc import Mapping
from typing import Unpack

from torch import nn

from anydepth.block.block import ContinuousBlock
from anydepth.errors import AnydepthError, ConfigError
from anydepth.registry import Registry, check_options
from anydepth.solve.solver import StepSettings
from anydepth.weights.choose import Weights

UNITS: Registry[type[nn.Module]] = Registry("unit", package="anydepth.zoo.units")
"""Units by name. A unit is made by unit(width, **options) and keeps the shape of x, of rank `input_rank`."""

MODELS: Registry[type[nn.Module]] = Registry("model", package="anydepth.zoo.models")
"""Models by name. A model keeps the arguments that made it, as JSON values, in `config`."""


def build(name: str, **config: object) -> nn.Module:
    """The registered model `name` made with `config`."""
    check_options(f"model {name!r}", MODELS[name], config)
    try:
        return MODELS[name](**config)
    except AnydepthError:
        raise
    except (TypeError, ValueError, RuntimeError, ArithmeticError, MemoryError, LookupError) as error:
        raise ConfigError(f"model {name!r} does not take this config: {error}") from error


def single_block(
    unit: str,
    width: int,
    options: Mapping[str, object] | None,
    weights: Weights,
    scheme: str,
    scale: float,
    **steps: Unpack[StepSettings],
) -> ContinuousBlock:
    """The block of a model that has one: a registered unit with its options."""
    make_unit, chosen = UNITS[unit], options or {}
    return ContinuousBlock(
        lambda: make_unit(width, **chosen), scheme=scheme, scale=scale, name="block", **steps, **weights
    )


def architecture_of(model: nn.Module) -> dict[str, object] | None:
    """What `build` needs to make this model again, if it is a registered one."""
    for name in MODELS:
        if type(model) is MODELS[name]:
            return {"model": name, "config": model.config}
    return None
