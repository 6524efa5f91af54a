"""Models that are proper, or tied to their solver, for a reason that can be said beforehand."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class CheckArguments:
    """What is handed to `check`."""

    model: Any
    batches: list[Any]
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class KnownModel:
    """A model whose verdict is known."""

    name: str
    proper: bool
    because: str
    make: Callable[[int], CheckArguments]
    is_trained: bool = False
