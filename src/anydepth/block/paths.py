"""Which path a pass takes: the first of the faster ones that can, else the general one, which takes any unit."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from typing import Any

import torch
from torch import nn

from anydepth.block.field import UnitField
from anydepth.block.pass_adjoint import by_adjoint
from anydepth.block.passes import Outcome, Pass, Ready
from anydepth.block.row_field import UnitRows
from anydepth.depth.grids import Grid
from anydepth.errors import ConfigError
from anydepth.registry import Registry
from anydepth.solve.adaptive import Adaptive, Stats, Tolerance
from anydepth.solve.checkpoint import checkpointed
from anydepth.solve.fixed import Wrap, fixed, last
from anydepth.solve.per_example import PerExample
from anydepth.solve.plan import Plan
from anydepth.solve.tensors import State, is_transformed, keep_format

Attempt = Callable[[Pass, State], Ready | str]
"""A pass made ready to run, or the reason why this path cannot take it."""


class UnitRefusal(str):
    """A reason that lies in the unit as it looks now: it is not asked again until the unit looks otherwise."""


class ShapeRefusal(str):
    """The same, of the unit and an x of this shape."""


_MOST_SHAPES = 64
"""Kept for a unit."""

GradientMode = Callable[[Pass, State, UnitField], tuple[State, Stats]]
"""Runs a pass so that its gradients will be found in some way: the state at depth 1, and what it took."""

GRADIENTS: Registry[GradientMode] = Registry("gradient mode")
"""By name. backprop keeps every activation; checkpoint keeps the state between segments of steps and computes the
rest again, with the same random numbers: exact; adjoint keeps the result only and integrates the state and the adjoint
equation backward in time (Neural ODE); kkt keeps the state at the grid's points and integrates the adjoint equation
alone (ANODEV2 eq 7). The last two are approximate: as good as the solver, and the adjoint as the state's way back."""

PATHS: Registry[Attempt] = Registry("path", package="anydepth.fast")
"""The faster paths by name."""

GENERAL = "general"
"""What `stats.path` calls the path that takes any unit."""

_SWITCH: ContextVar[bool] = ContextVar("fast_paths", default=os.environ.get("ANYDEPTH_FAST", "1") != "0")


@contextmanager
def fast_paths(enabled: bool) -> Iterator[None]:
    """Context manager: allow or forbid faster paths in this thread; ANYDEPTH_FAST=0 forbids them everywhere."""
    token = _SWITCH.set(enabled)
    try:
        yield
    finally:
        _SWITCH.reset(token)


@cache
def _attempts() -> tuple[tuple[str, Attempt], ...]:
    try:
        names = sorted(PATHS, key=lambda name: name == "compiled")  # which takes any unit, after those made for some
        return tuple((name, PATHS[name]) for name in names)
    except ModuleNotFoundError as error:
        if error.name != "anydepth.fast":
            raise
        return ()  # the package of faster paths was taken away


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
        known = {} if common is not None or given.image is None else given.image.refusals
        shape = y[0].shape
        for name, attempt in _attempts():
            reason = common or known.get(name) or known.get((name, shape)) or _unknown_mode(given, attempt)
            found = reason or attempt(given, y)
            if not isinstance(found, str):
                return Route(name, found, refused)
            if isinstance(found, UnitRefusal):
                known[name] = found
            elif isinstance(found, ShapeRefusal) and len(known) < _MOST_SHAPES:
                known[name, shape] = found
            refused[name] = found
    return Route(GENERAL, partial(solve, given, y), refused)


def _unknown_mode(given: Pass, attempt: Attempt) -> str | None:
    """Paths say in their `gradients` which modes they know; by default, backprop alone."""
    modes = getattr(attempt, "gradients", ("backprop",))
    return None if given.gradient in modes else f"gradient={given.gradient!r}; it knows {' and '.join(modes)}"


def run(given: Pass, y: State) -> Outcome:
    """A pass by the fastest path that can take it."""
    chosen = route(given, y)
    outcome = chosen.ready()
    outcome.stats.path, outcome.stats.refused = chosen.name, chosen.refused
    return outcome


_WATCH: ContextVar[Callable[[Pass, Sequence[State]], None] | None] = ContextVar("watch", default=None)
_WATCHES: list[None] = []
"""One for every watch of any thread: a compiler cannot look into a context variable, but guards a list."""


@contextmanager
def states_watched(watch: Callable[[Pass, Sequence[State]], None]) -> Iterator[None]:
    """Passes of this thread with fixed steps tell the states at all grid points, as part of the graph."""
    token = _WATCH.set(watch)
    _WATCHES.append(None)
    try:
        yield
    finally:
        _WATCHES.pop()
        _WATCH.reset(token)


def _refusal(given: Pass, y: State) -> str | None:
    """Why no faster path can take a pass that is more than numbers."""
    if _WATCH.get() is not None:
        return "the states at grid points are recorded"
    if not _SWITCH.get():
        return "faster paths are switched off"
    if given.precision[0]:
        return "mixed precision is on"
    if torch.jit.is_tracing() or is_transformed() or torch.autograd.forward_ad._current_level >= 0:  # pyright: ignore[reportPrivateImportUsage]
        return "a tracer or a transform of torch.func is active"
    if given.solver.tolerance is not None and given.solver.tolerance.per_example:
        return "every example has its own steps"
    if y[0].is_inference() and torch.is_grad_enabled():
        return "the input was made in inference mode"
    return None


# The general path: any unit, by a fixed plan or adaptive steps, with the gradient mode that the pass asks for


def solve(given: Pass, y: State) -> Outcome:
    """The state at depth 1."""
    field = UnitField(given)
    try:
        result, stats = _solved(given, y, field)
        state, counters = field.samples()
        written = field.call.written()
    finally:
        field.close()
    return Outcome(keep_format(result), stats, state, counters, written)


