"""The pendulum of ContinuousNet, section 3: one-step nets of three schemes, run at other steps and otherwise."""

from dataclasses import dataclass
from math import cos, pi
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from anydepth.block.block import ContinuousBlock
from anydepth.data.sources.pendulum import exact
from anydepth.reproduce import EXPERIMENTS
from anydepth.reproduce.experiment import Claim, Experiment, Findings, Verdict
from anydepth.reproduce.study import Study
from anydepth.solve.odeint import odeint
from anydepth.zoo.units import TanhNet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GRAVITY, START = 9.81, 3 * pi / 4
DT = 0.01
SCHEMES = ("euler", "midpoint", "rk4")
STEPS = (DT / 8, DT / 4, DT / 2, DT, 2 * DT, 5 * DT, 10 * DT)


@dataclass(frozen=True)
class Settings:
    """Training on [0, duration] sampled at dt: Adam, then L-BFGS down to the floor of the optimisation."""

    duration: float
    adam: int
    lbfgs: int


SETTINGS = {
    "smoke": Settings(0.5, 60, 20),
    "cpu": Settings(5.0, 10_000, 5_000),
    "paper": Settings(5.0, 50_000, 20_000),
}


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


def error(field: Any, scheme: str, dt: float, duration: float) -> float:
    """Root mean square over the trajectory, of angle and velocity together; huge where it left the numbers."""
    times, states = rollout(field, scheme, dt, duration)
    value = float((states - truth(times)).square().mean().sqrt())
    return value if np.isfinite(value) else 1e9


def run(study: Study) -> Findings:
    settings: Settings = study.settings
    study.plan(len(SCHEMES) * len(study.seeds) + 1)
    weights = {
        scheme: [
            study.piece(f"fit-{scheme}-{seed}", lambda s=scheme, n=seed: fit(s, n, settings)) for seed in study.seeds
        ]
        for scheme in SCHEMES
    }
    errors = study.piece("errors", lambda: _errors(weights, settings.duration))
    rows = tuple(
        (made, with_, *(median(errors[made][with_][str(dt)]) for dt in STEPS)) for made, with_ in _pairs(errors)
    )
    columns = ("field", "run with", *(f"dt = {dt:g}" for dt in STEPS))
    notes = (
        f"Error: root mean square of angle and velocity against the closed form over T = {settings.duration:g} s, "
        f"median of the seeds; trained on [0, T] sampled at dt = {DT:g} with Adam ({settings.adam:,} steps) and then "
        f"L-BFGS (at most {settings.lbfgs:,} iterations) in float64. The paper uses Adam alone and does not state T."
    )
    return Findings(columns, rows, _verdicts(errors), lambda: _draw(errors, weights, settings.duration), notes)


def _pairs(errors: dict[str, Any]) -> list[tuple[str, str]]:
    return [(made, with_) for made in errors for with_ in errors[made]]


def _errors(weights: dict[str, list], duration: float) -> dict[str, Any]:
    """errors[field][scheme][dt] over seeds; the field "true" is the pendulum's own."""
    found: dict[str, Any] = {
        "true": {s: {str(dt): [error(pendulum, s, dt, duration)] for dt in STEPS} for s in SCHEMES}
    }
    for made, fits in weights.items():
        fields = [field_of(fit) for fit in fits]
        found[made] = {s: {str(dt): [error(f, s, dt, duration) for f in fields] for dt in STEPS} for s in SCHEMES}
    return found


