"""What diffusion, advection and reaction do to a Gaussian kernel (ANODEV2 sec 2.1, Fig 3), against the closed form."""

from dataclasses import dataclass
from math import exp
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from anydepth.weights.evolutions.rda import ReactionDiffusionAdvection
from anydepth_papers.experiments import EXPERIMENTS
from anydepth_papers.judge.experiment import Claim, ClaimVerdict, Experiment, Findings
from anydepth_papers.judge.rules import computed
from anydepth_papers.judge.study import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TERMS = {
    "diffusion": (3.0, (0.0, 0.0), 0.0),
    "advection": (0.0, (6.0, -4.0), 0.0),
    "reaction": (0.0, (0.0, 0.0), -1.2),
    "all three": (3.0, (6.0, -4.0), -0.6),
}
"""tau, v, rho."""
TIMES = (0.0, 1 / 3, 2 / 3, 1.0)
VARIANCE = 9.0
"""So wide that the grid holds all its waves: exp(-variance pi^2 / 2) is below rounding."""
LIMITS = {"float32": 1e-5, "float64": 1e-10}
"""The largest error that counts as rounding."""
CLAIMS = {
    "exact": Claim(
        "One FFT step evolves a kernel exactly over any time, in float32 and in float64",
        "A eq 9, section 4",
        "analytical solutions are used",
    ),
    "diffusion": Claim("Diffusion gives Gaussians of other variances", "A section 2.1, Fig 3", "variance in time"),
    "advection": Claim("Advection moves the centre of a Gaussian", "A section 2.1, Fig 3", "other positions"),
    "reaction": Claim("Reaction lets a Gaussian grow or decay", "A section 2.1, Fig 3", "growth or decay"),
}


@dataclass(frozen=True)
class Settings:
    """Kernel sizes, an odd and an even one."""

    sizes: tuple[int, ...] = (31, 32)


SETTINGS = {"smoke": Settings((31,)), "cpu": Settings(), "paper": Settings()}
Errors = dict[int, dict[str, dict[str, float]]]


def run(study: Study) -> Findings:
    sizes = study.settings.sizes
    study.plan(len(sizes))
    found = {size: study.piece(f"size-{size}", lambda n=size: errors_of(n)) for size in sizes}
    rows = tuple(
        (term, size, *(found[size][term][precision] for precision in LIMITS)) for size in sizes for term in TERMS
    )
    verdicts = tuple(verdict_on(name, claim, found) for name, claim in CLAIMS.items())
    notes = (
        "A Gaussian of variance 9 and height 1 on a periodic grid, evolved by one step to t = 1/3, 2/3 and 1.",
        "The closed form is the sum of moved, widened and scaled Gaussians over all turns; the error is the largest.",
        "Rule: at most 1e-5 in float32 and 1e-10 in float64.",
    )
    return Findings(("term", "size", *LIMITS), rows, verdicts, lambda: _draw(max(sizes)), notes)


def verdict_on(name: str, claim: Claim, found: Errors) -> ClaimVerdict:
    """A claim about one term, or about all of them."""
    terms = [name] if name in TERMS else list(TERMS)
    worst = {p: max(one[term][p] for one in found.values() for term in terms) for p in LIMITS}
    told = "largest error " + ", ".join(f"{precision} {value:.1e}" for precision, value in worst.items())
    return ClaimVerdict(claim, told, computed(all(worst[p] <= limit for p, limit in LIMITS.items()), told))


def errors_of(size: int) -> dict[str, dict[str, float]]:
    """Largest difference from the closed form, by term and precision."""
    return {
        term: {precision: max(_error(term, size, time, precision) for time in TIMES[1:]) for precision in LIMITS}
        for term in TERMS
    }


def _error(term: str, size: int, time: float, precision: str) -> float:
    found = evolved(term, size, time, getattr(torch, precision)).double()
    return float((found - exact(term, size, time)).abs().max())


def evolved(term: str, size: int, time: float, dtype: torch.dtype = torch.float64) -> Tensor:
    """The Gaussian after one step of this length."""
    tau, v, rho = TERMS[term]
    q = ReactionDiffusionAdvection((1, 1, size, size)).to(dtype)
    with torch.no_grad():
        for name, value in {"diffusion_root": [tau**0.5], "advection": v, "reaction": [rho]}.items():
            parameter = q.get_parameter(name)
            parameter.copy_(torch.tensor(value, dtype=dtype).view(parameter.shape))
        return q.flow(exact(term, size, 0.0).to(dtype)[None, None], torch.tensor([time], dtype=dtype))[0, 0, 0]


def exact(term: str, size: int, time: float) -> Tensor:
    """The closed form; dw/dt = v . grad w carries a pattern against v."""
    tau, v, rho = TERMS[term]
    variance = VARIANCE + 2 * tau * time
    turns = size * np.arange(-6, 7)
    axes = [np.arange(size)[:, None] - size // 2 + speed * time + turns for speed in v]
    waves = [np.exp(-(places**2) / (2 * variance)).sum(1) for places in axes]
    return torch.from_numpy(exp(rho * time) * VARIANCE / variance * np.outer(*waves))


def _draw(size: int) -> "Figure":
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(len(TERMS), len(TIMES), figsize=(8, 8), constrained_layout=True)
    shown: Any = None
    for places, term in zip(axes, TERMS, strict=True):
        for place, time in zip(places, TIMES, strict=True):
            shown = place.imshow(evolved(term, size, time).numpy(), cmap="viridis", vmin=0, vmax=1)
            place.set(xticks=(), yticks=(), title=f"t = {time:.2g}" if term == next(iter(TERMS)) else "")
        places[0].set_ylabel(term)
    figure.colorbar(shown, ax=axes, shrink=0.6)
    return figure


EXPERIMENTS.add(
    "gaussians",
    Experiment("Diffusion, advection and reaction of a Gaussian kernel", "ANODEV2, Fig 3", SETTINGS, run, seeds=1),
)
