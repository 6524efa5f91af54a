"""Theorem 1 and Lemma 1 of Stateful ODE-Nets, numerically: a scheme's error, and the sensitivity to the weights."""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from anydepth.depth.schemes import SCHEMES
from anydepth.solve.odeint import odeint
from anydepth_papers.experiments import EXPERIMENTS
from anydepth_papers.judge.experiment import Claim, ClaimVerdict, Experiment, Findings
from anydepth_papers.judge.rules import Judgement, computed
from anydepth_papers.judge.study import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = ("euler", "midpoint", "rk4")
WIDTH, DEGREE = 4, 3
SETTLES = 0.7
"""Error / h^p changes by at most this share of the change before when the steps are doubled again."""
SHORT_OF_ORDER = 0.35
"""How far the measured order may be below the scheme's."""
EQUAL = 1e-3
"""Relative distance up to which two derivatives are the same."""

SMOOTH = Claim(
    "A scheme's solution is the true one plus h^p times a smooth function, to leading order (random nets of width 4)",
    "S Theorem 1",
)
LEMMA = Claim(
    "The sensitivity to theta is the lemma's integral up to O(h^p), with the transition matrix", "S Lemma 1, corrected"
)
PRINTED = Claim("The same with exp of the integrated Jacobian, as printed", "S Lemma 1", "equality up to O(h^p)")
_TIGHT: dict[str, Any] = {"method": "dopri54", "rtol": 1e-12, "atol": 1e-13}


def field(y: Tensor, theta: Tensor) -> Tensor:
    """tanh(W y + b), with theta = (W, b) in one vector."""
    weight, bias = theta[: WIDTH * WIDTH].view(WIDTH, WIDTH), theta[WIDTH * WIDTH :]
    return torch.tanh(weight @ y + bias)


def derivatives(y: Tensor, theta: Tensor, moved: Tensor) -> tuple[Tensor, Tensor]:
    """df/dy, and df/dtheta times a direction, at one point."""
    weight = theta[: WIDTH * WIDTH].view(WIDTH, WIDTH)
    slope = 1 - field(y, theta) ** 2
    turned, lifted = moved[: WIDTH * WIDTH].view(WIDTH, WIDTH), moved[WIDTH * WIDTH :]
    return slope[:, None] * weight, slope * (turned @ y + lifted)


def theta_at(coefficients: Tensor, t: Tensor) -> Tensor:
    """A polynomial in depth."""
    powers = torch.stack([t**k for k in range(DEGREE)])
    return powers.to(coefficients.dtype) @ coefficients


def solution(coefficients: Tensor, start: Tensor, **solver: Any) -> Tensor:
    """y(1)."""
    times = torch.tensor([0.0, 1.0], dtype=torch.float64)
    found = odeint(lambda t, y: field(y, theta_at(coefficients, t)), start, times, **solver)
    return found[-1]  # pyright: ignore[reportReturnType]


def sensitivity(coefficients: Tensor, direction: Tensor, start: Tensor, **solver: Any) -> Tensor:
    """The derivative of y(1) when theta moves along a direction, through the solver itself."""
    step = 1e-5
    ahead, behind = (solution(coefficients + sign * step * direction, start, **solver) for sign in (1, -1))
    return (ahead - behind) / (2 * step)


def by_transition(coefficients: Tensor, direction: Tensor, start: Tensor) -> Tensor:
    """The integral of Phi(1, s) df/dtheta phi(s): the variational equation, solved along with y."""

    def both(t: Tensor, state: Tensor) -> Tensor:
        y, v = state[:WIDTH], state[WIDTH:]
        theta = theta_at(coefficients, t)
        jacobian, force = derivatives(y, theta, theta_at(direction, t))
        return torch.cat([field(y, theta), jacobian @ v + force])

    times = torch.tensor([0.0, 1.0], dtype=torch.float64)
    return odeint(both, torch.cat([start, torch.zeros_like(start)]), times, **_TIGHT)[-1][WIDTH:]  # pyright: ignore


def by_exponential(coefficients: Tensor, direction: Tensor, start: Tensor, points: int = 400) -> Tensor:
    """The same with exp of the integrated Jacobian in place of Phi, as the lemma is printed; trapezoidal rule."""
    times = torch.linspace(0, 1, points + 1, dtype=torch.float64)
    states = odeint(lambda t, y: field(y, theta_at(coefficients, t)), start, times, **_TIGHT)
    found = [
        derivatives(y, theta_at(coefficients, t), theta_at(direction, t))
        for t, y in zip(times, states, strict=True)  # pyright: ignore[reportArgumentType]
    ]
    jacobians, forces = (torch.stack(parts) for parts in zip(*found, strict=True))
    steps = (jacobians[1:] + jacobians[:-1]) / (2 * points)
    remaining = torch.cat([steps.flip(0).cumsum(0).flip(0), torch.zeros(1, WIDTH, WIDTH, dtype=torch.float64)])
    terms = torch.linalg.matrix_exp(remaining) @ forces[..., None]
    return ((terms[1:] + terms[:-1]).sum(0) / (2 * points))[:, 0]


