"""The pendulum: rho'' = -9.81 sin(rho), let go at rest at 3 pi / 4 (Queiruga et al. 2020, sec. 3.3, eq. 12 and 13)."""

from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anydepth.data.option_checks import MOST_EXAMPLES, number
from anydepth.data.source import SOURCES, Part, Source, no_such_part
from anydepth.data.vectors import Vectors
from anydepth.errors import ConfigError

GRAVITY = 9.81
START = 3 * np.pi / 4


def exact(times: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Angle and velocity at the given times, in closed form.

    rho = 2 arcsin(k sn(K(m) - w t; m)), its derivative -2 k w cn(K(m) - w t; m), where k = sin(rho(0) / 2),
    m = k^2 and w = sqrt(9.81).
    """
    from scipy.special import ellipj, ellipk

    k, w = np.sin(START / 2), np.sqrt(GRAVITY)
    sn, cn, _, _ = ellipj(ellipk(k**2) - w * np.asarray(times, np.float64), k**2)
    return 2 * np.arcsin(k * sn), -2 * k * w * cn


@SOURCES.register("pendulum")
class Pendulum(Source):
    """Made: pairs of states of a swinging pendulum, dt apart; from the first, tell the second.

    States are (angle, velocity). The training pairs lie in [0, duration], the test pairs in the following
    [duration, 2 duration]. The paper samples at dt = 0.01 and does not say how long; 10 is three periods.
    """

    def __init__(self, root: Path, dt: float = 0.01, duration: float = 10.0):
        super().__init__(root)
        self.dt = number("pendulum", "dt", dt, least=1e-6, most=100)
        self.duration = number("pendulum", "duration", duration, least=1e-6, most=1e6)
        self.pairs = int(self.duration / self.dt + 1e-6)
        if not 1 <= self.pairs <= MOST_EXAMPLES:
            raise ConfigError(
                f"dataset 'pendulum': duration {self.duration:g} holds {self.pairs} steps of dt {self.dt:g}, "
                f"expected 1 to {MOST_EXAMPLES}"
            )

    def read(self, part: Part) -> Vectors:
        if part not in ("train", "test"):
            raise no_such_part("pendulum", part)
        start = 0.0 if part == "train" else self.duration
        states = np.stack(exact(start + self.dt * np.arange(self.pairs + 1)), axis=1).astype(np.float32)
        return Vectors(states[:-1], states[1:])
