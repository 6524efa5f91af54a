"""Compressing trained nets of hats: bases, methods, shortening and time (Stateful ODE-Nets, Fig 4, section 7.3)."""

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from anydepth.surgery.blocks import blocks_of
from anydepth.surgery.resize import compress, set_solver
from anydepth.zoo.models.resnet import ResNet
from anydepth_papers.experiments import EXPERIMENTS
from anydepth_papers.judge.experiment import Claim, ClaimVerdict, Experiment, Findings
from anydepth_papers.judge.rules import Judgement, computed, near, not_run
from anydepth_papers.judge.study import Study
from anydepth_papers.judge.wording import points, spread
from anydepth_papers.nets.image_nets import (
    SETTINGS,
    TITLE,
    Exam,
    common_seeds,
    examined,
    setting_of,
    trained_steps,
    waiting,
)
from anydepth_papers.nets.resnets import shortened
from anydepth_papers.studies.form_tables import (
    COLUMNS,
    NOTES,
    Found,
    accuracies_of,
    as_trained,
    better,
    depth_of,
    each,
    halves_compared,
    looked,
    no_worse,
    rows_of,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NET, CHEAPER, RESNET = "hats-rk4", "hats-midpoint", "resnet"
CONTROLS = ("resnet-4", "resnet-1")
SIZES = (1, 2, 3, 4, 6, 8)
HOW = {
    "constants": ("constant", "project"),
    "hats": ("linear", "project"),
    "hats, interpolated": ("linear", "interpolate"),
    "discontinuous": ("discontinuous", "project"),
}
POINT = 1.0
"""Points that half of the functions and steps may cost: the paper's CIFAR-10 nets lose 0.5 and 0.6."""
SECONDS = 1.6 / 2.1
"""The share of the time that is left with half of the functions and steps: the larger of 1.6 / 2.1 and 2.3 / 3.4."""
HALF_TIME = (0.5, 0.125)
"""The share of the time that is left with half of the steps, and how far it may be off."""
ON = "each trained net, 10,000 test images"
CLAIMS = {
    "half": Claim(
        f"Half of the functions and steps, without data or retraining: at most {POINT:g} point lost ({ON})",
        "S Tables 3, 4",
        "90.4 -> 89.9, 92.4 -> 91.8 %",
    ),
    "basis": Claim(f"Trained on hats, constants are the better basis to project onto ({ON})", "S Fig 4a", "a picture"),
    "rk4": Claim(
        f"Fewer RK4 steps with projection to K = N constants beat fewer steps alone ({ON})",
        "S section 7.3",
        "projection improves graph shortening",
    ),
    "euler": Claim(
        f"Fewer Euler steps with projection to K = N constants beat fewer steps alone ({ON})",
        "S section 7.3",
        "projection improves graph shortening",
    ),
    "time": Claim("Half of the steps take half of the time, to a quarter", "S Fig 4b", "16 -> 8 steps halve it"),
    "seconds": Claim(
        f"Half of the functions and steps take at most {SECONDS:.2f} of the time",
        "S Tables 3, 4",
        "2.1 -> 1.6, 3.4 -> 2.3 s",
    ),
    "method": Claim(f"Projection beats interpolation ({ON})", "ours"),
    "fair": Claim(
        f"Halved as they are, hats (midpoint) lose less than a ResNet in its best shortened form ({ON})", "ours"
    ),
    "fair, recalibrated": Claim(
        f"Halved and recalibrated, hats (midpoint) lose less than a ResNet in its best shortened form ({ON})", "ours"
    ),
}


def run(study: Study) -> Findings:
    found = examined(study, (NET, CHEAPER), look)
    found |= examined(study, (RESNET,), look_at_resnet, plain=True)
    found |= examined(study, CONTROLS, as_trained, plain=True)
    if not any(found[name] for name in (NET, CHEAPER)):
        return waiting(tuple(CLAIMS.values()), COLUMNS, [NET, CHEAPER, RESNET])
    verdicts = tuple(ClaimVerdict(claim, *_judged(found, key)) for key, claim in CLAIMS.items())
    return Findings(COLUMNS, rows_of(found, TITLE), verdicts, lambda: _draw(found), (setting_of(), *NOTES, *_NOTES))


_NOTES = (
    "What a form does not say is as trained; bases are projected onto unless they are said to be interpolated.",
    "A ResNet is shortened in four ways: skipped: units left out; stretched: the others' steps longer; merged: "
    "neighbours averaged, steps longer; projected: projected onto hats.",
    "The ResNet's best form is chosen on validation images; as they are, on test images, in the ResNet's favour.",
    "A claim that compares several numbers of functions or steps takes the answers to one image together.",
)


def sizes_of(basis: str, most: int) -> list[int]:
    """Sizes of a basis up to a number: hats begin with two, discontinuous lines have two per cell."""
    fits = {"constant": lambda k: True, "linear": lambda k: k > 1, "discontinuous": lambda k: k % 2 == 0}
    return [k for k in SIZES if k <= most and fits[basis](k)]


def look(model: nn.Module, exam: Exam) -> dict[str, Any]:
    """A net of hats in smaller bases, with fewer steps, and with both."""
    block = next(iter(blocks_of(model).values()))
    size, steps, scheme = block.size, trained_steps(model), block.scheme.name
    half, fewer = (size + 1) // 2, max(1, steps // 2)
    forms: dict[str, nn.Module] = {
        "as trained": model,
        "half of K and N": compress(model, size=half, steps=fewer),
        "a quarter of K and N": compress(model, size=max(2, (half + 1) // 2), steps=max(1, fewer // 2)),
    }
    for how, (basis, method) in HOW.items():
        forms |= {f"{how}, K = {k}": compress(model, basis, k, method=method) for k in sizes_of(basis, half)}
    for way in dict.fromkeys((scheme, "euler")):
        counts = [n for n in SIZES if n <= fewer and steps % n == 0]
        forms |= {alone(way, n): set_solver(deepcopy(model), way, n) for n in counts}
        forms |= {projected(way, n): compress(model, "constant", n, n, way) for n in counts}
    shape = {"half": half, "fewer": fewer, "scheme": scheme}
    return shape | looked(exam, forms)


def alone(scheme: str, steps: int) -> str:
    return f"{scheme} x {steps}"


def projected(scheme: str, steps: int) -> str:
    return f"{scheme} x {steps}, K = N constants"


def look_at_resnet(model: nn.Module, exam: Exam) -> dict[str, Any]:
    """A ResNet as trained and with half of its units, in every way that needs no training."""
    assert isinstance(model, ResNet)
    short = shortened(model, model.config["layers"] // 2)
    forms = {"as trained": model} | {f"{way} to half": form for way, form in short.items()}
    return looked(exam, forms, choosing=True)


Judged = tuple[str, Judgement]


def _judged(found: Found, key: str) -> Judged:
    name = CHEAPER if key.startswith("fair") else NET
    if not found[name] or (key.startswith("fair") and not common_seeds(found, CHEAPER, RESNET)):
        return "", not_run(f"waiting for the campaign: {TITLE[name]}, {TITLE[RESNET]}")
    if key in ("time", "seconds"):
        return _timed(found, key)
    blocked = depth_of(found, name)
    told, judgement = _fair(found, "recalibrated" in key) if key.startswith("fair") else _of_hats(found, key)
    return told, blocked or judgement


def _of_hats(found: Found, key: str) -> Judged:
    nets = list(found[NET].values())
    if key == "half":
        told = f"{_mean(nets, ['as trained'])} -> {_mean(nets, ['half of K and N'])} %"
        return told, each(nets, lambda net: no_worse(net["forms"], "half of K and N", "as trained", POINT))
    mine, other = _pairs(nets[0], key)
    told = f"{_mean(nets, mine)} % ({'; '.join(mine)}) against {_mean(nets, other)} %"
    return told, each(nets, lambda net: better(net["forms"], mine, other))


def _pairs(net: dict[str, Any], key: str) -> tuple[list[str], list[str]]:
    """The forms that a claim compares."""
    if key in ("rk4", "euler"):
        steps = [n for n in SIZES if alone(key, n) in net["forms"] and n <= net["fewer"]]
        return [projected(key, n) for n in steps], [alone(key, n) for n in steps]
    ways = ("constants", "hats") if key == "basis" else ("hats", "hats, interpolated")
    names = [[f"{way}, K = {k}" for k in sizes_of("linear", net["half"])] for way in ways]
    return names[0], names[1]


def _mean(nets: list[Any], names: list[str]) -> str:
    return points([float(np.mean(accuracies_of([net["forms"][name] for name in names]))) for net in nets])


def _timed(found: Found, key: str) -> Judged:
    nets = list(found[NET].values())
    form = alone(nets[0]["scheme"], nets[0]["fewer"]) if key == "time" else "half of K and N"
    shares = [net["forms"][form]["milliseconds"] / net["forms"]["as trained"]["milliseconds"] for net in nets]
    told = f"{spread(shares)} of the time ({form})"
    if key == "time":
        return told, near(shares, *HALF_TIME, unit="of the time")
    return told, computed(max(shares) <= SECONDS, told)


def _fair(found: Found, again: bool) -> Judged:
    seeds = common_seeds(found, CHEAPER, RESNET)
    return halves_compared([(found[CHEAPER][seed]["forms"], found[RESNET][seed]["forms"]) for seed in seeds], again)


def _draw(found: Found) -> "Figure":
    import matplotlib.pyplot as plt

    name = NET if found[NET] else CHEAPER
    nets = list(found[name].values())
    figure, places = plt.subplots(1, 2, figsize=(10.5, 4.2), constrained_layout=True)
    looks = (("#c2571a", "o-"), ("#0b6e99", "s-"), ("#0b6e99", "s:"), ("#2a7f4f", "^--"))
    for how, (colour, style) in zip(HOW, looks, strict=True):
        _curve(places[0], nets, {k: f"{how}, K = {k}" for k in SIZES}, how, colour, style)
    for scheme, colour in zip(dict.fromkeys((nets[0]["scheme"], "euler")), ("#0b6e99", "#c2571a"), strict=False):
        for label, make, style in ((scheme, alone, "s:"), (f"{scheme}, K = N constants", projected, "o-")):
            _curve(places[1], nets, {n: make(scheme, n) for n in SIZES}, label, colour, style)
    for place, title, label in zip(places, ("Fewer basis functions", "Fewer steps"), ("K", "N"), strict=True):
        place.axhline(
            np.mean(accuracies_of([net["forms"]["as trained"] for net in nets])), color="black", linewidth=0.8
        )
        place.set(title=f"{TITLE[name]}: {title.lower()}", xlabel=label, ylabel="test accuracy as it is (%)")
        place.locator_params("x", integer=True)
        place.grid(alpha=0.25)
        place.legend(fontsize=8)
    return figure


def _curve(place: Any, nets: list[Any], names: dict[int, str], label: str, colour: str, style: str) -> None:
    there = {x: name for x, name in names.items() if name in nets[0]["forms"]}
    values = [np.mean(accuracies_of([net["forms"][name] for net in nets])) for name in there.values()]
    place.plot(list(there), values, style, color=colour, markersize=4, label=label)


EXPERIMENTS.add(
    "compression",
    Experiment(
        "Smaller bases and fewer steps without retraining",
        "Stateful ODE-Nets, Fig 4, Tables 3, 4, section 7.3",
        SETTINGS,
        run,
    ),
)
