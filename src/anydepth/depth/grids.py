"""Grids of depth: the points between which a scheme steps, and the instants its stages read."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from numbers import Integral

from anydepth.depth.schemes import Scheme
from anydepth.depth.times import Instant, Side, TimeLike, exact
from anydepth.errors import ConfigError

MAX_STEPS = 1_000_000


@dataclass(frozen=True)
class Grid:
    """Strictly monotone times; decreasing ones integrate backward."""

    times: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        if len(self.times) < 2:
            raise ConfigError(f"a grid needs at least two times, got {len(self.times)}")
        widths = {later > earlier for earlier, later in pairwise(self.times)}
        if len(widths) != 1 or any(later == earlier for earlier, later in pairwise(self.times)):
            shown = ", ".join(str(time) for time in self.times[:8])
            raise ConfigError(f"the times of a grid must increase strictly, got {shown}")

    @property
    def steps(self) -> int:
        """The number of steps."""
        return len(self.times) - 1

    @property
    def is_uniform(self) -> bool:
        """Whether all steps are equal."""
        return len({later - earlier for earlier, later in pairwise(self.times)}) == 1

    @property
    def is_forward(self) -> bool:
        """Whether the times increase."""
        return self.times[-1] > self.times[0]

    def reversed(self) -> "Grid":
        """The same times in the opposite direction."""
        return Grid(self.times[::-1])

    def refined(self, factor: int = 2) -> "Grid":
        """Every step cut into `factor` equal ones."""
        cut = [a + (b - a) * Fraction(i, factor) for a, b in pairwise(self.times) for i in range(factor)]
        return Grid((*cut, self.times[-1]))

    def stages(self, scheme: Scheme) -> tuple[tuple[Instant, ...], ...]:
        """For every step, the instant that each stage reads.

        At a knot each stage reads the side of its own step: c = 0 the side ahead, c = 1 the side
        behind, an interior stage the side ahead.
        """
        ahead, behind = (Side.RIGHT, Side.LEFT) if self.is_forward else (Side.LEFT, Side.RIGHT)
        sides = tuple(behind if is_behind else ahead for is_behind in scheme.reads_behind)
        return tuple(
            tuple(Instant(a + c * (b - a), side) for c, side in zip(scheme.c, sides, strict=True))
            for a, b in pairwise(self.times)
        )

    def describe(self) -> int | list[str]:
        """The number of steps when uniform on [0, 1], else the times; `grid` reads either."""
        if self == uniform(self.steps):
            return self.steps
        return [str(time) for time in self.times]


def uniform(steps: int) -> Grid:
    """`steps` equal steps from 0 to 1."""
    if not isinstance(steps, Integral) or isinstance(steps, bool) or not 1 <= steps <= MAX_STEPS:
        raise ConfigError(f"steps must be a whole number from 1 to {MAX_STEPS}, got {steps!r}")
    return Grid(tuple(Fraction(i, int(steps)) for i in range(steps + 1)))


def by_step(step: TimeLike) -> Grid:
    """Steps of the given size from 0 to 1, the last one cut to end there."""
    size = exact(step)
    if not 0 < size <= 1:
        raise ConfigError(f"a step must lie in (0, 1], got {step}")
    if 1 / size > MAX_STEPS:
        raise ConfigError(f"a step of {step} needs over {MAX_STEPS} steps; use a larger one")
    whole = -(-1 // size)
    return Grid((*(size * i for i in range(whole)), Fraction(1)))


def through(times: Iterable[TimeLike]) -> Grid:
    """A grid through the given times."""
    return Grid(tuple(exact(time) for time in times))


GridLike = int | Grid | Iterable[TimeLike]


def unit_grid(steps: GridLike) -> Grid:
    """A grid on [0, 1] from a number of steps, a grid, or times."""
    if isinstance(steps, Grid):
        grid = steps
    elif isinstance(steps, Iterable) and not isinstance(steps, str):
        grid = through(steps)
    else:
        grid = uniform(steps)  # pyright: ignore[reportArgumentType]
    if (grid.times[0], grid.times[-1]) != (0, 1):
        raise ConfigError(f"depth runs from 0 to 1, got a grid from {grid.times[0]} to {grid.times[-1]}")
    return grid
