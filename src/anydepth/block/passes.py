"""One pass through a block, described once, and what comes of it. A path is a function from the one to the other."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from anydepth.block.roles import Kind, Lifted, Roles
from anydepth.depth.times import Instant
from anydepth.executor.image import Aliases, Image
from anydepth.solve.adaptive import Across, Stats
from anydepth.solve.plan import Plan
from anydepth.solve.solver import Solver
from anydepth.solve.tensors import Precision, State
from anydepth.weights.protocol import WeightFunction

Held = Mapping[str, tuple[Tensor, ...]]
"""What is stored for every lifted tensor, and what its function has besides."""


@dataclass(frozen=True)
class Pass:
    """How to call the unit, how to step, what the weights and the state are, and how gradients are to be found."""

    unit: nn.Module
    """The block's own modules: looked at, never called and never changed."""
    image: Callable[[], Image | None]
    """What the unit looks like now, without tensors; nothing under a compiler."""
    aliases: Aliases
    roles: Roles
    lifted: Mapping[str, Lifted]
    held: Held
    shared: Mapping[str, Tensor]
    """Counters and constants, which all depths share."""
    solver: Solver
    plan: Plan | None
    """Of a scheme with fixed steps."""
    scale: Fraction
    gradient: str
    segment: int
    is_training: bool
    has_time: bool
    like: Tensor | State
    """The structure, dtypes and device of the input, and nothing in it."""
    precision: Precision
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    label: str
    across: Across | None

    @property
    def unit_name(self) -> str:
        return type(self.unit).__name__

    @property
    def is_tuple(self) -> bool:
        return isinstance(self.like, tuple)

    @property
    def takes_more(self) -> bool:
        """Whether the unit takes more than one tensor."""
        return self.is_tuple or bool(self.args) or bool(self.kwargs) or self.has_time

    @property
    def parts(self) -> State:
        return self.like if isinstance(self.like, tuple) else (self.like,)

    @property
    def device(self) -> torch.device:
        return self.parts[0].device

    @property
    def dtype(self) -> torch.dtype:
        return self.parts[0].dtype

    @property
    def functions(self) -> dict[str, WeightFunction]:
        return {name: part.function for name, part in self.lifted.items()}

    @property
    def state_names(self) -> tuple[str, ...]:
        return tuple(name for name, part in self.lifted.items() if part.kind is not Kind.PARAMETER)

    def context(self) -> list[Tensor]:
        """The tensors among the extra arguments."""
        return [leaf for leaf in tree_leaves((self.args, self.kwargs)) if isinstance(leaf, Tensor)]


@dataclass(frozen=True)
class Samples:
    """A state at the evaluations of accepted steps, before and after each, on a leading axis."""

    instants: Sequence[Instant]
    before: Tensor
    after: Tensor


@dataclass(frozen=True)
class Outcome:
    """What a pass leaves; the block commits it, nobody else does."""

    y: State
    stats: Stats
    samples: Mapping[str, Samples] = field(default_factory=dict)
    """By the name of a lifted state."""
    counters: Mapping[str, Tensor] = field(default_factory=dict)
    written: Sequence[tuple[nn.Module, str, Any]] = ()
    """Plain attributes that the unit wrote in its forward pass: whose, which, and what."""


Ready = Callable[[], Outcome]
"""A pass that has found a path."""
