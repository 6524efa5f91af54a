"""A signal carried at a speed that changes in time, by one layer that evolves and one that does not (ANODEV2 sec 6)."""

from dataclasses import dataclass
from fractions import Fraction
from math import log2
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from anydepth.block.block import ContinuousBlock
from anydepth.data.source import Part
from anydepth.weights.evolved import Evolved
from anydepth_papers.data.travelling_wave import Wave, velocity
from anydepth_papers.experiments import EXPERIMENTS
from anydepth_papers.judge.experiment import Claim, ClaimVerdict, Experiment, Findings
from anydepth_papers.judge.rules import Judgement, all_of, better
from anydepth_papers.judge.study import Study
from anydepth_papers.judge.wording import spread
from anydepth_papers.units.circular_conv import CircularConv

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WEIGHTS = {
    "ANODE": Evolved("none"),
    "reaction": Evolved("rda", {"terms": ["reaction"]}),
    "reaction, diffusion, advection": Evolved("rda"),
    "a linear map": Evolved("linear", {"bias": True}),
    "a convolutional block": Evolved("conv", {"hidden": 4}),
}
"""How the one kernel changes over depth."""
PLAIN = "ANODE"
PAPERS = ("reaction", "reaction, diffusion, advection")
"""What the paper evolves kernels by; the others are further kinds that it names in section 2.1."""
SPEEDS = ("exponential", "linear", "sine")
CONSTANT = "constant"
"""The control: a speed that a kernel which stays can carry."""
TOLD = {
    "exponential": "c(t) = exp(-t)",
    "linear": "c(t) = t",
    "sine": "c(t) = sin(pi t)",
    "constant": "c(t) = 1/2",
}
TRAINED_AT = tuple(i / 8 for i in range(1, 9))
TESTED_AT = tuple((2 * i + 1) / 16 for i in range(8))
HALVINGS = 1.0
"""How often the error must be halved to count as better: once, so that it can be seen by eye in a figure."""
RATE = 0.02
GROWING = 0.6
"""Share of the training in which later and later times are learnt: a signal that is far from where it should be teaches
nothing, and a net that sees late times at once learns to damp it."""


@dataclass(frozen=True)
class Settings:
    """Points of the circle and waves of a signal; steps in depth; steps of Adam, on all signals at once."""

    points: int
    modes: int
    steps: int
    iterations: int
    signals: int = 200


SETTINGS = {
    "smoke": Settings(16, 2, 8, 6, 8),
    "cpu": Settings(24, 3, 24, 450, 32),
    "paper": Settings(128, 12, 128, 5000, 1000),
}


Found = dict[tuple[str, str], list[dict[str, Any]]]
CELLS = (*((speed, name) for speed in SPEEDS for name in WEIGHTS), (CONSTANT, PLAIN))
CONTROL = Claim(
    "A layer whose kernel stays carries a constant speed with at most half its error at a varying one", "ours"
)


def claim_of(speed: str, name: str) -> Claim:
    """One layer against ANODE, at one speed."""
    source = "A section 6, Fig 2" if name in PAPERS else "ours, as A section 6"
    sentence = f"Wave with {TOLD[speed]}: a layer that evolves by {name} has at most half the error of ANODE"
    return Claim(sentence, source, "better by eye" if name in PAPERS else "")


def run(study: Study) -> Findings:
    study.plan(len(CELLS) * len(study.seeds))
    found = {
        (speed, name): [
            study.piece(
                f"{speed}-{name.replace(', ', '-').replace(' ', '-')}-{seed}",
                lambda s=speed, n=name, r=seed: fitted(s, n, r, study.settings),
            )
            for seed in study.seeds
        ]
        for speed, name in CELLS
    }
    rows = tuple(
        (TOLD[speed], name, *_numbers(seeds), seeds[0]["parameters"]) for (speed, name), seeds in found.items()
    )
    columns = ("speed", "weights", "error", "lowest", "highest", "error at the last time", "parameters")
    return Findings(columns, rows, verdicts_on(found), lambda: _draw(found), _notes(study.settings))


def _notes(settings: Settings) -> tuple[str, ...]:
    return (
        f"One circular convolution with 5 taps, linear, RK4 with {settings.steps} steps on {settings.points} points; "
        f"{settings.signals} signals of {settings.modes} waves, Adam for {settings.iterations} steps, rate {RATE:g} "
        "falling to zero.",
        "Trained at t = 1/8, 2/8, ..., 1, first at the earliest, then at later ones too.",
        "The error is that of other signals, drawn from another stream, at t = 1/16, 3/16, ..., 15/16: root mean "
        "square of the difference relative to that of the signal.",
        "Seeds are paired: all layers of one seed see the same signals and begin with a kernel of zeros.",
        "The paper says neither c(t) nor the training.",
    )


def block_for(name: str, settings: Settings) -> ContinuousBlock:
    """One layer on a circle; its scale makes a derivative's stencil a kernel of size one."""
    return ContinuousBlock(
        lambda: CircularConv(settings.points),
        weights={"*": WEIGHTS[name]},
        scheme="rk4",
        steps=settings.steps,
        scale=settings.points,
    )


