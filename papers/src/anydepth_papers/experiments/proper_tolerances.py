"""Adaptive solvers: a loose tolerance does what large steps do (Proper ODEs, app. B.6, Figs 20, 21); adapting it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from anydepth.errors import NumericalError
from anydepth.runs.folder import Run
from anydepth.solve.adaptive import SolverError
from anydepth_papers.experiments import EXPERIMENTS
from anydepth_papers.judge.experiment import Claim, ClaimVerdict, Experiment, Findings
from anydepth_papers.judge.rules import better_median, no_worse_median, proportion
from anydepth_papers.judge.study import Study
from anydepth_papers.judge.wording import spread
from anydepth_papers.nets.ensemble import data_of
from anydepth_papers.nets.flows import (
    CPU,
    NEARLY_ALL,
    PAPER,
    SMOKE,
    SPHERES,
    THRESHOLD,
    Task,
    block_of,
    commonest,
    predictions,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCHEMES = ("fehlberg21", "dopri54")
TIGHTER = (10.0, 1.0, 0.1, 0.01)
"""Factors on the tolerances, in tests."""
MOST_STEPS = 2000
"""What a solver may take, in tests."""
ADAPTED, FIRST = "adapted", 0.1
"""Algorithm 1 on the tolerance, and the tolerance that it begins with."""
CLAIMS = {
    "loose": Claim(
        f"trained with the loosest tolerance, tighter ones change the accuracy by more than {THRESHOLD:g} points",
        "P app. B.6",
        "dependent on the tolerance",
    ),
    "tight": Claim(
        f"trained with the tightest tolerance, tighter ones change it by at most {THRESHOLD:g} points",
        "P app. B.6",
        "independent of it",
    ),
    ADAPTED: Claim(
        f"at least {100 * NEARLY_ALL:g} % of all nets whose tolerance Algorithm 1 chose in training are proper ODEs",
        "ours, after P section 6",
        "future work",
    ),
}
"""Changes are judged in the median over seeds, since some nets on spheres fail."""


@dataclass(frozen=True)
class Settings:
    """The task, and the tolerances it is trained with, relative and absolute ones alike."""

    task: Task
    tolerances: tuple[float, ...]


SETTINGS = {
    "smoke": Settings(SMOKE[SPHERES], (1.0, 1e-2)),
    "cpu": Settings(
        Task(CPU[SPHERES].title, CPU[SPHERES].recipe, ("training.steps=500", "optimizer.lr=2e-3")),
        (1.0, 1e-1, 1e-2, 1e-3),
    ),
    "paper": Settings(PAPER[SPHERES], (1.0, 1e-1, 1e-2, 1e-3, 1e-4)),
}


def run(study: Study) -> Findings:
    settings: Settings = study.settings
    study.plan(len(SCHEMES) * (len(settings.tolerances) + 1) * len(study.seeds) + 1)
    found = {
        (scheme, tolerance): [
            study.piece(
                f"{scheme}-{_named(tolerance)}-{seed}", lambda s=scheme, t=tolerance, n=seed: _trained(study, s, t, n)
            )
            for seed in study.seeds
        ]
        for scheme in SCHEMES
        for tolerance in (*settings.tolerances, None)
    }
    chance = study.piece("chance", lambda: commonest(study, settings.task))
    kept = succeeded(found, chance)
    rows = tuple(_row(scheme, tolerance, seeds) for (scheme, tolerance), seeds in kept.items())
    columns = (
        "trained with",
        "tolerance",
        "tolerance at the end",
        "evaluations",
        "accuracy (%)",
        "spread",
        "median",
        "largest change (points)",
        "proper",
        "failed",
    )
    notes = (
        f"{settings.task.title}; {', '.join(settings.task.settings) or 'as published'}; absolute tolerances equal the "
        "relative ones.",
        f"Tests at {', '.join(f'{factor:g}' for factor in TIGHTER)} times the tolerance at the end of the training. A "
        f"net is proper when no tighter tolerance changes its test accuracy by more than {THRESHOLD:g} points.",
        f"{ADAPTED}: Algorithm 1 with the tolerance in the place of the step, from {FIRST:g} on: every 50 iterations, "
        "halved where a tenth of it changes the accuracy on a batch by more than 0.1, else times 1.1.",
        "A seed failed if its training did not get through or learnt less than half of the way from the commonest "
        "class to the best net. Failed seeds are counted, grey in the figure, and left out of everything else.",
    )
    verdicts = _verdicts(kept, settings.tolerances)
    return Findings(columns, rows, verdicts, lambda: _draw(found, kept, settings.tolerances), notes)


def succeeded(found: "Found", chance: float) -> "Found":
    """The same with None for seeds that learnt less than half of the way from chance to the best."""
    least = (chance + max((one["accuracy"] for nets in found.values() for one in nets if one), default=chance)) / 2
    return {key: [one if one and one["accuracy"] >= least else None for one in nets] for key, nets in found.items()}


def _named(tolerance: float | None) -> str:
    return ADAPTED if tolerance is None else f"{tolerance:g}"


def _trained(study: Study, scheme: str, tolerance: float | None, seed: int) -> dict[str, Any] | None:
    """With one tolerance; None: with one that is adapted."""
    first = FIRST if tolerance is None else tolerance
    limits = (f"model.options.rtol={first:g}", f"model.options.atol={first:g}", "model.options.steps=null")
    control = ("control.name=paper_tolerance",) if tolerance is None else ()
    config = study.settings.task.config(seed, scheme, 1, *limits, *control)
    try:
        run = study.trained(f"tolerances-{scheme}-{_named(tolerance)}", config)
    except (NumericalError, SolverError):
        return None
    return _tested(study, run, first)


def _tested(study: Study, run: Run, first: float) -> dict[str, Any]:
    model, lines = run.model(), run.metrics()
    epochs = [line for line in lines if line["kind"] == "epoch"]
    tolerance = next((line["rtol"] for line in reversed(lines) if line["kind"] == "control"), first)
    own = _accuracy(study, run, model, tolerance)
    return {
        "nfe": epochs[-1]["evaluations"] / epochs[-1]["step"],
        "accuracy": own,
        "tolerance": tolerance,
        "tests": [(tolerance * factor, _accuracy(study, run, model, tolerance * factor)) for factor in TIGHTER],
    }


def _accuracy(study: Study, run: Run, model: nn.Module, tolerance: float) -> float:
    """In per cent; a solver that does not get through tells nothing, and counts as 0."""
    block_of(model).set_solver(rtol=tolerance, atol=tolerance, max_steps=MOST_STEPS)
    test = data_of(run.config, study.data).part("test")
    _, targets = test.batch(np.arange(len(test)), run.facts)
    try:
        return round(100 * float((predictions(model, test, run.facts) == targets).double().mean()), 3)
    except SolverError:
        return 0.0


def change(one: dict[str, Any]) -> float:
    """The largest change of accuracy by a tighter tolerance."""
    return max(abs(accuracy - one["accuracy"]) for tested, accuracy in one["tests"] if tested <= one["tolerance"])


def _row(scheme: str, tolerance: float | None, seeds: list[dict[str, Any] | None]) -> tuple[Any, ...]:
    good = [one for one in seeds if one]
    if not good:
        return (scheme, _named(tolerance), *[None] * 6, "-", f"{len(seeds)} of {len(seeds)}")
    changes, accuracies = [change(one) for one in good], [one["accuracy"] for one in good]
    return (
        scheme,
        _named(tolerance),
        float(np.median([one["tolerance"] for one in good])),
        float(np.mean([one["nfe"] for one in good])),
        float(np.mean(accuracies)),
        float(np.std(accuracies, ddof=1)) if len(good) > 1 else None,
        float(np.median(accuracies)),
        float(np.median(changes)),
        f"{sum(gap <= THRESHOLD for gap in changes)} of {len(good)}",
        f"{len(seeds) - len(good)} of {len(seeds)}",
    )


Found = dict[tuple[str, float | None], list[dict[str, Any] | None]]


def _verdicts(found: Found, tolerances: tuple[float, ...]) -> tuple[ClaimVerdict, ...]:
    verdicts = []
    for scheme, figure in zip(SCHEMES, ("Fig 20", "Fig 21"), strict=True):
        loose, tight = ([change(one) for one in found[scheme, t] if one] for t in (max(tolerances), min(tolerances)))
        limits = [THRESHOLD] * len(loose)
        verdicts += [
            ClaimVerdict(
                _claim("loose", scheme, figure), _points(max(tolerances), loose), better_median(loose, limits)
            ),
            ClaimVerdict(
                _claim("tight", scheme, figure),
                _points(min(tolerances), tight),
                no_worse_median([-gap for gap in tight], [0.0] * len(tight), THRESHOLD),
            ),
            _adapted(scheme, found[scheme, None]),
        ]
    return tuple(verdicts)


def _adapted(scheme: str, nets: list[dict[str, Any] | None]) -> ClaimVerdict:
    good = [one for one in nets if one]
    proper = sum(change(one) <= THRESHOLD for one in good)
    told = f"{proper} of {len(good)} seeds that learnt are proper"
    if good:
        ends, costs = ([one[key] for one in good] for key in ("tolerance", "nfe"))
        told += f"; tolerances from {FIRST:g} to {spread(ends, 3)}, {spread(costs, 1)} evaluations per iteration"
    return ClaimVerdict(_claim(ADAPTED, scheme), told, proportion(proper, len(good), NEARLY_ALL))


def _claim(kind: str, scheme: str, figure: str = "") -> Claim:
    known = CLAIMS[kind]
    return Claim(f"{scheme}: {known.sentence}", f"{known.source}{figure and ', ' + figure}", known.paper)


def _points(tolerance: float, changes: list[float]) -> str:
    if not changes:
        return f"at {tolerance:g}: all trainings failed"
    return f"at {tolerance:g}: median {float(np.median(changes)):.1f}, {spread(changes, 1)} points"


def _draw(found: Found, kept: Found, tolerances: tuple[float, ...]) -> "Figure":
    import matplotlib.pyplot as plt
    from matplotlib import colormaps

    figure, axes = plt.subplots(1, len(SCHEMES), figsize=(10, 3.8), constrained_layout=True, sharey=True)
    for place, scheme in zip(axes, SCHEMES, strict=True):
        for rank, tolerance in enumerate((*tolerances, None)):
            colour = colormaps["viridis"](0.9 * rank / len(tolerances)) if tolerance else "#c2571a"
            failed = [
                one for one, good in zip(found[scheme, tolerance], kept[scheme, tolerance], strict=True) if not good
            ]
            for one in (one for one in failed if one):
                place.plot(one["tolerance"], one["accuracy"], "o", color="0.75", markersize=5, zorder=1)
            for i, one in enumerate(one for one in kept[scheme, tolerance] if one):
                tested, accuracies = zip(*one["tests"], strict=True)
                label = (f"trained at {tolerance:g}" if tolerance else ADAPTED) if i == 0 else None
                place.plot(tested, accuracies, ".-", color=colour, alpha=0.6, label=label)
                place.plot(one["tolerance"], one["accuracy"], "o", color=colour, markersize=8, markeredgecolor="black")
        place.set(title=scheme, xscale="log", xlabel="tolerance in the test")
        place.grid(alpha=0.25)
        place.legend(fontsize=8)
    axes[0].set_ylabel("test accuracy (%)")
    return figure


EXPERIMENTS.add(
    "tolerances",
    Experiment(
        "Tolerances of adaptive solvers in the place of step sizes",
        "Proper ODEs, app. B.6, Figs 20 and 21",
        SETTINGS,
        run,
        seeds=6,
    ),
)
