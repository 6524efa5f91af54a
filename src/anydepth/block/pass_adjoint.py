"""Gradients of a pass by solving backward in time: the adjoint equation, with the state or along it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from anydepth.block.field import UnitField
from anydepth.block.passes import Kind, Pass
from anydepth.solve.adaptive import Adaptive, Stats, Tolerance
from anydepth.solve.adjoint import AdjointField, AdjointSolve, CostateStages, Path
from anydepth.solve.fixed import fixed, last
from anydepth.solve.plan import Plan
from anydepth.solve.tensors import State, in_precision

Run = Callable[[], tuple[State, Stats]]


def by_adjoint(given: Pass, y: State, field: UnitField, run: Run) -> tuple[State, Stats]:
    """The state at depth 1, its gradient to be found by solving backward in time; `run` is the way there."""
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
            result, stats = run()
            noted.append(stats)
            return result, ()
        noted.append(Stats(given.plan.evaluations, len(given.plan.steps)))
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
        back = Adaptive(field, solver.scheme, solver.tolerance or Tolerance(), given.label, None, controlled)
        end = back.states(state, times)[-1]
    else:
        plan = Plan(solver.grid.reversed(), solver.scheme, given.scale)
        end = last(fixed([field.stages(instants) for instants in plan.stages], plan.steps, state), state)
    return end[len(result) :]
