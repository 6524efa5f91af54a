"""Signals carried along a circle at a speed that changes in time: dz/dt = c(t) dz/dx (Zhang et al. 2019, sec. 6)."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anydepth.data.made import Made
from anydepth.data.option_checks import number, one_of, whole
from anydepth.data.source import SOURCES, Part
from anydepth.data.vectors import Vectors
from anydepth.errors import ConfigError

Real = NDArray[np.float64]

SPEEDS: dict[str, tuple[Callable[[float], float], Callable[[float], float]]] = {
    "constant": (lambda t: 0.5, lambda t: 0.5 * t),
    "linear": (lambda t: t, lambda t: t**2 / 2),
    "exponential": (lambda t: math.exp(-t), lambda t: -math.expm1(-t)),
    "sine": (lambda t: math.sin(math.pi * t), lambda t: (1 - math.cos(math.pi * t)) / math.pi),
}
"""c(t), and its integral from 0 to t."""


def velocity(speed: str, t: float) -> float:
    """c(t)."""
    return SPEEDS[speed][0](t)


def travel(speed: str, t: float) -> float:
    """How far the signal has moved at time t: the integral of c from 0 to t."""
    return SPEEDS[speed][1](t)


def signal(coefficients: NDArray[np.complex128], x: ArrayLike) -> Real:
    """Re sum_k a_k exp(2 pi i k x), k from 1, at places x; coefficients (count, modes)."""
    waves = np.outer(np.arange(1, coefficients.shape[1] + 1), np.asarray(x, np.float64))
    return (coefficients @ np.exp(2j * np.pi * waves)).real


@SOURCES.register("wave")
class Wave(Made):
    """Made: random smooth signals on a circle, carried at a varying speed; from z(0), tell z at given times.

    z(0) = Re sum over k up to `modes` of a_k exp(2 pi i k x), with a_k normal of standard deviation 1 / k; then
    z(x, t) = z(x + travel(t), 0) exactly. Targets are (count, points) for one time, (count, times, points) for several.
    """

    name = "wave"

    def __init__(
        self,
        root: Path,
        points: int = 64,
        times: Sequence[float] = (1.0,),
        speed: str = "exponential",
        train: int = 1000,
        test: int = 200,
        modes: int = 8,
        seed: int = 0,
    ):
        super().__init__(root, train, test, seed)
        self.points = whole(self.name, "points", points, least=4, most=100_000)
        self.modes = whole(self.name, "modes", modes)
        if 2 * self.modes >= self.points:
            raise ConfigError(
                f"dataset 'wave': option modes is {modes}, expected fewer than half of the {points} points, "
                "which can show no more"
            )
        self.speed = one_of(self.name, "speed", speed, SPEEDS)
        if not isinstance(times, list | tuple) or not times:
            raise ConfigError(f"dataset 'wave': option times is {times!r}, expected a list of one or more numbers")
        self.times = tuple(number(self.name, "times", t, least=0, most=100) for t in times)

    def read(self, part: Part) -> Vectors:
        count, random = self.draw(part)
        parts = random.standard_normal((2, count, self.modes)) / np.arange(1, self.modes + 1)
        coefficients = parts[0] + 1j * parts[1]
        x = np.arange(self.points) / self.points
        carried = np.stack([signal(coefficients, x + travel(self.speed, t)) for t in self.times], axis=1)
        targets = carried[:, 0] if len(self.times) == 1 else carried
        return Vectors(signal(coefficients, x).astype(np.float32), targets.astype(np.float32))
