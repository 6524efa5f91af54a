"""The same weights with other schemes and other numbers of steps (ContinuousNet, Figs 9-11, Table 1)."""

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from anydepth.reproduce import EXPERIMENTS
from anydepth.reproduce.experiment import Claim, Experiment, Findings, Verdict
from anydepth.reproduce.judging import RULE, differences, is_above, spread
from anydepth.reproduce.nets import COLOUR, SETTINGS, TITLE, Exam, accuracy, examined, setting_of, trained_steps
from anydepth.reproduce.study import Study
from anydepth.surgery.blocks import blocks_of
from anydepth.surgery.resize import set_solver

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NETS = {"rk4": "rk4", "euler": "euler", "resnet": "euler"}
"""Nets, and the scheme each was trained with."""
RUN_WITH = {"rk4": ("euler", "midpoint", "rk4", "rk4_38"), "euler": ("euler", "midpoint", "rk4")}
"""Schemes to run a net with, by the scheme it was trained with."""
STEPS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48)
Found = dict[str, list[dict[str, Any]]]


def run(study: Study) -> Findings:
    found = examined(study, tuple(NETS), look)
    first = found["rk4"][0]
    rows = tuple(
        (
            TITLE[net],
            scheme,
            *(float(np.mean(_values(found[net], scheme, n))) for n in first["steps"]),
            float(np.mean([_seconds(one, scheme, first["trained"]) for one in found[net]])),
        )
        for net in NETS
        for scheme in RUN_WITH[NETS[net]]
    )
    columns = ("net", "run with", *(f"N = {n}" for n in first["steps"]), f"seconds at N = {first['trained']}")
    notes = f"{setting_of(study)} All nets have N = {first['trained']} after training. {RULE}"
    return Findings(columns, rows, _verdicts(found), lambda: _draw(found), notes)


def look(model: nn.Module, exam: Exam) -> dict[str, Any]:
    """Accuracy, evaluations and seconds of a net with other schemes, at up to half as many steps again as trained."""
    trained, trial = trained_steps(model), deepcopy(model)
    steps = sorted({trained, *(n for n in STEPS if n <= 1.5 * trained)})
    grid: dict[str, Any] = {}
    for scheme in RUN_WITH[next(iter(blocks_of(model).values())).scheme.name]:
        for n in steps:
            score = exam(set_solver(trial, scheme=scheme, steps=n))
            cost = {} if score is None else {"nfe": score.nfe, "seconds": score.seconds}
            grid[_key(scheme, n)] = {"accuracy": accuracy(score), **cost}
    return {"trained": trained, "steps": steps, "grid": grid}


def _key(scheme: str, steps: int) -> str:
    return f"{scheme} x {steps}"


def _values(seeds: list[dict[str, Any]], scheme: str, steps: int) -> list[float]:
    return [one["grid"][_key(scheme, steps)]["accuracy"] for one in seeds]


def _seconds(one: dict[str, Any], scheme: str, steps: int) -> float:
    return one["grid"][_key(scheme, steps)].get("seconds", float("nan"))


def _lost(found: Found, net: str, scheme: str, steps: int) -> list[float]:
    """Points lost against the scheme and steps of training, by seed."""
    seeds = found[net]
    return differences(_values(seeds, NETS[net], seeds[0]["trained"]), _values(seeds, scheme, steps))


def _worst(found: Found, net: str) -> list[float]:
    """Most points lost with the scheme of training at half, three quarters or one and a half times the steps."""
    trained = found[net][0]["trained"]
    others = [n for n in found[net][0]["steps"] if trained / 2 <= n <= 1.5 * trained and n != trained]
    return np.max([_lost(found, net, NETS[net], n) for n in others], axis=0).tolist()


