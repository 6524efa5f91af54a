"""Adaptive solvers: a loose tolerance does what large steps do (Proper ODEs, app. B.6, Figs 20 and 21)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from anydepth.errors import NumericalError
from anydepth.reproduce import EXPERIMENTS
from anydepth.reproduce.ensemble import data_of
from anydepth.reproduce.experiment import Claim, Experiment, Findings, Verdict
from anydepth.reproduce.flows import CPU, PAPER, SMOKE, SPHERES, THRESHOLD, Task, block_of, predictions
from anydepth.reproduce.judging import spread
from anydepth.reproduce.study import Study
from anydepth.solve.adaptive import SolverError
from anydepth.train.runs import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCHEMES = ("fehlberg21", "dopri54")
TIGHTER = (10.0, 1.0, 0.1, 0.01)
"""Factors on the tolerances, in tests."""
MOST_STEPS = 2000
"""What a solver may take, in tests."""


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
    study.plan(len(SCHEMES) * len(settings.tolerances) * len(study.seeds))
    found = {
        (scheme, tolerance): [
            study.piece(
                f"{scheme}-{tolerance:g}-{seed}", lambda s=scheme, t=tolerance, n=seed: _trained(study, s, t, n)
            )
            for seed in study.seeds
        ]
        for scheme in SCHEMES
        for tolerance in settings.tolerances
    }
    rows = tuple(_row(scheme, tolerance, seeds) for (scheme, tolerance), seeds in found.items())
    columns = (
        "trained with",
        "tolerance",
        "evaluations",
        "accuracy (%)",
        "spread",
        "largest change (points)",
        "proper",
    )
    notes = (
        f"{settings.task.title}; {', '.join(settings.task.settings) or 'as published'}; absolute tolerances equal the "
        f"relative ones. Tests at {', '.join(f'{factor:g}' for factor in TIGHTER)} times the tolerances. A net is "
        f"proper when no tighter tolerance changes its test accuracy by more than {THRESHOLD:g} points. Rules: with "
        "the loosest tolerance most nets are not proper, with the tightest all are."
    )
    return Findings(
        columns, rows, _verdicts(found, settings.tolerances), lambda: _draw(found, settings.tolerances), notes
    )


def _trained(study: Study, scheme: str, tolerance: float, seed: int) -> dict[str, Any] | None:
    limits = (f"model.options.rtol={tolerance:g}", f"model.options.atol={tolerance:g}", "model.options.steps=null")
    config = study.settings.task.config(seed, scheme, 1, *limits)
    try:
        run = study.trained(f"tolerances-{scheme}-{tolerance:g}", config)
    except (NumericalError, SolverError):
        return None
    return _tested(study, run, tolerance)


def _tested(study: Study, run: Run, tolerance: float) -> dict[str, Any]:
    model, epochs = run.model(), [line for line in run.metrics() if line["kind"] == "epoch"]
    own = _accuracy(study, run, model, tolerance)
    return {
        "nfe": epochs[-1]["evaluations"] / epochs[-1]["step"],
        "accuracy": own,
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


def _change(one: dict[str, Any], tolerance: float) -> float:
    return max(abs(accuracy - one["accuracy"]) for tested, accuracy in one["tests"] if tested <= tolerance)


def _row(scheme: str, tolerance: float, seeds: list[dict[str, Any] | None]) -> tuple[Any, ...]:
    good = [one for one in seeds if one]
    if not good:
        return (scheme, f"{tolerance:g}", None, None, None, None, f"0 of {len(seeds)}")
    changes = [_change(one, tolerance) for one in good]
    return (
        scheme,
        f"{tolerance:g}",
        float(np.mean([one["nfe"] for one in good])),
        float(np.mean([one["accuracy"] for one in good])),
        float(np.std([one["accuracy"] for one in good])),
        float(np.mean(changes)),
        f"{sum(gap <= THRESHOLD for gap in changes)} of {len(seeds)}",
    )


Found = dict[tuple[str, float], list[dict[str, Any] | None]]


def _verdicts(found: Found, tolerances: tuple[float, ...]) -> tuple[Verdict, ...]:
    verdicts = []
    for scheme, figure in zip(SCHEMES, ("P Fig 20", "P Fig 21"), strict=True):
        changes = {t: [_change(one, t) for one in found[scheme, t] if one] for t in tolerances}
        loose, tight = max(tolerances), min(tolerances)
        if not changes[loose] or not changes[tight]:
            verdicts.append(Verdict(Claim(f"{scheme}: a loose tolerance ties a net to it", figure), "failed", None))
            continue
        verdicts += [
            Verdict(
                Claim(f"{scheme}: a net trained with a loose tolerance depends on it", figure, "dependent"),
                f"at {loose:g}, tighter tolerances change the accuracy by {spread(changes[loose], 1)} points",
                float(np.mean([gap > THRESHOLD for gap in changes[loose]])) > 0.5,
            ),
            Verdict(
                Claim(f"{scheme}: trained with a tight one, it does not", figure, "independent"),
                f"at {tight:g}, by {spread(changes[tight], 1)} points",
                max(changes[tight]) <= THRESHOLD,
            ),
        ]
    return tuple(verdicts)


def _draw(found: Found, tolerances: tuple[float, ...]) -> "Figure":
    import matplotlib.pyplot as plt
    from matplotlib import colormaps

    figure, axes = plt.subplots(1, len(SCHEMES), figsize=(10, 3.8), constrained_layout=True, sharey=True)
    for place, scheme in zip(axes, SCHEMES, strict=True):
        for rank, tolerance in enumerate(tolerances):
            colour = colormaps["viridis"](0.9 * rank / max(1, len(tolerances) - 1))
            for i, one in enumerate(one for one in found[scheme, tolerance] if one):
                tested, accuracies = zip(*one["tests"], strict=True)
                label = f"trained at {tolerance:g}" if i == 0 else None
                place.plot(tested, accuracies, ".-", color=colour, alpha=0.6, label=label)
                place.plot(tolerance, one["accuracy"], "o", color=colour, markersize=8, markeredgecolor="black")
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
        seeds=2,
    ),
)
