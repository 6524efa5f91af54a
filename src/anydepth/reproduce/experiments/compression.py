"""Compressing a trained net of hats: bases, methods and shortening (Stateful ODE-Nets, Fig 4 and section 7.3)."""

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from anydepth.reproduce import EXPERIMENTS
from anydepth.reproduce.experiment import Claim, Experiment, Findings, Verdict
from anydepth.reproduce.judging import RULE, differences, is_above, spread
from anydepth.reproduce.nets import SETTINGS, Exam, accuracy, examined, setting_of, trained_steps
from anydepth.reproduce.study import Study
from anydepth.surgery.blocks import blocks_of
from anydepth.surgery.resize import compress, set_solver
from anydepth.surgery.summary import summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NET = "hats-rk4"
SIZES = (1, 2, 3, 4, 6, 8, 12, 16)
HOW = {
    "constants, projected": ("constant", "project"),
    "hats, projected": ("linear", "project"),
    "hats, interpolated": ("linear", "interpolate"),
    "discontinuous, projected": ("discontinuous", "project"),
}
SCHEMES = ("rk4", "euler")
Seeds = list[dict[str, Any]]


def run(study: Study) -> Findings:
    seeds = examined(study, (NET,), look)[NET]
    first = seeds[0]
    rows = (
        ("as trained", f"K = {first['size']}, N = {first['steps']}", *_row(seeds, "trained"), first["parameters"]),
        ("hats, projected", f"K = {first['half']}, N = {first['fewer']}", *_row(seeds, "halved"), first["at half"]),
        *((how, f"K = {k}", *_cells(_curve(seeds, how, k)), None) for how in HOW for k in first["curves"][how]),
        *(
            (f"{scheme}, {how}", f"N = {n}", *_cells(_short(seeds, scheme, how, n)), None)
            for scheme in SCHEMES
            for how in ("steps only", "K = N constants")
            for n in first["shortened"][scheme][how]
        ),
    )
    columns = ("form", "size", "accuracy (%)", "lowest", "highest", "parameters")
    notes = (
        f"{setting_of(study)} The net is {first['size']} hats trained with RK4; what a row does not say is as "
        f"trained. {RULE}"
    )
    return Findings(columns, rows, _verdicts(seeds), lambda: _draw(seeds), notes)


def sizes_of(basis: str, size: int) -> list[int]:
    """Sizes of a basis below `size`: hats have one more function than cells, discontinuous lines two per cell."""
    options = [n + 1 for n in SIZES] if basis == "linear" else [n for n in SIZES if basis == "constant" or n % 2 == 0]
    return [k for k in options if k < size]


def look(model: nn.Module, exam: Exam) -> dict[str, Any]:
    """Accuracy in smaller bases, with fewer steps, and with both."""
    size, steps = next(iter(blocks_of(model).values())).size, trained_steps(model)
    half, fewer = (size + 1) // 2, max(1, steps // 2)
    small = compress(model, size=half, steps=fewer)
    whole, short = exam(model), exam(set_solver(deepcopy(model), steps=fewer))
    return {
        "size": size,
        "steps": steps,
        "half": half,
        "fewer": fewer,
        "trained": accuracy(whole),
        "halved": accuracy(exam(small)),
        "time": short.seconds / whole.seconds if whole and short else float("nan"),
        "parameters": summary(model).parameters,
        "at half": summary(small).parameters,
        "curves": {
            how: {str(k): accuracy(exam(compress(model, basis, k, method=method))) for k in sizes_of(basis, size)}
            for how, (basis, method) in HOW.items()
        },
        "shortened": {scheme: _shortened(model, exam, scheme, steps) for scheme in SCHEMES},
    }


def _shortened(model: nn.Module, exam: Exam, scheme: str, steps: int) -> dict[str, dict[str, float]]:
    fewer = [n for n in SIZES if n < steps]
    return {
        "steps only": {str(n): accuracy(exam(set_solver(deepcopy(model), scheme, n))) for n in fewer},
        "K = N constants": {str(n): accuracy(exam(compress(model, "constant", n, n, scheme))) for n in fewer},
    }


def _curve(seeds: Seeds, how: str, size: str) -> list[float]:
    return [one["curves"][how][size] for one in seeds]


def _short(seeds: Seeds, scheme: str, how: str, steps: str) -> list[float]:
    return [one["shortened"][scheme][how][steps] for one in seeds]


def _row(seeds: Seeds, key: str) -> tuple[float, float, float]:
    return _cells([one[key] for one in seeds])


def _cells(values: list[float]) -> tuple[float, float, float]:
    return float(np.mean(values)), min(values), max(values)