def _verdicts(errors: dict[str, Any]) -> tuple[Verdict, ...]:
    def at(made: str, with_: str, dt: float) -> list[float]:
        return errors[made][with_][str(dt)]

    def ratios(made: str) -> list[float]:
        return [b / a for a, b in zip(at(made, made, DT), at(made, made, DT / 2), strict=True)]

    euler, rk4 = ratios("euler"), ratios("rk4")
    allowed = at("true", "midpoint", DT)[0]
    midpoint = [(a, b) for a, b in zip(at("midpoint", "midpoint", DT), at("midpoint", "midpoint", DT / 2), strict=True)]
    wide = [dt for dt in STEPS if dt > 2 * DT]
    gains = [
        max(at("midpoint", "midpoint", dt)[i] / at("midpoint", "rk4", dt)[i] for dt in wide) for i in range(len(rk4))
    ]
    losses = [b / a for a, b in zip(at("euler", "euler", DT), at("euler", "rk4", DT), strict=True)]
    best = [min(at(made, made, DT)) for made in SCHEMES]
    slopes = {s: float(np.log2(at("true", s, STEPS[1])[0] / at("true", s, STEPS[0])[0])) for s in SCHEMES}
    return (
        Verdict(
            Claim(
                "The nets fit the trajectory at the sampling rate to a global error near 1e-4", "C Fig 3a", "about 1e-4"
            ),
            ", ".join(f"{s} {e:.1e}" for s, e in zip(SCHEMES, best, strict=True)),
            max(best) < 1e-3,
        ),
        Verdict(
            Claim("The Euler net gets worse when its step is halved", "C Fig 3b, 4a", "diverges"),
            f"error x {_range(euler)}",
            min(euler) >= 10,
        ),
        Verdict(
            Claim("The RK4 net stays accurate when its step is halved", "C Fig 3b, 4a", "unchanged"),
            f"error x {_range(rk4)}",
            max(rk4) <= 2,
        ),
        Verdict(
            Claim("The midpoint net stays accurate when its step is halved", "C Fig 4a", "unchanged"),
            f"{_range([b for _, b in midpoint])} at dt/2, {_range([a for a, _ in midpoint])} at dt; "
            f"the numerical midpoint rule has {allowed:.1e} at dt",
            all(b <= max(2 * a, allowed) for a, b in midpoint),
        ),
        Verdict(
            Claim(
                "A midpoint net run with RK4 gains orders of magnitude at large steps",
                "C Fig 4b",
                "orders of magnitude",
            ),
            f"error / {_range(gains)} at the best step above 2 dt",
            min(gains) >= 10,
        ),
        Verdict(
            Claim("An Euler net run with another scheme is useless", "C Fig 4b", "catastrophic"),
            f"with RK4 error x {_range(losses)}",
            min(losses) >= 10,
        ),
        Verdict(
            Claim("The numerical integrators converge with their orders", "C eq 19", "1, 2, 4"),
            ", ".join(f"{s} {slope:.2f}" for s, slope in slopes.items()) + f" from dt = {STEPS[1]:g} to {STEPS[0]:g}",
            all(abs(slopes[s] - order) < 0.15 for s, order in zip(SCHEMES, (1, 2, 4), strict=True)),
        ),
    )


def _range(values: list[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:.2g}" if low == high else f"{low:.2g} to {high:.2g}"


def _draw(errors: dict[str, Any], weights: dict[str, list], duration: float) -> "Figure":
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(11, 7.2), constrained_layout=True)
    colours = {"euler": "#c2571a", "midpoint": "#7a7f2a", "rk4": "#0b6e99"}
    for place, dt in zip(axes[0], (DT, DT / 2), strict=True):
        times = np.arange(round(duration / DT) + 1) * DT
        place.plot(times, truth(times)[:, 0], color="black", linewidth=3, alpha=0.25, label="closed form")
        for made in ("euler", "rk4"):
            when, states = rollout(field_of(weights[made][0]), made, dt, duration)
            place.plot(when, states[:, 0], color=colours[made], linewidth=1.3, label=f"{made} net")
        when, states = rollout(pendulum, "euler", dt, duration)
        place.plot(when, states[:, 0], color="grey", linewidth=1, linestyle=":", label="numerical Euler")
        place.set(title=f"Run with dt = {dt:g} (trained at {DT:g})", xlabel="time (s)", ylabel="angle", ylim=(-6, 6))
        place.legend(fontsize=8, loc="lower left")
    for made, colour in colours.items():
        axes[1][0].loglog(STEPS, _medians(errors, made, made), "o-", color=colour, label=f"{made} net")
        axes[1][0].loglog(STEPS, _medians(errors, "true", made), ":", color=colour, label=f"numerical {made}")
        axes[1][1].loglog(STEPS, _medians(errors, made, "rk4"), "^-", color=colour, label=f"{made} net run with RK4")
        axes[1][1].loglog(
            STEPS, _medians(errors, made, "euler"), "o--", color=colour, label=f"{made} net run with Euler"
        )
    titles = ("Each net with its own scheme", "The same nets with another scheme")
    for place, title in zip(axes[1], titles, strict=True):
        place.axvline(DT, color="black", alpha=0.3, linewidth=1)
        place.set(title=title, xlabel="dt (the line: what they were trained at)", ylabel="RMS error")
        place.set_ylim(1e-9, 30)
        place.legend(fontsize=7.5)
        place.grid(alpha=0.25)
    return figure


def _medians(errors: dict[str, Any], made: str, with_: str) -> list[float]:
    return [median(errors[made][with_][str(dt)]) for dt in STEPS]


EXPERIMENTS.add(
    "pendulum",
    Experiment("Is a net trained on one step a continuous system?", "ContinuousNet, section 3", SETTINGS, run),
)
