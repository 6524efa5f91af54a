"""One pass through a block: by a fixed plan or adaptive steps, with the gradient mode the block asks for."""

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from anydepth.depth.grids import Grid
from anydepth.errors import ConfigError
from anydepth.nn.adaptive import Adaptive, AdaptiveField, Stats
from anydepth.nn.chain import solve_chain
from anydepth.nn.costate import CostateStages, Path
from anydepth.nn.field import BlockField
from anydepth.nn.gradient import AdjointField, AdjointSolve, checkpointed
from anydepth.nn.integrate import Wrap, fixed, last
from anydepth.nn.layered import solve_layered
from anydepth.nn.plan import Plan
from anydepth.nn.roles import Kind
from anydepth.nn.solver import Solver, Tolerance
from anydepth.nn.structure import State, is_transformed

if TYPE_CHECKING:
    from anydepth.nn.block import ContinuousBlock


def quick(block: "ContinuousBlock", y: State, x: Tensor | State) -> State | None:
    """The state at depth 1 by the cheap path, where the block is simple enough for it."""
    if block.gradient != "backprop" or block.plan is None or isinstance(x, tuple):
        return None
    found = solve_chain(block, block.plan, y[0], x.dtype)
    if found is None:
        found = solve_layered(block, block.plan, y[0], x.dtype)
    if found is None:
        return None
    block.stats = Stats(block.plan.evaluations, len(block.plan.steps))
    return (found,)


def solve(block: "ContinuousBlock", y: State, field: BlockField) -> State:
    """The state at depth 1."""
    if block.gradient != "backprop" and is_transformed():
        raise ConfigError(f"torch.func transforms need gradient='backprop', got {block.gradient!r}; use set_gradient")
    if not torch.is_grad_enabled() or block.gradient == "backprop":
        return _forward(block, y, field)
    if block.gradient == "checkpoint":
        return _forward(block, y, field, checkpointed)
    if block.gradient == "kkt" and block.plan is None:
        raise ConfigError(f"gradient='kkt' needs a scheme with fixed steps, got {block.scheme.name!r}")
    return _by_adjoint(block, y, field)


def along(block: "ContinuousBlock", y: State, field: BlockField, times: Sequence[Fraction]) -> dict[Fraction, State]:
    """The state at increasing times that begin with 0."""
    if block.plan is None or block.grid is None:
        found = _adaptive(block, field, y, times) if len(times) > 1 else [y]
        return dict(zip(times, found, strict=True))
    at = dict(zip(block.grid.times, (y, *fixed(field.steps(block.plan), block.plan.steps, y)), strict=True))
    for time in sorted(set(times) - at.keys()):
        start = max(point for point in block.grid.times if point < time)
        plan = Plan(Grid((start, time)), block.scheme, block.scale)
        at[time] = last(fixed(field.steps(plan), plan.steps, at[start]), at[start])
    return at


def _forward(block: "ContinuousBlock", y: State, field: BlockField, wrap: Wrap | None = None) -> State:
    plan = block.plan
    if plan is None:
        if torch.compiler.is_compiling():
            raise ConfigError(
                "a block with an adaptive scheme cannot be compiled; compile its unit: block.unit.compile()"
            )
        return _adaptive(block, field, y, (Fraction(0), Fraction(1)), wrap)[-1]
    block.stats = Stats(plan.evaluations, len(plan.steps))
    return last(fixed(field.steps(plan), plan.steps, y, wrap, block.segment if wrap else 1), y)


def _adaptive(
    block: "ContinuousBlock",
    field: AdaptiveField,
    y: State,
    times: Sequence[Fraction],
    wrap: Wrap | None = None,
) -> list[State]:
    across = block.across if block.training else None
    run = Adaptive(field, block.scheme, block.solver.tolerance or Tolerance(), block.label, wrap, across=across)
    block.stats = run.stats
    return run.states(y, times)


def _by_adjoint(block: "ContinuousBlock", y: State, field: BlockField) -> State:
    """The state at depth 1, its gradient to be found by solving backward in time."""
    names = [name for name, part in block.lifted.items() if part.kind is Kind.PARAMETER]
    context, structure = tree_flatten((field.args, field.kwargs))
    places = [i for i, value in enumerate(context) if isinstance(value, Tensor) and value.is_floating_point()]
    held = [tensor for name in names for tensor in field.stored[name]]
    inputs = (*y, *held, *(context[i] for i in places))
    mixed = torch.is_autocast_enabled(field.device.type), torch.get_autocast_dtype(field.device.type)
    before = {name: tuple(tensor.clone() for tensor in field.stored[name]) for name in block.state_names}
    field.stored |= before  # as it is before the fit
    solver = block.solver
    states: list[State] = []

    def solve_back(result: State, grads: State, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        leaves = [tensor.detach().requires_grad_() for tensor in tensors[len(result) :]]
        filled = list(context)
        for i, leaf in zip(places, leaves[len(held) :], strict=True):
            filled[i] = leaf
        args, kwargs = tree_unflatten(filled, structure)
        mine = iter(leaves)
        stored = {name: tuple(next(mine) for _ in field.stored[name]) for name in names}
        with field.as_it_was(), torch.autocast(field.device.type, enabled=mixed[0], dtype=mixed[1]):
            inner = BlockField(block, field.like, args, kwargs, field, stored)
            if block.gradient == "adjoint":
                return _back(block, solver, AdjointField(inner, leaves, len(result)), result, grads)
            return _along(block, solver, inner, leaves, states, grads)

    def run() -> State:
        if block.gradient == "adjoint":
            return _forward(block, y, field)
        assert block.plan is not None
        states[:] = [y, *fixed(field.steps(block.plan), block.plan.steps, y)]
        block.stats = Stats(block.plan.evaluations, len(block.plan.steps))
        return states[-1]

    return AdjointSolve.apply(run, solve_back, len(y), *inputs)  # pyright: ignore


def _along(
    block: "ContinuousBlock",
    solver: Solver,
    field: BlockField,
    leaves: Sequence[Tensor],
    states: Sequence[State],
    grads: State,
) -> Sequence[Tensor]:
    """Gradients of the input and of the leaves by the adjoint equation along the states of the forward pass."""
    assert solver.grid is not None
    path = Path(field, solver.grid, solver.scheme.order, states)
    plan = Plan(solver.grid.reversed(), solver.scheme, block.scale)
    state = (*grads, *(torch.zeros_like(leaf) for leaf in leaves))
    return last(fixed([CostateStages(path, leaves, instants) for instants in plan.stages], plan.steps, state), state)


def _back(
    block: "ContinuousBlock", solver: Solver, field: AdjointField, result: State, grads: State
) -> Sequence[Tensor]:
    """Gradients of the input and of the field's leaves, from those of the result."""
    state = (*result, *grads, *(torch.zeros_like(leaf) for leaf in field.leaves))
    if solver.grid is None:
        times, controlled = (Fraction(1), Fraction(0)), 2 * len(result)
        run = Adaptive(field, solver.scheme, solver.tolerance or Tolerance(), block.label, None, controlled)
        end = run.states(state, times)[-1]
    else:
        plan = Plan(solver.grid.reversed(), solver.scheme, block.scale)
        end = last(fixed([field.stages(instants) for instants in plan.stages], plan.steps, state), state)
    return end[len(result) :]