def case(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Weights, a direction, and a start, at random."""
    generator = torch.Generator().manual_seed(seed)
    shape = (DEGREE, WIDTH * WIDTH + WIDTH)
    draw = [torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(2)]
    return draw[0], draw[1], torch.randn(WIDTH, generator=generator, dtype=torch.float64)


def examine(seed: int, steps: list[int]) -> dict[str, Any]:
    """Errors of solution and sensitivity for every scheme and number of steps."""
    coefficients, direction, start = case(seed)
    exact, transition = solution(coefficients, start, **_TIGHT), by_transition(coefficients, direction, start)
    found: dict[str, Any] = {
        "exponential": float((by_exponential(coefficients, direction, start) - transition).norm() / transition.norm())
    }
    for name in NAMES:
        solver: list[dict[str, Any]] = [{"method": name, "steps": n} for n in steps]
        errors = [solution(coefficients, start, **s) - exact for s in solver]
        found[name] = {
            "solution": [float(e.norm()) for e in errors],
            "scaled": [(e * n ** SCHEMES[name].order).tolist() for e, n in zip(errors, steps, strict=True)],
            "sensitivity": [
                float((sensitivity(coefficients, direction, start, **s) - transition).norm() / transition.norm())
                for s in solver
            ],
        }
    return found


def run(study: Study) -> Findings:
    steps: list[int] = study.settings
    study.plan(len(study.seeds))
    found = [study.piece(f"case-{seed}", lambda s=seed: examine(s, steps)) for seed in study.seeds]
    rows = tuple(
        (name, what, *(float(np.median([one[name][what][i] for one in found])) for i in range(len(steps))))
        for name in NAMES
        for what in ("solution", "sensitivity")
    )
    notes = (
        f"dy/dt = tanh(W(t) y + b(t)), width {WIDTH}, W and b random polynomials of degree {DEGREE - 1}, float64; "
        "medians over the seeds.",
        "Solution: distance of y(1) from the exact one. Sensitivity: relative distance of dy(1)/dtheta from the exact "
        "one.",
        "The use that is made of the theorem, that higher orders train smaller derivatives, is in `derivatives`.",
    )
    columns = ("scheme", "error of", *(f"{n} steps" for n in steps))
    return Findings(columns, rows, _verdicts(found, steps), lambda: _draw(rows, steps), notes)


def _verdicts(found: list[dict[str, Any]], steps: list[int]) -> tuple[ClaimVerdict, ...]:
    return (
        ClaimVerdict(SMOOTH, *_settling(found, steps)),
        ClaimVerdict(LEMMA, *_orders(found, steps)),
        ClaimVerdict(PRINTED, *_as_printed(found)),
    )


def _settling(found: list[dict[str, Any]], steps: list[int]) -> tuple[str, Judgement]:
    middle = len(steps) // 2 - 1
    changes = {name: [max(_drift(found, name, middle + i)) for i in (-1, 0)] for name in NAMES}
    told = ", ".join(f"{100 * a:.1f} then {100 * b:.1f} % ({name})" for name, (a, b) in changes.items())
    grids = " to ".join(map(str, steps[middle - 1 : middle + 2]))
    text = f"error / h^p changes by {told} from {grids} steps"
    return text, computed(all(b < SETTLES * a for a, b in changes.values()), text)


def _drift(found: list[dict[str, Any]], name: str, place: int) -> list[float]:
    """How much error / h^p changes, relatively, when the steps are doubled."""
    pairs = [(np.array(one[name]["scaled"][place]), np.array(one[name]["scaled"][place + 1])) for one in found]
    return [float(np.linalg.norm(a - b) / np.linalg.norm(b)) for a, b in pairs]


def _orders(found: list[dict[str, Any]], steps: list[int]) -> tuple[str, Judgement]:
    middle = len(steps) // 2 - 1
    errors = {name: np.array([one[name]["sensitivity"][middle : middle + 2] for one in found]) for name in NAMES}
    slopes = {name: np.log2(pair[:, 0] / pair[:, 1]) for name, pair in errors.items()}
    text = ", ".join(f"{name}: order {slope.min():.2f} to {slope.max():.2f}" for name, slope in slopes.items())
    is_so = all(slope.min() > SCHEMES[name].order - SHORT_OF_ORDER for name, slope in slopes.items())
    return text, computed(is_so, text)


def _as_printed(found: list[dict[str, Any]]) -> tuple[str, Judgement]:
    gaps = [one["exponential"] for one in found]
    text = f"off by {100 * min(gaps):.1f} to {100 * max(gaps):.1f} % whatever h is: the Jacobians do not commute"
    return text, computed(max(gaps) < EQUAL, text)


def _draw(rows: tuple[tuple[Any, ...], ...], steps: list[int]) -> "Figure":
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4), constrained_layout=True)
    for place, what in zip(axes, ("solution", "sensitivity"), strict=True):
        for name, kind, *values in rows:
            if kind == what:
                place.loglog(steps, values, "o-", label=f"{name}, order {SCHEMES[name].order}")
        place.set(title=f"Error of the {what}", xlabel="steps", ylabel="error")
        place.grid(alpha=0.25)
        place.legend(fontsize=8)
    return figure


EXPERIMENTS.add(
    "theory",
    Experiment(
        "Theorem 1 and Lemma 1, numerically",
        "Stateful ODE-Nets, section 6",
        {"smoke": [4, 8, 16, 32], "cpu": [4, 8, 16, 32, 64, 128], "paper": [4, 8, 16, 32, 64, 128]},
        run,
        seeds=5,
    ),
)