def along(given: Pass, y: State, times: Sequence[Fraction]) -> dict[Fraction, State]:
    """The state at increasing times that begin with 0."""
    field = UnitField(given)
    try:
        return _along(given, y, field, times)
    finally:
        field.close()


def _solved(given: Pass, y: State, field: UnitField) -> tuple[State, Stats]:
    if given.gradient != "backprop" and is_transformed():
        raise ConfigError(f"torch.func transforms need gradient='backprop', got {given.gradient!r}; use set_gradient")
    if not torch.is_grad_enabled() or given.gradient == "backprop":
        return _forward(given, y, field)
    if given.solver.tolerance is not None and given.solver.tolerance.per_example:
        raise ConfigError(f"per_example needs gradient='backprop', got {given.gradient!r}; use set_gradient")
    return GRADIENTS[given.gradient](given, y, field)


def _along(given: Pass, y: State, field: UnitField, times: Sequence[Fraction]) -> dict[Fraction, State]:
    grid = given.solver.grid
    if given.plan is None or grid is None:
        found = _adaptive(given, field, y, times)[0] if len(times) > 1 else [y]
        return dict(zip(times, found, strict=True))
    at = dict(zip(grid.times, (y, *fixed(field.steps(given.plan), given.plan.steps, y)), strict=True))
    for time in sorted(set(times) - at.keys()):
        start = max(point for point in grid.times if point < time)
        plan = Plan(Grid((start, time)), given.solver.scheme, given.scale)
        at[time] = last(fixed(field.steps(plan), plan.steps, at[start]), at[start])
    return at


def _forward(given: Pass, y: State, field: UnitField, wrap: Wrap | None = None) -> tuple[State, Stats]:
    plan = given.plan
    if plan is None:
        if torch.compiler.is_compiling():
            raise ConfigError(
                "a block with an adaptive scheme cannot be compiled; compile its unit: block.unit.compile()"
            )
        states, stats = _adaptive(given, field, y, (Fraction(0), Fraction(1)), wrap)
        return states[-1], stats
    states = fixed(field.steps(plan), plan.steps, y, wrap, given.segment if wrap else 1)
    watch = _WATCH.get() if _WATCHES else None
    if watch is None:
        return last(states, y), stats_of(plan)
    kept = [y, *states]
    watch(given, kept)
    return kept[-1], stats_of(plan)


GRADIENTS.add("backprop", _forward)


@GRADIENTS.register("checkpoint")
def _checkpoint(given: Pass, y: State, field: UnitField) -> tuple[State, Stats]:
    return _forward(given, y, field, checkpointed)


@GRADIENTS.register("adjoint")
def _adjoint(given: Pass, y: State, field: UnitField) -> tuple[State, Stats]:
    return by_adjoint(given, y, field, partial(_forward, given, y, field))


@GRADIENTS.register("kkt")
def _kkt(given: Pass, y: State, field: UnitField) -> tuple[State, Stats]:
    if given.plan is None:
        raise ConfigError(f"gradient='kkt' needs a scheme with fixed steps, got {given.solver.scheme.name!r}")
    return by_adjoint(given, y, field, partial(_forward, given, y, field))


def stats_of(plan: Plan) -> Stats:
    return Stats(plan.evaluations, len(plan.steps))


def _adaptive(
    given: Pass, field: UnitField, y: State, times: Sequence[Fraction], wrap: Wrap | None = None
) -> tuple[list[State], Stats]:
    if given.solver.tolerance is not None and given.solver.tolerance.per_example:
        return _each(given, field, y, times)
    across = given.across if given.is_training else None
    run = Adaptive(field, given.solver.scheme, given.solver.tolerance or Tolerance(), given.label, wrap, across=across)
    states = run.states(y, times)
    return states, run.stats


def _each(given: Pass, field: UnitField, y: State, times: Sequence[Fraction]) -> tuple[list[State], Stats]:
    """Every example with steps of its own."""
    assert given.solver.tolerance is not None
    run = PerExample(UnitRows(given, field, y), given.solver.scheme, given.solver.tolerance, given.label)
    states = run.states(y, times)
    return states, run.stats


# What a faster path may know about a unit: that it is a chain of layers, one after another

Named = tuple[tuple[str, nn.Module], ...]
"""Layers in order, by their names in the unit."""

LISTED: dict[type[nn.Module], Callable[[Any], Named]] = {}
"""How a unit lists its layers, by its exact class: a subclass may do anything."""

RELU = ("", nn.ReLU())
"""A ReLU that a unit calls as a function."""

_GLOBAL_HOOKS = (
    torch.nn.modules.module._global_forward_hooks,
    torch.nn.modules.module._global_forward_pre_hooks,
    torch.nn.modules.module._global_backward_hooks,
    torch.nn.modules.module._global_backward_pre_hooks,
)


def listed(unit: nn.Module) -> Named | None:
    """The layers of a unit, if it is known to be a chain of them."""
    if type(unit) is nn.Sequential:
        return tuple(unit._modules.items())  # pyright: ignore[reportReturnType]
    return LISTED[type(unit)](unit) if type(unit) in LISTED else None


def is_unwatched(unit: nn.Module) -> bool:
    """Whether calling a unit's modules does no more than their classes do."""
    return are_unwatched(unit.modules())


def are_unwatched(modules: Iterable[nn.Module]) -> bool:
    """The same of modules that are at hand."""
    return not any(_GLOBAL_HOOKS) and not any(_is_watched(module) for module in modules)


def _is_watched(module: nn.Module) -> bool:
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return any(hooks) or "forward" in vars(module) or module._compiled_call_impl is not None
