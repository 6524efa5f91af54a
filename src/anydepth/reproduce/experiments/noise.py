"""Are continuous nets more stable under noise in their inputs? (ContinuousNet, section 5.1)."""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from anydepth.reproduce import EXPERIMENTS
from anydepth.reproduce.experiment import Claim, Experiment, Findings, Verdict
from anydepth.reproduce.judging import RULE, differences, is_above, spread
from anydepth.reproduce.nets import COLOUR, SETTINGS, TITLE, Exam, accuracy, examined, setting_of
from anydepth.reproduce.study import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NETS = ("rk4", "euler", "resnet")
STRENGTHS = (0.0, 0.1, 0.2, 0.4, 0.8)
Found = dict[str, list[dict[str, Any]]]


class Noisy(nn.Module):
    """A model that sees normal noise on its input: the same noise for every model of one strength."""

    def __init__(self, model: nn.Module, strength: float):
        super().__init__()
        self.model, self.strength = model, strength
        self.draw = torch.Generator().manual_seed(0)

    def forward(self, x: Tensor) -> Tensor:
        noise = torch.randn(x.shape, generator=self.draw).to(x)
        return self.model(x + self.strength * noise)


def run(study: Study) -> Findings:
    found = examined(study, NETS, look)
    rows = tuple(
        (TITLE[net], *(float(np.mean(_values(seeds, s))) for s in STRENGTHS), float(np.mean(_lost(seeds))))
        for net, seeds in found.items()
    )
    columns = ("net", *(f"noise {strength:g}" for strength in STRENGTHS), "points lost on average")
    notes = (
        f"{setting_of(study)} Noise in units of the spread of the pixels; normal, the same for all nets; the paper "
        f"names no kind of perturbation. {RULE}"
    )
    return Findings(columns, rows, _verdicts(found), lambda: _draw(found), notes)


def look(model: nn.Module, exam: Exam) -> dict[str, Any]:
    """Accuracy by strength of the noise."""
    return {f"{strength:g}": accuracy(exam(Noisy(model, strength).eval())) for strength in STRENGTHS}


def _values(seeds: list[dict[str, Any]], strength: float) -> list[float]:
    return [one[f"{strength:g}"] for one in seeds]


def _lost(seeds: list[dict[str, Any]]) -> list[float]:
    """Points lost, averaged over the strengths, by seed."""
    clean = _values(seeds, 0.0)
    return np.mean([differences(clean, _values(seeds, s)) for s in STRENGTHS[1:]], axis=0).tolist()


def _kept(seeds: list[dict[str, Any]]) -> list[float]:
    """Share of the accuracy kept, averaged over the strengths, by seed, in per cent."""
    clean, noisy = _values(seeds, 0.0), [_values(seeds, s) for s in STRENGTHS[1:]]
    return [100 * float(after / max(before, 1e-9)) for before, after in zip(clean, np.mean(noisy, axis=0), strict=True)]


def _verdicts(found: Found) -> tuple[Verdict, ...]:
    rk4 = found["rk4"]
    return tuple(
        Verdict(
            Claim(f"{TITLE['rk4']} loses less under noise than {TITLE[net]}", "C section 5.1", "no figure"),
            f"{spread(_lost(rk4))} against {spread(_lost(found[net]))} points lost on average over the strengths; "
            f"kept {spread(_kept(rk4), 0)} against {spread(_kept(found[net]), 0)} % of the accuracy",
            is_above(differences(_lost(found[net]), _lost(rk4))),
        )
        for net in NETS[1:]
    )


def _draw(found: Found) -> "Figure":
    import matplotlib.pyplot as plt

    figure, place = plt.subplots(figsize=(6.5, 4), constrained_layout=True)
    for net, seeds in found.items():
        values = np.array([_values(seeds, strength) for strength in STRENGTHS])
        place.plot(STRENGTHS, values.mean(axis=1), "o-", color=COLOUR[net], label=TITLE[net])
        place.fill_between(STRENGTHS, values.min(axis=1), values.max(axis=1), color=COLOUR[net], alpha=0.15)
    place.set(xlabel="noise (in spreads of the pixels)", ylabel="test accuracy (%)", title="Noise on the inputs")
    place.grid(alpha=0.25)
    place.legend()
    return figure


EXPERIMENTS.add("noise", Experiment("Noise on the inputs", "ContinuousNet, section 5.1", SETTINGS, run))
