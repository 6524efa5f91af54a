"""Which path a pass takes: the first of the faster ones that can, else the general one."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, partial

import torch

from anydepth.block.general import GENERAL, solve
from anydepth.block.passes import Outcome, Pass, Ready
from anydepth.registry import Registry
from anydepth.solve.tensors import State, is_transformed

Attempt = Callable[[Pass, State], Ready | str]
"""A pass made ready to run, or the reason why this path cannot take it."""

PATHS: Registry[Attempt] = Registry("path", package="anydepth.fast")
"""The faster paths by name."""

_SWITCH: ContextVar[bool] = ContextVar("fast_paths", default=os.environ.get("ANYDEPTH_FAST", "1") != "0")


@contextmanager
def fast_paths(enabled: bool) -> Iterator[None]:
    """Allow or forbid the faster paths inside, in this thread; ANYDEPTH_FAST=0 forbids them from the start."""
    token = _SWITCH.set(enabled)
    try:
        yield
    finally:
        _SWITCH.reset(token)


@cache
def _attempts() -> tuple[tuple[str, Attempt], ...]:
    try:
        return tuple((name, PATHS[name]) for name in PATHS)
    except ModuleNotFoundError:  # the package of faster paths was taken away
        return ()


@dataclass(frozen=True)
class Route:
    """The path that a pass takes, ready to run, and why each faster one could not take it."""

    name: str
    ready: Ready
    refused: Mapping[str, str]

    def __str__(self) -> str:
        return "\n".join([f"path {self.name!r}", *(f"not {name!r}: {why}" for name, why in self.refused.items())])


def route(given: Pass, y: State) -> Route:
    """The fastest path that can take a pass."""
    refused: dict[str, str] = {}
    if not torch.compiler.is_compiling():
        common = _refusal(given, y)
        for name, attempt in _attempts():
            found = attempt(given, y) if common is None else common
            if not isinstance(found, str):
                return Route(name, found, refused)
            refused[name] = found
    return Route(GENERAL, partial(solve, given, y), refused)


def run(given: Pass, y: State) -> Outcome:
    """A pass by the fastest path that can take it."""
    chosen = route(given, y)
    outcome = chosen.ready()
    outcome.stats.path, outcome.stats.refused = chosen.name, chosen.refused
    return outcome


def _refusal(given: Pass, y: State) -> str | None:
    """Why no faster path can take a pass that is more than numbers."""
    if not _SWITCH.get():
        return "faster paths are switched off"
    if given.gradient != "backprop":
        return f"gradient={given.gradient!r}; they know 'backprop'"
    if given.precision[0]:
        return "mixed precision is on"
    if torch.jit.is_tracing() or is_transformed() or torch.autograd.forward_ad._current_level >= 0:  # pyright: ignore[reportPrivateImportUsage]
        return "a tracer or a transform is at work"
    if y[0].is_inference() and torch.is_grad_enabled():
        return "the input is of inference mode"
    return None
