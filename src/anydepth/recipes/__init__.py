"""Recipes: functions that return a RunConfig, found by name."""

from collections.abc import Callable

from anydepth.registry import Registry
from anydepth.runs.config import RunConfig

RECIPES: Registry[Callable[[], RunConfig]] = Registry("recipe", package="anydepth.recipes")
"""Recipes by name."""
