"""The general path: any unit, by a fixed plan or adaptive steps, with the gradient mode that the pass asks for."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from anydepth.block.field import UnitField
from anydepth.block.passes import Outcome, Pass
from anydepth.block.roles import Kind
from anydepth.depth.grids import Grid
from anydepth.errors import ConfigError
from anydepth.solve.adaptive import Adaptive, AdaptiveField, Stats
from anydepth.solve.adjoint import AdjointField, AdjointSolve, CostateStages, Path
from anydepth.solve.checkpoint import checkpointed
from anydepth.solve.fixed import Wrap, fixed, last
from anydepth.solve.plan import Plan
from anydepth.solve.solver import Tolerance
from anydepth.solve.tensors import State, in_precision, is_transformed, keep_format

GENERAL = "general"
"""What `stats.path` calls this path."""


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
    if given.gradient == "checkpoint":
        return _forward(given, y, field, checkpointed)
    if given.gradient == "kkt" and given.plan is None:
        raise ConfigError(f"gradient='kkt' needs a scheme with fixed steps, got {given.solver.scheme.name!r}")
    return _by_adjoint(given, y, field)


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
    result = last(fixed(field.steps(plan), plan.steps, y, wrap, given.segment if wrap else 1), y)
    return result, stats_of(plan)


def stats_of(plan: Plan) -> Stats:
    return Stats(plan.evaluations, len(plan.steps))


def _adaptive(
    given: Pass, field: AdaptiveField, y: State, times: Sequence[Fraction], wrap: Wrap | None = None
) -> tuple[list[State], Stats]:
    across = given.across if given.is_training else None
    run = Adaptive(field, given.solver.scheme, given.solver.tolerance or Tolerance(), given.label, wrap, across=across)
    states = run.states(y, times)
    return states, run.stats


def _by_adjoint(given: Pass, y: State, field: UnitField) -> tuple[State, Stats]:
    """The state at depth 1, its gradient to be found by solving backward in time."""
    names = [name for name, part in given.lifted.items() if part.kind is Kind.PARAMETER]
    context, structure = tree_flatten((given.args, dict(given.kwargs)))
    places = [i for i, value in enumerate(context) if isinstance(value, Tensor) and value.is_floating_point()]
    held = [tensor for name in names for tensor in given.held[name]]
    inputs = (*y, *held, *(context[i] for i in places))
    before = {name: tuple(tensor.clone() for tensor in given.held[name]) for name in given.state_names}
    noted: list[Stats] = []

    def back(result: State, states: Sequence[State], grads: State, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        leaves = [tensor.detach().requires_grad_() for tensor in tensors[len(result) :]]
        filled = list(context)
        for i, leaf in zip(places, leaves[len(held) :], strict=True):
            filled[i] = leaf
        args, kwargs = tree_unflatten(filled, structure)
        mine = iter(leaves)
        stored = {name: tuple(next(mine) for _ in given.held[name]) for name in names}
        as_it_was = replace(given, args=args, kwargs=kwargs, held={**given.held, **before, **stored})
        inner = UnitField(as_it_was, field)
        try:
            with in_precision(given.device, given.precision):
                if given.gradient == "adjoint":
                    return _back(given, AdjointField(inner, leaves, len(result)), result, grads)
                return _costate(given, inner, leaves, (tuple(tensors[: len(result)]), *states, result), grads)
        finally:
            inner.close()

    def forward() -> tuple[State, Sequence[State]]:
        if given.gradient == "adjoint" or given.plan is None:
            result, stats = _forward(given, y, field)
            noted.append(stats)
            return result, ()
        noted.append(stats_of(given.plan))
        *states, result = fixed(field.steps(given.plan), given.plan.steps, y)
        return result, states

    return AdjointSolve.apply(forward, back, len(y), *inputs), noted[0]  # pyright: ignore[reportReturnType]


def _costate(
    given: Pass, field: UnitField, leaves: Sequence[Tensor], states: Sequence[State], grads: State
) -> Sequence[Tensor]:
    """Gradients of the input and of the leaves by the adjoint equation along the states of the forward pass."""
    grid, scheme = given.solver.grid, given.solver.scheme
    assert grid is not None
    path = Path(field, grid, scheme.order, states)
    plan = Plan(grid.reversed(), scheme, given.scale)
    state = (*grads, *(torch.zeros_like(leaf) for leaf in leaves))
    return last(fixed([CostateStages(path, leaves, instants) for instants in plan.stages], plan.steps, state), state)


def _back(given: Pass, field: AdjointField, result: State, grads: State) -> Sequence[Tensor]:
    """Gradients of the input and of the field's leaves, from those of the result."""
    state, solver = (*result, *grads, *(torch.zeros_like(leaf) for leaf in field.leaves)), given.solver
    if solver.grid is None:
        times, controlled = (Fraction(1), Fraction(0)), 2 * len(result)
        run = Adaptive(field, solver.scheme, solver.tolerance or Tolerance(), given.label, None, controlled)
        end = run.states(state, times)[-1]
    else:
        plan = Plan(solver.grid.reversed(), solver.scheme, given.scale)
        end = last(fixed([field.stages(instants) for instants in plan.stages], plan.steps, state), state)
    return end[len(result) :]