def fitted(speed: str, name: str, seed: int, settings: Settings) -> dict[str, Any]:
    """Errors of a trained layer on signals it has not seen, and what it gives for one of them."""
    torch.manual_seed(seed)
    inputs, targets = signals("train", TRAINED_AT, speed, seed, settings)
    block = block_for(name, settings)
    optimizer = torch.optim.Adam(block.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, settings.iterations)
    for i in range(settings.iterations):
        reach = min(len(TRAINED_AT), 1 + int(len(TRAINED_AT) * i / (GROWING * settings.iterations)))
        optimizer.zero_grad()
        (carried(block, inputs, TRAINED_AT[:reach]) - targets[:, :reach]).square().mean().backward()
        optimizer.step()
        schedule.step()
    start, truth = signals("test", TESTED_AT, speed, seed, settings)
    with torch.no_grad():
        end = carried(block, start, TESTED_AT)
        errors = ((end - truth).square().mean((0, 2)) / truth.square().mean((0, 2))).sqrt()
        kernels = [block.theta(Fraction(i, 16))["conv.weight"].flatten().tolist() for i in range(17)]
    return {
        "errors": errors.tolist(),
        "error": float(errors.square().mean().sqrt()),
        "parameters": sum(parameter.numel() for parameter in block.parameters()),
        "signal": start[0].tolist(),
        "truth": truth[0, 3].tolist(),
        "found": end[0, 3].tolist(),
        "speeds": [_speed_of(kernel) for kernel in kernels],
        "true speeds": [velocity(speed, i / 16) for i in range(17)],
    }


def signals(part: Part, times: tuple[float, ...], speed: str, seed: int, settings: Settings) -> tuple[Tensor, Tensor]:
    """z(0) (signals, points), and z at the times (signals, times, points)."""
    count, modes = settings.signals, settings.modes
    made: Any = Wave
    found = made(Path(), settings.points, times, speed, count, count, modes, seed).read(part)
    return torch.from_numpy(found.inputs), torch.from_numpy(found.targets)


def carried(block: ContinuousBlock, signals: Tensor, times: tuple[float, ...]) -> Tensor:
    """(signals, times, points)."""
    found = block.trajectory(signals, list(times))
    assert isinstance(found, Tensor)
    return found.transpose(0, 1)


def _speed_of(kernel: list[float]) -> float:
    """The first moment of a kernel: the speed at which it carries long waves."""
    half = len(kernel) // 2
    return sum(value * (place - half) for place, value in enumerate(kernel))


def _numbers(seeds: list[dict[str, Any]]) -> tuple[float, ...]:
    errors = [one["error"] for one in seeds]
    return float(np.mean(errors)), min(errors), max(errors), float(np.mean([one["errors"][-1] for one in seeds]))


def verdicts_on(found: Found) -> tuple[ClaimVerdict, ...]:
    against = [_against(claim_of(s, n), found[s, n], found[s, PLAIN]) for s in SPEEDS for n in WEIGHTS if n != PLAIN]
    return (*against, _control(found))


def _halvings(errors: list[float], others: list[float]) -> Judgement:
    """Whether the error is at most half of the other, seed by seed, counted in halvings."""
    halvings = [log2(b / a) for a, b in zip(errors, others, strict=True)]
    return better(halvings, [HALVINGS] * len(halvings), paired=True, unit="halvings more than needed")


def _errors(seeds: list[dict[str, Any]]) -> list[float]:
    return [one["error"] for one in seeds]


def _against(claim: Claim, seeds: list[dict[str, Any]], plain: list[dict[str, Any]]) -> ClaimVerdict:
    errors, others = _errors(seeds), _errors(plain)
    ratios = [a / b for a, b in zip(errors, others, strict=True)]
    told = f"error {spread(errors, 3)} against {spread(others, 3)}, {spread(ratios)} times"
    return ClaimVerdict(claim, told, _halvings(errors, others))


def _control(found: Found) -> ClaimVerdict:
    errors = _errors(found[CONSTANT, PLAIN])
    others = {speed: _errors(found[speed, PLAIN]) for speed in SPEEDS}
    told = ", ".join(f"{spread(some, 3)} at {TOLD[speed]}" for speed, some in others.items())
    judgement = all_of(*(_halvings(errors, some) for some in others.values()))
    return ClaimVerdict(CONTROL, f"error {spread(errors, 3)}, against {told}", judgement)


def _draw(found: Found) -> "Figure":
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(3, len(SPEEDS), figsize=(13, 8.5), constrained_layout=True)
    colours = dict(zip(WEIGHTS, ("#c2571a", "#0b6e99", "#4c9f70", "#7a4fa3", "#b8860b"), strict=True))
    for places, speed in zip(axes.T, SPEEDS, strict=True):
        first = found[speed, PLAIN][0]
        x = np.arange(len(first["signal"])) / len(first["signal"])
        depths = np.arange(17) / 16
        places[0].plot(x, first["truth"], color="0.2", linewidth=2.5, alpha=0.5, label="truth")
        places[1].plot(depths, first["true speeds"], color="0.2", linewidth=2.5, alpha=0.5)
        for name, colour in colours.items():
            one = found[speed, name][0]
            places[0].plot(x, one["found"], color=colour, linewidth=1.2, label=name)
            places[1].plot(depths, one["speeds"], color=colour, linewidth=1.2)
            places[2].plot(TESTED_AT, one["errors"], "o-", color=colour, markersize=3)
        places[0].set(title=TOLD[speed], xlabel="x", ylabel="z at t = 7/16")
        places[1].set(xlabel="depth t", ylabel="speed")
        places[2].set(xlabel="t", ylabel="relative error", yscale="log")
        for place in places:
            place.grid(alpha=0.25)
    axes[0][0].legend(fontsize=7)
    return figure


EXPERIMENTS.add(
    "wave",
    Experiment("Signals carried at a varying speed by one layer", "ANODEV2, section 6, Fig 2", SETTINGS, run),
)
