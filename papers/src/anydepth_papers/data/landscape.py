"""Particles in an energy landscape: where they come to rest is their class (Ott et al. 2020, sec. 3.2, eq. 4)."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anydepth.data.made import Made
from anydepth.data.option_checks import number, whole
from anydepth.data.source import SOURCES, Part
from anydepth.data.vectors import Vectors
from anydepth.errors import NumericalError
from anydepth_papers.studies.potentials import Potential, Real, potential

_LOOK = 20
"""Steps between looks at who has come to rest."""
_SPEED = 2.0
_ROUNDS = 20


def true_field(state: Real, minima: int = 3, dimensions: int = 1, friction: float = 0.2) -> Real:
    """(dx/dt, dv/dt) = (v, -grad V(x) - friction v) at states (n, 2 dimensions) of positions and velocities."""
    x, v = state[:, :dimensions], state[:, dimensions:]
    return np.concatenate([v, force(potential(minima, dimensions), x, v, friction)], axis=1)


def force(landscape: Potential, x: Real, v: Real, friction: float) -> Real:
    """What moves a particle of mass one: the slope of the landscape and the friction."""
    return -landscape.gradient(x) - friction * v


def step(landscape: Potential, x: Real, v: Real, friction: float) -> tuple[Real, Real]:
    """One step of the classic fourth-order Runge-Kutta method."""
    h = landscape.time_step
    a1 = force(landscape, x, v, friction)
    v2 = v + h / 2 * a1
    a2 = force(landscape, x + h / 2 * v, v2, friction)
    v3 = v + h / 2 * a2
    a3 = force(landscape, x + h / 2 * v2, v3, friction)
    v4 = v + h * a3
    a4 = force(landscape, x + h * v3, v4, friction)
    return x + h / 6 * (v + 2 * v2 + 2 * v3 + v4), v + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)


def settle(landscape: Potential, x: Real, v: Real, friction: float) -> NDArray[np.int64]:
    """The minimum that each particle comes to rest in; -1 for those that do not in a long time.

    A particle rests when its energy no longer lets it leave a small ball around a minimum; the rest
    of its motion cannot change its class.
    """
    found = np.full(len(x), -1)
    moving = np.arange(len(x))
    # energy decays at the rate of the friction if that is small, and slowly again if it is large
    looks = int((40 / friction + 20 * friction) / (landscape.time_step * _LOOK))
    with np.errstate(over="ignore", invalid="ignore"):  # who runs away is never caught, and drawn again
        for _ in range(looks):
            found[moving] = landscape.resting_place(x, v)
            is_moving = found[moving] < 0
            moving, x, v = moving[is_moving], x[is_moving], v[is_moving]
            if not len(moving):
                break
            for _ in range(_LOOK):
                x, v = step(landscape, x, v, friction)
    return found


@SOURCES.register("landscape")
class Landscape(Made):
    """Made: a particle with friction in a potential with some minima; from its start, tell where it comes to rest.

    Inputs are positions and velocities, (count, 2 dimensions); velocities start in [-2, 2]. Three minima in one
    dimension are the published polynomial; any other number of minima or dimensions is a smooth landscape of
    wells, one class for each, so that the number of classes does not grow with the dimension.
    """

    name = "landscape"

    def __init__(
        self,
        root: Path,
        minima: int = 3,
        dimensions: int = 1,
        train: int = 2000,
        test: int = 1000,
        seed: int = 0,
        friction: float = 0.2,
    ):
        super().__init__(root, train, test, seed)
        self.minima = whole(self.name, "minima", minima, least=2, most=100)
        self.dimensions = whole(self.name, "dimensions", dimensions, most=100)
        self.friction = number(self.name, "friction", friction, least=0.02, most=10)

    def read(self, part: Part) -> Vectors:
        count, random = self.draw(part)
        landscape = potential(self.minima, self.dimensions)
        states, classes = np.empty((0, 2 * self.dimensions)), np.empty(0, np.int64)
        for _ in range(_ROUNDS):
            missing = (count - len(states), self.dimensions)
            x, v = random.uniform(*landscape.box, missing), random.uniform(-_SPEED, _SPEED, missing)
            found = settle(landscape, x, v, self.friction)
            states = np.concatenate([states, np.concatenate([x, v], axis=1)[found >= 0]])
            classes = np.concatenate([classes, found[found >= 0]])
            if len(states) == count:
                labels = tuple(f"minimum {k + 1}" for k in range(self.minima))
                return Vectors(states.astype(np.float32), classes, labels)
        raise NumericalError(
            f"landscape: {count - len(states)} of {count} particles do not come to rest; try another seed"
        )
