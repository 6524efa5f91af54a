"""A model set to another of its forms for a while: the same parameters, read as that form would read them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from torch import nn

from anydepth.block.block import ContinuousBlock
from anydepth.block.roles import Lifted
from anydepth.depth.bases import ladder
from anydepth.depth.narrowed import narrowed
from anydepth.errors import ConfigError, choices
from anydepth.solve.plan import Plan
from anydepth.solve.solver import Solver
from anydepth.surgery.blocks import blocks_of
from anydepth.surgery.forms import MIXED, Form, form_of
from anydepth.weights.expansion import Expansion
from anydepth.weights.protocol import WeightFunction


@dataclass(frozen=True)
class PartialForm:
    """A form of a model; what is None stays as the model has it. No block exceeds its steps and its size."""

    steps: int | None = None
    size: int | None = None
    scheme: str | None = None
    basis: str | None = None

    def of(self, model: nn.Module) -> Form:
        """The whole form that a model then has."""
        own = form_of(model)
        return Form(self.basis or own.basis, self.size or own.size, self.steps or own.steps, self.scheme or own.scheme)

    def __str__(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in asdict(self).items() if value is not None) or "own"


def read_form(given: object) -> PartialForm:
    """A number of steps, a mapping such as {"steps": 4, "size": 4}, or a form."""
    if isinstance(given, PartialForm):
        return given
    if isinstance(given, Form):
        return PartialForm(given.steps, given.size, given.scheme, None if given.basis == MIXED else given.basis)
    values: Any = {"steps": given} if isinstance(given, int) else given
    if not isinstance(values, Mapping):
        raise ConfigError(f"a form is a number of steps or a mapping such as {{'steps': 4, 'size': 4}}, got {given!r}")
    known = PartialForm.__dataclass_fields__
    for name, value in values.items():
        if name not in known:
            raise ConfigError(f"a form has no {name!r}; {choices(str(name), known)}")
        is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 1
        if value is not None and name in ("steps", "size") and not is_count:
            raise ConfigError(f"{name} of a form must be a whole number of at least 1, got {value!r}")
    return PartialForm(**values)


def usual_forms(model: nn.Module) -> tuple[PartialForm, ...]:
    """The model's own steps halved down to 1."""
    steps, found = form_of(model).steps or 1, []
    while steps > 1:
        steps //= 2
        found.append(PartialForm(steps=steps))
    return tuple(found)


def smaller_sizes(model: nn.Module) -> tuple[int, ...]:
    """The model's own size halved down to 1, rounded up, or the next smaller one that its basis has; none where every
    tensor has its own basis."""
    own = form_of(model)
    if own.basis == MIXED:
        return ()
    known, halves = ladder(own.basis, own.size), [-(-own.size // 2**i) for i in range(1, own.size.bit_length())]
    found = (max(size for size in known if size <= half) for half in halves)
    return tuple(dict.fromkeys(size for size in found if size < own.size))


@dataclass(frozen=True)
class _Part:
    """A block, what it is, and what it is to be for a while."""

    block: ContinuousBlock
    solver: Solver
    plan: Plan | None
    lifted: Mapping[str, Lifted]

    def swapped(self) -> "_Part":
        """The block made so; what it was is returned."""
        block = self.block
        before = _Part(block, block.solver, block.plan, block.lifted)
        block.solver, block.plan, block.lifted = self.solver, self.plan, self.lifted
        return before


class View:
    """A form of a model that can be put on and taken off; nothing is copied, and gradients reach the model's own
    parameters."""

    def __init__(self, model: nn.Module, forms: PartialForm | Mapping[str, PartialForm]):
        blocks = blocks_of(model)
        chosen = dict.fromkeys(blocks, forms) if isinstance(forms, PartialForm) else forms
        self._own = [(block, block.solver, block.lifted) for block in blocks.values()]
        is_one = not isinstance(forms, PartialForm) or len({block.steps for block in blocks.values()}) == 1
        self._parts = [_part(name, block, chosen[name], is_one) for name, block in blocks.items() if name in chosen]

    def is_current(self, model: nn.Module) -> bool:
        """Whether this view was made for the model as it is now."""
        blocks = list(blocks_of(model).values())
        return len(blocks) == len(self._own) and all(
            mine is block and block.lifted is lifted and block.solver == solver
            for (mine, solver, lifted), block in zip(self._own, blocks, strict=True)
        )

    @property
    def evaluations(self) -> int:
        """Of all units in a pass."""
        return sum(0 if part.plan is None else part.plan.evaluations for part in self._parts)

    @contextmanager
    def __call__(self) -> Iterator[None]:
        before: list[_Part] = []
        try:
            before.extend(part.swapped() for part in self._parts)
            yield
        finally:
            for part in before:
                part.swapped()


_plan = lru_cache(maxsize=256)(Plan)
"""Plans keep what they read; views that are made anew use those of earlier ones."""


def _part(name: str, block: ContinuousBlock, form: PartialForm, is_exact: bool) -> _Part:
    solver = block.solver
    if solver.steps is None:
        raise ConfigError(f"block {name!r} is adaptive and has no steps to vary; use a scheme with fixed steps")
    if form.scheme is not None or form.steps is not None:
        steps = form.steps if is_exact or form.steps is None else min(form.steps, solver.steps)
        solver = solver.changed(scheme=form.scheme, steps=None if steps == solver.steps else steps)
    if solver.grid is None:
        raise ConfigError(f"scheme {solver.scheme.name!r} chooses its own steps; a form needs fixed steps")
    plan = block.plan if solver is block.solver else _plan(solver.grid, solver.scheme, block.scale)
    return _Part(block, solver, plan, _lifted(name, block, form))


def _lifted(name: str, block: ContinuousBlock, form: PartialForm) -> Mapping[str, Lifted]:
    if form.size is None and form.basis is None:
        return block.lifted
    return {
        tensor: Lifted(part.kind, _narrow(name, part.function, form), part.shape)
        for tensor, part in block.lifted.items()
    }


def _narrow(name: str, function: WeightFunction, form: PartialForm) -> WeightFunction:
    size = function.size if form.size is None else min(form.size, function.size)
    if size == function.size and form.basis is None:
        return function
    if not isinstance(function, Expansion):
        raise ConfigError(f"block {name!r} has weights that are no basis expansion, so no smaller size; leave size out")
    small = function.resized(size, form.basis)
    return Expansion(narrowed(function.basis, small.basis))
