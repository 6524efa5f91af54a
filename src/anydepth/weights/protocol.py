"""Weight functions: how one tensor of a unit depends on depth.

A block stores, under the tensor's own name, one tensor with a leading axis, and asks its weight
function for everything else. A basis expansion is one kind of weight function; whatever keeps
this protocol is another.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Protocol, runtime_checkable

from torch import Tensor, nn

from anydepth.depth.times import Instant


@runtime_checkable
class WeightFunction(Protocol):
    """theta(t) of one tensor, given what is stored for it."""

    @property
    def size(self) -> int:
        """Length of the leading axis of the stored tensor; as many samples initialise it."""
        ...

    @property
    def breakpoints(self) -> Sequence[Fraction]:
        """Times at which the function may jump or bend; adaptive steps land on them."""
        ...

    @property
    def is_linear(self) -> bool:
        """Whether theta is a combination of what is stored, the same one for every entry of the tensor."""
        ...

    @property
    def is_constant(self) -> bool:
        """Whether theta is the same at all depths, whatever is stored."""
        ...

    def from_samples(self, samples_KX: Tensor) -> Tensor:
        """The stored tensor whose function takes these values at the initial sample times."""
        ...

    def module(self, shape: Sequence[int]) -> nn.Module | None:
        """A module with the function's parameters besides the stored tensor, or None."""
        ...

    def own_shapes(self, shape: Sequence[int]) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the parameters of `module`."""
        ...

    def reading(self, instants: Sequence[Instant]) -> "Reading":
        """A prepared evaluation at the given instants."""
        ...

    def move(self, to: "WeightFunction", method: str) -> "Move":
        """The change of what is stored when `to` takes over."""
        ...

    def refined(self) -> "WeightFunction":
        """The next larger function that can represent this one exactly."""
        ...

    def resized(self, size: int, basis: str | None = None) -> "WeightFunction":
        """This kind of function with another size, or another basis."""
        ...

    def describe(self) -> dict:
        """JSON that `read_function` turns back into an equal function."""
        ...


class Reading(Protocol):
    """theta at the instants it was made for, from the stored tensor and the parameters of the function's module."""

    index: tuple[int, ...]
    """Which of `rows` each instant reads."""

    def rows(self, stored_KX: Tensor, *own: Tensor) -> Sequence[Tensor]:
        """theta at every distinct instant."""
        ...

    def fit(self, stored_KX: Tensor, samples_SX: Tensor) -> Tensor:
        """What to store so that theta fits one sample per instant."""
        ...


class Move(Protocol):
    """Carries what is stored, and what an optimiser remembers about it, to another function."""

    def weights(self, stored: Tensor, *own: Tensor) -> Tensor: ...
    def gradient(self, stored: Tensor) -> Tensor: ...
    def gradient_squared(self, stored: Tensor) -> Tensor: ...
    def error(self, stored: Tensor, *own: Tensor) -> tuple[float, float]:
        """L2 over depth of the change, and of the function itself."""
        ...
