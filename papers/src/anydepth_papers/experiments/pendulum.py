"""The pendulum of ContinuousNet, section 3: one-step nets of three schemes, run at other steps and otherwise.

Errors are compared in orders of magnitude (log10), seed by seed; all rules are over seeds, except where the pendulum's
own field is integrated.
"""

from math import log10
from typing import TYPE_CHECKING, Any

import numpy as np

from anydepth_papers.experiments import EXPERIMENTS
from anydepth_papers.judge.experiment import Claim, ClaimVerdict, Experiment, Findings
from anydepth_papers.judge.rules import Judgement, all_of, better, computed, near, no_worse
from anydepth_papers.judge.study import Study
from anydepth_papers.studies.one_step import (
    DT,
    FACTORS,
    SCHEMES,
    TRUE,
    Errors,
    Settings,
    errors_of,
    field_of,
    fit,
    pendulum,
    rollout,
    truth,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SETTINGS = {
    "smoke": Settings(0.5, 60, 20),
    "cpu": Settings(5.0, 10_000, 5_000),
    "paper": Settings(5.0, 50_000, 20_000),
}
ORDERS = "orders of magnitude"
LARGE = 1.0
"""Orders of magnitude that count as a dip, a gain or a failure: ten times."""
SMALL = log10(2)
"""Orders of magnitude that count as unchanged: at most twice."""
SLOPE = 0.5
"""How far a slope may be from the one it should have."""
EXACT = 0.15
"""The same for the numerical integrators of the true field, whose steps are not infinitely small."""
FITTED = -4.0
"""log10 of the global error that the paper prints for the step of the data."""
NETS = ("euler", "midpoint", "rk4")
FINEST, FINER = FACTORS[0], FACTORS[1]
WIDE = tuple(k for k in FACTORS if k > 2)

CLAIMS = {
    "fit": Claim("At the step of the data every net has a global error of at most 1e-3", "C Fig 3a", "about 1e-4"),
    "euler halved": Claim(
        "With half the step the Euler net has at least 10 times the error", "C Fig 3b, 4a", "diverges"
    ),
    "midpoint halved": Claim(
        "With half the step the midpoint net has at most twice the error", "C Fig 4a, section 3.3.2", "unchanged"
    ),
    "rk4 halved": Claim("With half the step the RK4 net has at most twice the error", "C Fig 3b, 4a", "unchanged"),
    "euler dip": Claim("The Euler net's error dips by at least 10 times at its step", "C Fig 4a", "a large dip"),
    "midpoint dip": Claim("The midpoint net's error dips by at most 2 times at its step", "C Fig 4a", "no dip"),
    "rk4 dip": Claim("The RK4 net's error dips by at most 2 times at its step", "C Fig 4a", "no dip"),
    "dips": Claim("The Euler net's dip is deeper than the midpoint net's", "ours"),
    **{
        f"{scheme} slope": Claim(
            f"From 10 to 20 steps of the data the {scheme} net's slope is the numerical {scheme} rule's, within 0.5",
            "C Fig 4a",
            "slopes match",
        )
        for scheme in NETS
    },
    "floor": Claim(
        "From 1/4 to 1/8 of the step the errors of the midpoint and RK4 nets are flat: a slope within 0.5 of 0",
        "C section 3.3.3, Fig 4a",
        "a floor",
    ),
    "level": Claim(
        "The RK4 net's floor is at the one-step error that the optimisation leaves, within 10 times",
        "C section 3.3.3",
        "E = e_opt",
    ),
    "swap gains": Claim(
        "Run with RK4 the midpoint net has at most a tenth of its error at every step above 2 dt",
        "C Fig 4b",
        "orders of magnitude",
    ),
    "swap fails": Claim(
        "Run with midpoint or RK4 the Euler net has at least 10 times its error at the step of the data",
        "C Fig 4b",
        "catastrophic",
    ),
    "swap fails everywhere": Claim(
        "Run with RK4 the Euler net has at least 10 times its error at every step",
        "C section 3.3.3",
        "for any time step",
    ),
    "orders": Claim("The numerical integrators converge with their orders, within 0.15", "C eq 19", "1, 2, 4"),
    "consistency": Claim(
        "Local error / step of the numerical integrators goes to 0 with their orders, within 0.15", "C section 3.1"
    ),
    "euler consistency": Claim(
        "The Euler net fails the consistency test: local error / step is at least 10 times larger at 1/8 of the step",
        "C sections 3.1, 3.4",
    ),
    "midpoint consistency": Claim(
        "The midpoint net passes it within its training error: at most twice as large at 1/8 of the step",
        "C sections 3.1, 3.4",
    ),
    "rk4 consistency": Claim(
        "The RK4 net passes it within its training error: at most twice as large at 1/8 of the step",
        "C sections 3.1, 3.4",
    ),
}


def run(study: Study) -> Findings:
    settings: Settings = study.settings
    study.plan(len(NETS) * len(study.seeds) + 1)
    fits = {
        net: [study.piece(f"fit-{net}-{seed}", lambda s=net, n=seed: fit(s, n, settings)) for seed in study.seeds]
        for net in NETS
    }
    values = study.piece(f"errors-of-{len(study.seeds)}", lambda: errors_of(fits, settings.duration))
    columns = ("field", "run with", *(f"dt = {k * DT:g}" for k in FACTORS), "local error / dt at 1 and 1/8")
    errors = Errors(values)
    rows = tuple(_row(errors, made, with_) for made in (TRUE, *NETS) for with_ in SCHEMES)
    notes = (
        f"Error: root mean square of angle and velocity against the closed form over T = {settings.duration:g} s; "
        "the geometric mean of the seeds.",
        f"Trained on [0, T] sampled at dt = {DT:g} with Adam ({settings.adam:,} steps), then L-BFGS (at most "
        f"{settings.lbfgs:,} iterations), in float64. The paper uses Adam alone and does not state T.",
        "Eq 18 squares the norm; here it is not squared, so that slopes are the orders.",
    )
    return Findings(columns, rows, verdicts_on(errors), lambda: _draw(errors, fits, settings.duration), notes)


def _row(errors: Errors, made: str, with_: str) -> tuple[Any, ...]:
    means = (10 ** float(np.mean(errors.orders("global", made, with_, k))) for k in FACTORS)
    local = (10 ** float(np.mean(errors.consistency(made, with_, k))) for k in (1, FINEST))
    return made, with_, *means, ", ".join(f"{value:.2g}" for value in local)


def verdicts_on(errors: Errors) -> tuple[ClaimVerdict, ...]:
    judged = _halved(errors) | _dips(errors) | _shape(errors) | _swaps(errors) | _consistent(errors)
    return tuple(ClaimVerdict(claim, *judged[name]) for name, claim in CLAIMS.items())


Judged = dict[str, tuple[str, Judgement]]


def _at_least(orders: list[float], least: float) -> Judgement:
    return better(orders, [least] * len(orders), paired=True, unit=f"{ORDERS} above {least:g}")


def _at_most(orders: list[float], most: float) -> Judgement:
    return no_worse([-order for order in orders], [0.0] * len(orders), most, paired=True, unit=ORDERS)


def _change(errors: Errors, field: str, scheme: str, factor: float, before: tuple[str, float]) -> list[float]:
    """Orders of magnitude that the error grows by, against another scheme and step."""
    after = errors.orders("global", field, scheme, factor)
    return [b - a for a, b in zip(errors.orders("global", field, *before), after, strict=True)]


def _halved(errors: Errors) -> Judged:
    at_dt = {net: errors.orders("global", net, net, 1) for net in NETS}
    told = ", ".join(f"{net} {_times(at_dt[net])}" for net in NETS)
    fitted = all_of(*(_at_most([order - FITTED for order in at_dt[net]], LARGE) for net in NETS))
    growth = {net: _change(errors, net, net, 0.5, (net, 1)) for net in NETS}
    return {"fit": (told, fitted)} | {
        f"{net} halved": (
            f"{_times(growth[net])} times the error at dt / 2",
            _at_least(growth[net], LARGE) if net == "euler" else _at_most(growth[net], SMALL),
        )
        for net in NETS
    }


def _dips(errors: Errors) -> Judged:
    dips = {net: errors.dip(net) for net in NETS}
    both = f"{_times(dips['euler'])} against {_times(dips['midpoint'])} times"
    return {"dips": (both, better(dips["euler"], dips["midpoint"], paired=True, unit=ORDERS))} | {
        f"{net} dip": (
            f"{_times(dip)} times lower than on both sides, after the scheme's own order",
            _at_least(dip, LARGE) if net == "euler" else _at_most(dip, SMALL),
        )
        for net, dip in dips.items()
    }


def _shape(errors: Errors) -> Judged:
    found: Judged = {}
    for net in NETS:
        own, rule = errors.slope(net, net, 10, 20), errors.slope(TRUE, net, 10, 20)[0]
        told = f"slope {np.mean(own):.2f}, the numerical rule's {rule:.2f}"
        found[f"{net} slope"] = (told, near(own, rule, SLOPE, unit="slope"))
    flat = {net: errors.slope(net, net, FINEST, FINER) for net in ("midpoint", "rk4")}
    told = ", ".join(f"{net} {np.mean(slope):.2f}" for net, slope in flat.items())
    found["floor"] = (f"slopes {told}", all_of(*(near(s, 0.0, SLOPE, unit="slope") for s in flat.values())))
    floor, left = errors.orders("global", "rk4", "rk4", FINEST), errors.orders("local", "rk4", "rk4", 1)
    above = [a - b for a, b in zip(floor, left, strict=True)]
    told = f"floor {_times(floor)}, one-step error {_times(left)}"
    found["level"] = (told, near(above, 0.0, LARGE, unit=ORDERS))
    orders = {net: errors.slope(TRUE, net, FINEST, FINER)[0] for net in NETS}
    return found | {"orders": _as_orders(orders)}


def _as_orders(slopes: dict[str, float]) -> tuple[str, Judgement]:
    told = ", ".join(f"{scheme} {slope:.2f}" for scheme, slope in slopes.items())
    return told, computed(all(abs(slopes[s] - SCHEMES[s]) <= EXACT for s in slopes), told)


def _swaps(errors: Errors) -> Judged:
    gains = {k: _change(errors, "midpoint", "midpoint", k, ("rk4", k)) for k in WIDE}
    losses = {scheme: _change(errors, "euler", scheme, 1, ("euler", 1)) for scheme in ("midpoint", "rk4")}
    everywhere = {k: _change(errors, "euler", "rk4", k, ("euler", k)) for k in FACTORS}
    told = ", ".join(f"{_times(gain)} at {k:g} dt" for k, gain in gains.items())
    lost = ", ".join(f"{_times(loss)} times with {scheme}" for scheme, loss in losses.items())
    least = min(everywhere, key=lambda k: float(np.mean(everywhere[k])))
    return {
        "swap gains": (f"its own error is larger by {told} times", _every(gains)),
        "swap fails": (lost, _every(losses)),
        "swap fails everywhere": (f"least at {least:g} dt: {_times(everywhere[least])} times", _every(everywhere)),
    }


def _every(changes: dict[Any, list[float]]) -> Judgement:
    return all_of(*(_at_least(change, LARGE) for change in changes.values()))


def _consistent(errors: Errors) -> Judged:
    slopes = {net: errors.slope(TRUE, net, FINEST, FINER, "local")[0] - 1 for net in NETS}
    found: Judged = {"consistency": _as_orders(slopes)}
    for net in NETS:
        fine, own = errors.consistency(net, net, FINEST), errors.consistency(net, net, 1)
        growth = [a - b for a, b in zip(fine, own, strict=True)]
        judgement = _at_least(growth, LARGE) if net == "euler" else _at_most(growth, SMALL)
        found[f"{net} consistency"] = (
            f"{_times(growth)} times: {_times(own)} at dt, {_times(fine)} at dt / 8",
            judgement,
        )
    return found


def _times(orders: list[float]) -> str:
    """Orders of magnitude as numbers, from the lowest to the highest."""
    low, high = f"{10 ** min(orders):.2g}", f"{10 ** max(orders):.2g}"
    return low if low == high else f"{low} to {high}"


def _draw(errors: Errors, fits: dict[str, list], duration: float) -> "Figure":
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(11, 7.2), constrained_layout=True)
    colours = {"euler": "#c2571a", "midpoint": "#7a7f2a", "rk4": "#0b6e99"}
    steps = [k * DT for k in FACTORS]
    for place, dt in zip(axes[0], (DT, DT / 2), strict=True):
        times = np.arange(round(duration / DT) + 1) * DT
        place.plot(times, truth(times)[:, 0], color="black", linewidth=3, alpha=0.25, label="closed form")
        for made in ("euler", "rk4"):
            when, states = rollout(field_of(fits[made][0]), made, dt, duration)
            place.plot(when, states[:, 0], color=colours[made], linewidth=1.3, label=f"{made} net")
        when, states = rollout(pendulum, "euler", dt, duration)
        place.plot(when, states[:, 0], color="grey", linewidth=1, linestyle=":", label="numerical Euler")
        place.set(title=f"Run with dt = {dt:g} (trained at {DT:g})", xlabel="time (s)", ylabel="angle", ylim=(-6, 6))
        place.legend(fontsize=8, loc="lower left")
    for net, colour in colours.items():
        axes[1][0].loglog(steps, _means(errors, net, net), "o-", color=colour, label=f"{net} net")
        axes[1][0].loglog(steps, _means(errors, TRUE, net), ":", color=colour, label=f"numerical {net}")
        axes[1][1].loglog(steps, _means(errors, net, "rk4"), "^-", color=colour, label=f"{net} net run with RK4")
        axes[1][1].loglog(steps, _means(errors, net, "euler"), "o--", color=colour, label=f"{net} net run with Euler")
    for place, title in zip(axes[1], ("Each net with its own scheme", "With another scheme"), strict=True):
        place.axvline(DT, color="black", alpha=0.3, linewidth=1)
        place.set(title=title, xlabel="dt (the line: what they were trained at)", ylabel="RMS error", ylim=(1e-9, 30))
        place.legend(fontsize=7.5)
        place.grid(alpha=0.25)
    return figure


def _means(errors: Errors, made: str, with_: str) -> list[float]:
    return [10 ** float(np.mean(errors.orders("global", made, with_, k))) for k in FACTORS]


EXPERIMENTS.add(
    "pendulum",
    Experiment("Is a net trained on one step a continuous system?", "ContinuousNet, section 3", SETTINGS, run, seeds=5),
)
