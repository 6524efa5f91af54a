"""The test set of non-stiff problems by Hull, Enright, Fellen and Sedgwick (1972): 25 problems in five classes.

A single equations, B small systems, C moderate systems, D orbits, E equations of higher order. All run from 0 to 20.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import sqrt

import numpy as np
import torch
from scipy.integrate import solve_ivp

END = 20.0


@dataclass(frozen=True)
class Problem:
    """dy/dt = field(t, y), y(0) = start; `short` is a time within which few steps show the order of a scheme."""

    field: Callable
    start: tuple[float, ...]
    short: float = 1.0

    def y0(self):
        return torch.tensor(self.start, dtype=torch.float64)


def rows(function):
    """A field that is written by its components."""
    return lambda t, y: torch.stack(function(t, *y))


def linear(matrix):
    return lambda t, y: torch.as_tensor(matrix, dtype=torch.float64) @ y


def lotka(_t, a, b):
    return 2 * (a - a * b), -(b - a * b)


def on_torus(_t, a, b, c):
    r = (a * a + b * b).sqrt()
    return -b - a * c / r, a - b * c / r, a / r


def decay(down, up):
    """A chain of ten substances: substance i decays at rate down(i) and is fed by the one before at rate up(i)."""
    matrix = np.zeros((10, 10))
    for i in range(9):
        matrix[i, i] = -down(i)
        matrix[i + 1, i] = up(i)
    return matrix


def diffusion(size):
    return -2 * np.eye(size) + np.eye(size, k=1) + np.eye(size, k=-1)


def unit(size):
    return (1.0, *[0.0] * (size - 1))


SUN, GRAVITY = 1.00000597682, 2.95912208286
PLANETS = (0.000954786104043, 0.000285583733151, 0.0000437273164546, 0.0000517759138449, 0.00000277777777778)
PLACES = (
    (3.42947415189, 3.35386959711, 1.35494901715),
    (6.64145542550, 5.97156957878, 2.18231499728),
    (11.2630437207, 14.6952576794, 6.27960525067),
    (-30.1552268759, 1.65699966404, 1.43785752721),
    (-21.1238353380, 28.4465098142, 15.3882659679),
)
SPEEDS = (
    (-0.557160570446, 0.505696783289, 0.230578543901),
    (-0.415570776342, 0.365682722812, 0.169143213293),
    (-0.325325669158, 0.189706021964, 0.0877265322780),
    (-0.0240476254170, -0.287659532608, -0.117219543175),
    (-0.176860753121, -0.216393453025, -0.0148647893090),
)


def five_bodies(_t, y):
    """The outer planets around the sun, in a hundred days."""
    places, speeds = y.view(2, 5, 3)
    masses = torch.tensor(PLANETS, dtype=y.dtype)
    gaps = places[:, None] - places[None]  # of planet i from planet j
    cubes = (gaps.square().sum(-1) + torch.eye(5, dtype=y.dtype)).pow(1.5)
    radii = places.square().sum(-1, keepdim=True).pow(1.5)
    toward_each_other = (masses[None, :, None] * -gaps / cubes[..., None]).sum(1)
    of_the_sun = (masses[:, None] * places / radii).sum(0) - masses[:, None] * places / radii
    pull = -(SUN + masses[:, None]) * places / radii
    return torch.cat([speeds.reshape(-1), (GRAVITY * (pull + toward_each_other - of_the_sun)).reshape(-1)])


def orbit(_t, a, b, u, v):
    cube = (a * a + b * b).pow(1.5)
    return u, v, -a / cube, -b / cube


def around(eccentricity, short):
    e = eccentricity
    return Problem(rows(orbit), (1 - e, 0.0, 0.0, sqrt((1 + e) / (1 - e))), short)


def bessel(t, y, v):
    return v, -(v / (t + 1) + (1 - 0.25 / (t + 1) ** 2) * y)


PROBLEMS = {
    "A1": Problem(lambda t, y: -y, (1.0,)),
    "A2": Problem(lambda t, y: -(y**3) / 2, (1.0,)),
    "A3": Problem(lambda t, y: y * torch.cos(t), (1.0,)),
    "A4": Problem(lambda t, y: y / 4 * (1 - y / 20), (1.0,)),
    "A5": Problem(lambda t, y: (y - t) / (y + t), (4.0,)),
    "B1": Problem(rows(lotka), (1.0, 3.0)),
    "B2": Problem(linear([[-1, 1, 0], [1, -2, 1], [0, 1, -1]]), (2.0, 0.0, 1.0)),
    "B3": Problem(rows(lambda t, a, b, c: (-a, a - b * b, b * b)), (1.0, 0.0, 0.0)),
    "B4": Problem(rows(on_torus), (3.0, 0.0, 0.0)),
    "B5": Problem(rows(lambda t, a, b, c: (b * c, -a * c, -0.51 * a * b)), (0.0, 1.0, 1.0)),
    "C1": Problem(linear(decay(lambda i: 1, lambda i: 1)), unit(10)),
    "C2": Problem(linear(decay(lambda i: i + 1, lambda i: i + 1)), unit(10), 0.5),
    "C3": Problem(linear(diffusion(10)), unit(10)),
    "C4": Problem(linear(diffusion(51)), unit(51)),
    "C5": Problem(five_bodies, tuple(np.ravel([PLACES, SPEEDS]))),
    "D1": around(0.1, 1.0),
    "D2": around(0.3, 0.5),
    "D3": around(0.5, 0.4),
    "D4": around(0.7, 0.2),
    "D5": around(0.9, 0.04),
    "E1": Problem(rows(bessel), (0.6713967071418030, 0.09540051444747446)),
    "E2": Problem(rows(lambda t, y, v: (v, (1 - y * y) * v - y)), (2.0, 0.0), 0.5),
    "E3": Problem(rows(lambda t, y, v: (v, y**3 / 6 - y + 2 * torch.sin(2.78535 * t))), (0.0, 0.0)),
    "E4": Problem(rows(lambda t, y, v: (v, 0.032 - 0.4 * v * v)), (30.0, 0.0)),
    "E5": Problem(rows(lambda t, y, v: (v, (1 + v * v).sqrt() / (25 - t))), (0.0, 0.0)),
}


@cache
def by_scipy(name, end, method="DOP853", tolerance=1e-13):
    """The solution at a time as scipy finds it, and how often it asked the field."""
    problem = PROBLEMS[name]

    def field(t, y):
        return problem.field(torch.tensor(t, dtype=torch.float64), torch.from_numpy(y.copy())).numpy()

    found = solve_ivp(field, (0.0, end), problem.start, method=method, rtol=tolerance, atol=tolerance)
    assert found.success
    return torch.from_numpy(found.y[:, -1].copy()), found.nfev


def error(name, found, end):
    """The largest error of a component at a time, relative to the solution or to 1."""
    wanted = by_scipy(name, end)[0]
    return float(((found - wanted).abs() / wanted.abs().clamp_min(1.0)).max())