def _advantage(seeds: Seeds, better: str, worse: str, limit: float) -> tuple[list[float], list[str]]:
    """Points between two ways, averaged over the sizes that both have up to a limit, by seed; and those sizes."""
    curves = seeds[0]["curves"]
    sizes = [k for k in curves[better] if k in curves[worse] and int(k) <= limit]
    gaps = [differences(_curve(seeds, better, k), _curve(seeds, worse, k)) for k in sizes]
    return np.mean(gaps, axis=0).tolist(), sizes


def _gain(seeds: Seeds, scheme: str) -> tuple[list[float], list[str]]:
    """Points that the projection gains at up to half of the steps, averaged over these, by seed; and the steps."""
    steps = [n for n in seeds[0]["shortened"][scheme]["steps only"] if int(n) <= seeds[0]["fewer"]]
    gaps = [
        differences(_short(seeds, scheme, "K = N constants", n), _short(seeds, scheme, "steps only", n)) for n in steps
    ]
    return np.mean(gaps, axis=0).tolist(), steps


def _verdicts(seeds: Seeds) -> tuple[Verdict, ...]:
    first = seeds[0]
    lost = [one["trained"] - one["halved"] for one in seeds]
    time = [one["time"] for one in seeds]
    bases, sizes = _advantage(seeds, "constants, projected", "hats, projected", first["half"])
    methods, others = _advantage(seeds, "hats, projected", "hats, interpolated", first["size"])
    gains = {scheme: _gain(seeds, scheme) for scheme in SCHEMES}
    return (
        Verdict(
            Claim(
                "Half of the functions and steps, without data or retraining: at most 1 point is lost",
                "S Tables 2, 4, 5",
                "99.4 -> 99.2, 92.4 -> 91.8, 76.9 -> 75.6 %",
            ),
            f"{spread(lost)} points lost from {spread([one['trained'] for one in seeds])} %, "
            f"{first['parameters']:,} -> {first['at half']:,} parameters",
            float(np.mean(lost)) <= 1,
        ),
        Verdict(
            Claim("Trained on hats, constants are the better basis to project onto", "S Fig 4a", "a picture"),
            f"constants are {spread(bases)} points above hats on average over K = {', '.join(sizes)}",
            is_above(bases),
        ),
        Verdict(
            Claim("Projection beats interpolation", "S section 5"),
            f"{spread(methods)} points on average over K = {', '.join(others)} hats",
            is_above(methods),
        ),
        *(
            Verdict(
                Claim(
                    f"Fewer steps of {scheme} with projection to K = N beat fewer steps alone",
                    "S section 7.3",
                    "projection improves graph shortening",
                ),
                f"{spread(gain)} points on average over N = {', '.join(steps)}",
                is_above(gain),
            )
            for scheme, (gain, steps) in gains.items()
        ),
        Verdict(
            Claim("Half of the steps take half of the time, to a quarter", "S Fig 4b", "16 -> 8 steps halve it"),
            f"{spread(time)} of the time with N = {first['steps']} -> {first['fewer']}",
            abs(float(np.mean(time)) * first["steps"] / first["fewer"] - 1) <= 0.25,
        ),
    )


def _draw(seeds: Seeds) -> "Figure":
    import matplotlib.pyplot as plt

    first = seeds[0]
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.2), constrained_layout=True)
    looks = (("#c2571a", "o-"), ("#0b6e99", "s-"), ("#0b6e99", "s:"), ("#2a7f4f", "^--"))
    for (how, curve), (colour, style) in zip(first["curves"].items(), looks, strict=True):
        values = [np.mean(_curve(seeds, how, k)) for k in curve]
        left.plot([int(k) for k in curve], values, style, color=colour, markersize=4, label=how)
    for scheme, colour in zip(SCHEMES, ("#0b6e99", "#c2571a"), strict=True):
        for (how, points), style in zip(first["shortened"][scheme].items(), ("s:", "o-"), strict=True):
            values = [np.mean(_short(seeds, scheme, how, n)) for n in points]
            right.plot([int(n) for n in points], values, style, color=colour, markersize=4, label=f"{scheme}, {how}")
    for place, title, label, most in (
        (left, "Fewer basis functions, steps as trained", "functions K", first["size"]),
        (right, "Fewer steps", "steps N", first["steps"]),
    ):
        place.set_xticks(range(1, most))
        place.axhline(np.mean([one["trained"] for one in seeds]), color="black", linewidth=0.8, linestyle=":")
        place.set(title=title, xlabel=label, ylabel="test accuracy (%)")
        place.grid(alpha=0.25)
        place.legend(fontsize=8)
    return figure


EXPERIMENTS.add(
    "compression",
    Experiment(
        "Smaller bases and fewer steps without retraining",
        "Stateful ODE-Nets, Fig 4, Tables 2-5, section 7.3",
        SETTINGS,
        run,
    ),
)