def _verdicts(found: Found) -> tuple[Verdict, ...]:
    seeds, trained = found["rk4"], found["rk4"][0]["trained"]
    third, fifth = (max(1, round(trained * share)) for share in (11 / 32, 6 / 32))
    to_euler, to_third, to_fifth = (
        _lost(found, "rk4", scheme, n) for scheme, n in (("euler", trained), ("rk4_38", third), ("rk4_38", fifth))
    )
    time = [_seconds(one, "rk4_38", third) / _seconds(one, "rk4_38", trained) for one in seeds]
    work = third / trained
    from_euler = {net: _lost(found, net, "rk4", trained) for net in ("euler", "resnet")}
    worst = {net: _worst(found, net) for net in NETS}
    return (
        Verdict(
            Claim("Trained with RK4, run with Euler: at most 1 point is lost", "C Table 1a", "93.70 -> 93.55 %"),
            f"{spread(to_euler)} points lost at N = {trained}",
            float(np.mean(to_euler)) <= 1,
        ),
        Verdict(
            Claim("RK4-3/8 with a third of the steps: at most 1 point is lost", "C Table 1a", "93.70 -> 93.44 %"),
            f"{spread(to_third)} points lost at N = {third}",
            float(np.mean(to_third)) <= 1,
        ),
        Verdict(
            Claim("RK4-3/8 with a fifth of the steps: at most 3 points are lost", "C Table 1a", "93.70 -> 92.28 %"),
            f"{spread(to_fifth)} points lost at N = {fifth}",
            float(np.mean(to_fifth)) <= 3,
        ),
        Verdict(
            Claim("Fewer steps save time in proportion, to a quarter", "C Table 1a", "11.06 of 32.55 s: 0.34"),
            f"{spread(time)} of the time with {work:.3f} of the steps (N = {third})",
            abs(float(np.mean(time)) / work - 1) <= 0.25,
        ),
        *(
            Verdict(
                Claim(f"In another depth {TITLE[net]} loses more than {TITLE['rk4']}", "C Fig 9, left", "a picture"),
                f"at most {spread(worst[net])} points lost, ContinuousNet (RK4) {spread(worst['rk4'])}",
                is_above(differences(worst[net], worst["rk4"])),
            )
            for net in ("euler", "resnet")
        ),
        *(
            Verdict(
                Claim(
                    f"{TITLE[net]} run with RK4 loses more than {TITLE['rk4']} run with Euler",
                    "C section 5.3.2",
                    "the converse is not true",
                ),
                f"{spread(lost)} against {spread(to_euler)} points lost",
                is_above(differences(lost, to_euler)),
            )
            for net, lost in from_euler.items()
        ),
    )


def _draw(found: Found) -> "Figure":
    import matplotlib.pyplot as plt

    styles = {"euler": "o-", "midpoint": "s--", "rk4": "^-.", "rk4_38": "D:"}
    figure, places = plt.subplots(1, len(found), figsize=(12, 4), sharey=True, constrained_layout=True)
    for place, (net, seeds) in zip(places, found.items(), strict=True):
        steps = seeds[0]["steps"]
        for scheme in RUN_WITH[NETS[net]]:
            values = [_values(seeds, scheme, n) for n in steps]
            strong = scheme == NETS[net]
            shade = {"color": COLOUR[net] if strong else "#8a8a8a", "alpha": 1.0 if strong else 0.75}
            place.plot(steps, np.mean(values, axis=1), styles[scheme], **shade, markersize=4, label=scheme)
            if strong:
                place.fill_between(steps, np.min(values, axis=1), np.max(values, axis=1), color=COLOUR[net], alpha=0.15)
        place.axvline(seeds[0]["trained"], color="black", linewidth=0.8, linestyle=":")
        place.set(title=f"{TITLE[net]}, trained with {NETS[net]}", xlabel="steps N", xscale="log")
        place.set_xticks(steps, [str(n) for n in steps])
        place.minorticks_off()
        place.grid(alpha=0.25)
        place.legend(fontsize=8, title="run with")
    places[0].set_ylabel("test accuracy (%)")
    return figure


EXPERIMENTS.add(
    "solvers",
    Experiment(
        "The same weights with other solvers", "ContinuousNet, Figs 9-11 and Table 1, section 5.3", SETTINGS, run
    ),
)
