"""Fixed-step Runge-Kutta integration of a tuple of tensors."""

from collections.abc import Callable, Iterator, Sequence

import torch

from anydepth.nn.plan import Plan, State, Terms

Field = Callable[[int, State], State]
"""The derivative at evaluation number i of a plan."""


def states(field: Field, y: State, plan: Plan) -> Iterator[State]:
    """The state after every step of the plan."""
    evaluation = 0
    for step in plan.steps:
        k: list[State] = []
        for terms in step.stages:
            k.append(field(evaluation, advance(y, terms, k)))
            evaluation += 1
        y = advance(y, step.result, k)
        yield y


def integrate(field: Field, y: State, plan: Plan) -> State:
    """The state at the end of the plan."""
    for after in states(field, y, plan):
        y = after
    return y


def advance(y: State, terms: Terms, k: Sequence[State]) -> State:
    """y + sum of factor * k[j], component by component."""
    if not terms:
        return y
    result = list(y)
    for j, factor in terms:
        for c, slope in enumerate(k[j]):
            result[c] = torch.add(result[c], slope, alpha=factor)
    return tuple(result)
