"""Nets that learn one step of the pendulum (ContinuousNet, section 3.3), and their errors at other steps."""

from dataclasses import dataclass
from math import cos, pi
from typing import Any

import numpy as np
import torch
from torch import Tensor

from anydepth.block.block import ContinuousBlock
from anydepth.data.sources.pendulum import exact
from anydepth.solve.odeint import odeint
from anydepth.zoo.units import TanhNet

GRAVITY, START = 9.81, 3 * pi / 4
DT = 0.01
"""Between two samples of the data."""
SCHEMES = {"euler": 1, "midpoint": 2, "rk4": 4}
"""With their orders."""
FACTORS = (0.125, 0.25, 0.5, 1, 2, 5, 10, 20)
"""Steps that nets are run with, in steps of the data."""
TRUE = "true"
"""The pendulum's own field."""
HUGE = 1e9


@dataclass(frozen=True)
class Settings:
    """Training on [0, duration] sampled at dt: Adam, then L-BFGS down to the floor of the optimisation."""

    duration: float
    adam: int
    lbfgs: int


def fit(scheme: str, seed: int, settings: Settings) -> dict[str, list]:
    """Weights of G = A tanh(W x + b), fitted so that one step of the scheme predicts the next sample (eq 15-17)."""
    torch.manual_seed(seed)
    states = truth(np.arange(round(settings.duration / DT) + 1) * DT)
    block = ContinuousBlock(lambda: TanhNet(2, 50), scheme=scheme, steps=1, scale=DT).double()

    def loss() -> Tensor:
        return ((block(states[:-1]) - states[1:]) / DT).square().mean()  # pyright: ignore[reportOperatorIssue]

    optimizer = torch.optim.Adam(block.parameters(), lr=1e-2, eps=1e-14)
    for step in range(settings.adam):
        optimizer.param_groups[0]["lr"] = 1e-2 * 0.5 * (1 + cos(pi * step / settings.adam))
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    last = torch.optim.LBFGS(
        block.parameters(),
        max_iter=settings.lbfgs,
        history_size=50,
        tolerance_grad=1e-14,
        tolerance_change=1e-18,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        last.zero_grad()
        value = loss()
        value.backward()
        return value

    last.step(closure)
    return {name: value.tolist() for name, value in block.theta(0).items()}


def truth(times: np.ndarray) -> Tensor:
    """Angle and velocity in closed form."""
    return torch.tensor(np.stack(exact(times), -1))


def field_of(weights: dict[str, list]) -> Any:
    w, b, a = (torch.tensor(weights[n], dtype=torch.float64) for n in ("inner.weight", "inner.bias", "out.weight"))
    return lambda _t, y: torch.tanh(y @ w.T + b) @ a.T


def pendulum(_t: Tensor, y: Tensor) -> Tensor:
    """The true field."""
    return torch.stack([y[..., 1], -GRAVITY * torch.sin(y[..., 0])], -1)


def rollout(field: Any, scheme: str, dt: float, duration: float) -> tuple[np.ndarray, Tensor]:
    """Times and states from the start, with steps of dt."""
    times = np.arange(round(duration / dt) + 1) * dt
    start = torch.tensor([START, 0.0], dtype=torch.float64)
    with torch.no_grad():
        return times, odeint(field, start, torch.tensor(times), method=scheme, steps=1)  # pyright: ignore


def global_error(field: Any, scheme: str, dt: float, duration: float) -> float:
    """Root mean square over the trajectory, of angle and velocity together; huge where it left the numbers."""
    times, states = rollout(field, scheme, dt, duration)
    return _root_mean_square(states - truth(times))


def local_error(field: Any, scheme: str, dt: float, duration: float) -> float:
    """Root mean square of one step from true states, spread over the trajectory as densely as the data."""
    times = np.arange(round((duration - dt) / DT) + 1) * DT
    span = torch.tensor([0.0, dt], dtype=torch.float64)
    with torch.no_grad():
        states = odeint(field, truth(times), span, method=scheme, steps=1)
    return _root_mean_square(states[-1] - truth(times + dt))  # pyright: ignore


def _root_mean_square(difference: Tensor) -> float:
    value = float(difference.square().mean().sqrt())
    return value if np.isfinite(value) else HUGE


class Errors:
    """Global and local errors by field, scheme and step, one for every seed."""

    def __init__(self, values: dict[str, Any]):
        self.values = values

    def orders(self, what: str, field: str, scheme: str, factor: float) -> list[float]:
        """log10 of an error at `factor` steps of the data."""
        return np.log10(self.values[what][field][scheme][f"{factor:g}"]).tolist()

    def consistency(self, field: str, scheme: str, factor: float) -> list[float]:
        """log10 of the local error over the step (section 3.1)."""
        return [order - float(np.log10(factor * DT)) for order in self.orders("local", field, scheme, factor)]

    def slope(self, field: str, scheme: str, fine: float, coarse: float, what: str = "global") -> list[float]:
        """Of the error over the step, in logarithms (eq 19)."""
        width = float(np.log10(coarse / fine))
        low, high = self.orders(what, field, scheme, fine), self.orders(what, field, scheme, coarse)
        return [(b - a) / width for a, b in zip(low, high, strict=True)]

    def dip(self, scheme: str) -> list[float]:
        """How deep, in orders of magnitude, the error of a net with its own scheme dips at the step of the data.

        It is compared with half the step, and with twice the step less what the scheme's order adds there; the
        smaller of the two differences counts. Below 0: no dip.
        """
        here, half, double = (self.orders("global", scheme, scheme, factor) for factor in (1, 0.5, 2))
        own = SCHEMES[scheme] * float(np.log10(2))
        return [min(b, c - own) - a for a, b, c in zip(here, half, double, strict=True)]


def errors_of(fits: dict[str, list[dict[str, list]]], duration: float) -> dict[str, Any]:
    """errors[what][field][scheme][factor] over seeds."""
    fields = {TRUE: [pendulum], **{made: [field_of(weights) for weights in of] for made, of in fits.items()}}
    return {
        what: {
            made: {
                scheme: {f"{k:g}": [measure(field, scheme, k * DT, duration) for field in of] for k in FACTORS}
                for scheme in SCHEMES
            }
            for made, of in fields.items()
        }
        for what, measure in (("global", global_error), ("local", local_error))
    }
