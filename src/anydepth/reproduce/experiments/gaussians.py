"""What diffusion, advection and reaction do to a Gaussian kernel (ANODEV2 sec 2.1, Fig 3), against the closed form."""

from dataclasses import dataclass
from math import exp
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from anydepth.reproduce import EXPERIMENTS
from anydepth.reproduce.experiment import Claim, Experiment, Findings, Verdict
from anydepth.reproduce.study import Study
from anydepth.weights.evolutions.rda import ReactionDiffusionAdvection

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
VARIANCE = 4.0
LIMITS = {"float32": 1e-5, "float64": 1e-10}


@dataclass(frozen=True)
class Settings:
    """Kernel sizes, an odd and an even one."""

    sizes: tuple[int, ...] = (31, 32)


SETTINGS = {"smoke": Settings((31,)), "cpu": Settings(), "paper": Settings()}


def run(study: Study) -> Findings:
    sizes = study.settings.sizes
    study.plan(len(sizes))
    found = {size: study.piece(f"size-{size}", lambda n=size: errors_of(n)) for size in sizes}
    rows = tuple(
        (term, size, *(found[size][term][precision] for precision in LIMITS)) for size in sizes for term in TERMS
    )
    worst = {precision: max(found[size][term][precision] for size in sizes for term in TERMS) for precision in LIMITS}
    claim = Claim(
        "One FFT step evolves a kernel exactly, for any time", "A eq 9, appendix", "analytical solutions are used"
    )
    told = ", ".join(f"{precision} {value:.1e}" for precision, value in worst.items())
    verdict = Verdict(claim, f"largest error {told}", all(worst[p] <= limit for p, limit in LIMITS.items()))
    notes = (
        "A Gaussian of variance 4 and height 1 on a periodic grid, evolved to t = 1 by one step; the closed form is "
        "the sum of moved, widened and scaled Gaussians over all turns. Rule: below 1e-5 in float32, 1e-10 in float64."
    )
    return Findings(("term", "size", *LIMITS), rows, (verdict,), lambda: _draw(max(sizes)), notes)


def errors_of(size: int) -> dict[str, dict[str, float]]:
    """The largest error of every term at t = 1, by precision."""
    return {
        term: {
            precision: float(
                (evolved(term, size, 1.0, getattr(torch, precision)).double() - exact(term, size, 1.0)).abs().max()
            )
            for precision in LIMITS
        }
        for term in TERMS
    }


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
