"""One pass through a block: the tensors of its unit by the part they play, the pass described once, and what it leaves,
which is committed wholly or not at all.

A path is a function from the one to the other.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from math import log
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from anydepth.depth.times import Instant
from anydepth.executor.executor import Aliases, Image, Images
from anydepth.solve.adaptive import Across, Stats
from anydepth.solve.plan import Plan
from anydepth.solve.solver import Solver
from anydepth.solve.tensors import Precision, State, in_precision, is_transformed
from anydepth.weights.protocol import Reading, WeightFunction

FLOOR = 1e-8
"""Smallest positive state kept: far below the epsilon of normalisation layers."""


class Kind(Enum):
    """What a lifted tensor is: trained by gradients, or state that the unit updates itself."""

    PARAMETER = "parameter"
    STATE = "state"
    POSITIVE = "positive"

    def encode(self, value: Tensor) -> Tensor:
        """Value to stored form: positive state is kept in the logarithm."""
        if self is not Kind.POSITIVE:
            return value
        wide = value.to(torch.promote_types(value.dtype, torch.float32))
        return wide.clamp(FLOOR, torch.finfo(wide.dtype).max).log().to(value.dtype)

    def decode(self, stored: Tensor) -> Tensor:
        """Stored form to value, finite whatever is stored."""
        if self is not Kind.POSITIVE:
            return stored
        return stored.clamp(max=0.99 * log(torch.finfo(stored.dtype).max)).exp()


@dataclass(frozen=True)
class Lifted:
    """A tensor of the unit that is a function of depth."""

    kind: Kind
    function: WeightFunction
    shape: tuple[int, ...]
    """As the unit has it, without the leading axis of what is stored."""


@dataclass(frozen=True)
class Roles:
    """Names of a unit's tensors by the part they play."""

    lifted: Mapping[str, Kind]
    counters: tuple[str, ...]
    constants: tuple[str, ...]


Held = Mapping[str, tuple[Tensor, ...]]
"""What is stored for every lifted tensor, and what its function has besides."""


@dataclass(frozen=True)
class Pass:
    """How to call the unit, how to step, what the weights and the state are, and how gradients are to be found."""

    unit: nn.Module
    """The block's own modules: looked at, never called and never changed."""
    image: Image | None
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
    is_tuple: bool
    """Whether the state is a tuple of tensors, and not one."""
    dtypes: tuple[torch.dtype, ...]
    """Of the parts of the input."""
    device: torch.device
    is_inference: bool
    """Whether the input was made in inference mode."""
    precision: Precision
    args: tuple[object, ...]
    kwargs: Mapping[str, object]
    label: str
    across: Across | None
    is_compiled: bool = False
    """Whether `ad.compile` was asked for."""

    @property
    def unit_name(self) -> str:
        return type(self.unit).__name__

    @property
    def takes_more(self) -> bool:
        """Whether the unit takes more than one tensor."""
        return self.is_tuple or bool(self.args) or bool(self.kwargs) or self.has_time

    @property
    def dtype(self) -> torch.dtype:
        return self.dtypes[0]

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
    written: Sequence[tuple[nn.Module, str, object]] = ()
    """Plain attributes that the unit wrote in its forward pass: whose, which, and what."""


Ready = Callable[[], Outcome]
"""A pass that has found a path."""


class PerThread(Images):
    """What a block keeps for every thread: the statistics of its last pass, and the image of the unit that it used."""

    def __init__(self, memory: dict[str, dict[Any, Any]] | None = None) -> None:
        super().__init__(memory)
        self.stats = Stats()


def commit(given: Pass, outcome: Outcome, stored: Callable[[str], Tensor]) -> None:
    """Store what fits the samples of accepted steps; counters advance once.

    State that no evaluation changed (a frozen normalisation layer) is left as it is, to the bit.
    """
    with torch.no_grad(), in_precision(given.device):
        changed = {n: s for n, s in outcome.samples.items() if not is_transformed() or not _is_same(s)}
        new = {name: _fitted(given, name, stored(name), samples) for name, samples in changed.items()}
        counters = {n: t for n, t in outcome.counters.items() if not is_transformed() or t != stored(n)}
        _write({**new, **counters}, stored)


def _fitted(given: Pass, name: str, stored: Tensor, samples: Samples) -> Tensor:
    """What to store for a state, worked out in at least float32."""
    part, wide = given.lifted[name], torch.promote_types(stored.dtype, torch.float32)
    reading = _reading(given, samples.instants, part.function)
    encoded = part.kind.encode(samples.after.to(stored.dtype).to(wide))
    fitted = reading.fit(stored.to(wide), encoded)
    return torch.where((samples.before == samples.after).all(), stored, fitted.to(stored.dtype))


def _is_same(samples: Samples) -> bool:
    """Asked under a transform only, where nothing may be stored, not even what is there already."""
    return bool((samples.before == samples.after).all())


def _reading(given: Pass, instants: Sequence[Instant], function: WeightFunction) -> Reading:
    plan = given.plan
    is_whole = plan is not None and len(instants) == plan.evaluations
    return plan.reading(function) if plan is not None and is_whole else function.reading(instants)


def _write(new: Mapping[str, Tensor], stored: Callable[[str], Tensor]) -> None:
    """One call of PyTorch for all tensors: an interrupt comes before it or after it."""
    targets = [stored(name) for name in new]
    if torch.compiler.is_compiling():
        for target, value in zip(targets, new.values(), strict=True):
            target.copy_(value)
    elif targets:
        torch._foreach_copy_(targets, list(new.values()))  # pyright: ignore[reportPrivateImportUsage]
