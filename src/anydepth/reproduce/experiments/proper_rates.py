"""Does accuracy depend on the step once the learning rate is chosen for every step (Proper ODEs, section 4.1)?"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from anydepth.reproduce import EXPERIMENTS
from anydepth.reproduce.experiment import Claim, Experiment, Findings, Verdict
from anydepth.reproduce.experiments.proper_grid import Cell, criticals, has_critical, succeeded, told_of
from anydepth.reproduce.flows import (
    LANDSCAPE,
    PAPER,
    SMOKE,
    THRESHOLD,
    Task,
    accuracy_on,
    commonest,
    examine,
    trained_flows,
)
from anydepth.reproduce.study import Study
from anydepth.train.runs import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ITERATIONS = 10_000
"""At cpu scale."""
RATES = (5e-4, 2e-3, 3e-3, 5e-3)
"""The published one first."""
_HELD_OUT = ("data.options.train=2500", "data.validation=500", "evaluation.test=false")
"""Besides the published 2000 examples to learn from; no training looks at the test part."""
_FEW = (*SMOKE[LANDSCAPE].settings, "data.options.train=150", "data.validation=30", "evaluation.test=false")


@dataclass(frozen=True)
class Settings:
    """A task whose settings leave the learning rate as published, and the rates to choose from."""

    task: Task
    rates: tuple[float, ...] = RATES

    @property
    def published(self) -> float:
        return self.task.config(0).optimizer.lr


_LONG = PAPER[LANDSCAPE]
SETTINGS = {
    "smoke": Settings(replace(SMOKE[LANDSCAPE], settings=_FEW), RATES[:2]),
    "cpu": Settings(replace(_LONG, settings=(*_HELD_OUT, f"training.steps={ITERATIONS}"), euler=_LONG.euler[:7])),
    "paper": Settings(replace(_LONG, settings=_HELD_OUT)),
}

Means = dict[float, dict[int, float]]
"""Of accuracies over seeds, by learning rate and number of steps."""


def run(study: Study) -> Findings:
    settings: Settings = study.settings
    task, rates = settings.task, settings.rates
    study.plan((len(rates) + 1) * len(task.euler) * len(study.seeds) + 2)
    chance = study.piece("chance-validation", lambda: commonest(study, task, "validation"))
    validated = {rate: {steps: _validated(study, task, steps, rate) for steps in task.euler} for rate in rates}
    means = means_of(validated, chance)
    chosen = best_rates(means)
    cells = {steps: _tested(study, task, steps, rate) for steps, rate in chosen.items()}
    kept = succeeded({"euler": cells}, study.piece("chance-test", lambda: commonest(study, task)))["euler"]
    published = settings.published
    rows = tuple(
        (steps, chosen[steps], means[chosen[steps]][steps], means[published][steps], *told_of(kept[steps]))
        for steps in task.euler
    )
    columns = (
        "steps",
        "chosen rate",
        "validation accuracy (%)",
        f"the same with rate {published:g}",
        "test accuracy (%)",
        "spread",
        "largest change (points)",
        "least agreement (%)",
        "proper",
        "failed",
    )
    left = without_failed(validated, chance)
    verdicts = (
        is_independent(task.title, kept, chosen, max(rates)),
        is_due_to_rate(task.title, published, chosen, means, left),
        has_critical(f"{task.title}, rates chosen", criticals(kept)),
    )
    return Findings(columns, rows, verdicts, lambda: _draw(task, means, chosen, kept), _notes(settings))


# Training and looking


def _validated(study: Study, task: Task, steps: int, rate: float) -> Cell:
    def look(run: Run | None) -> dict[str, Any] | None:
        accuracy = accuracy_on(study, run, "validation")
        return None if accuracy is None else {"accuracy": accuracy}

    return _of_every_seed(study, task, steps, rate, "validation", look)


def _tested(study: Study, task: Task, steps: int, rate: float) -> Cell:
    return _of_every_seed(study, task, steps, rate, "test", lambda run: examine(study, run))


def _of_every_seed(
    study: Study, task: Task, steps: int, rate: float, part: str, look: Callable[[Run | None], dict[str, Any] | None]
) -> Cell:
    """What `look` finds about the net of every seed, each a piece; the first piece trains them all."""
    faster = replace(task, settings=(*task.settings, f"optimizer.lr={rate:g}"))

    def net(i: int) -> Run | None:
        return trained_flows(study, f"rates-{rate:g}", faster, "euler", steps, study.seeds)[i]

    return [
        study.piece(f"{part}-{steps}-{rate:g}-{seed}", lambda i=i: look(net(i))) for i, seed in enumerate(study.seeds)
    ]


# Choosing and judging


def means_of(validated: dict[float, dict[int, Cell]], chance: float) -> Means:
    """Mean accuracies over seeds; a seed that failed counts as the commonest class."""
    return {
        rate: {
            steps: float(np.mean([one["accuracy"] if one else chance for one in cell])) for steps, cell in cells.items()
        }
        for rate, cells in validated.items()
    }


def without_failed(validated: dict[float, dict[int, Cell]], chance: float) -> Means:
    """The same without seeds that failed or learnt too little; a rate with no other seeds has no mean."""
    return {rate: _means(cells) for rate, cells in succeeded(validated, chance).items()}


def _means(cells: dict[int, Cell]) -> dict[int, float]:
    return {
        steps: float(np.mean([one["accuracy"] for one in cell if one])) for steps, cell in cells.items() if any(cell)
    }


def best_rates(means: Means) -> dict[int, float]:
    """For every number of steps the rate with the highest mean; of equals the first."""
    return {steps: max(means, key=lambda rate: means[rate][steps]) for steps in next(iter(means.values()))}


def is_independent(title: str, kept: dict[int, Cell], chosen: dict[int, float], largest: float) -> Verdict:
    means = _means(kept)
    more = {steps: mean for steps, mean in means.items() if steps > 1}
    claim = Claim(
        f"{title}: accuracy with the solver of the training does not depend on its step, once the learning rate is "
        "chosen for every step",
        "P section 4.1",
        "no clear dependence; trends could be due to the learning rate",
    )
    if len(more) < 2:
        return Verdict(claim, "too few trainings succeeded", None)
    count = sum(rate == largest for rate in chosen.values())
    told = f"means {_ends(means)}; {_ends(more)} without the net of a single step"
    edge = f"the largest rate, {largest:g}, is chosen for {count} of {len(chosen)} numbers of steps"
    return Verdict(claim, f"{told}; {edge}", _width(means) <= THRESHOLD)


def is_due_to_rate(title: str, published: float, chosen: dict[int, float], means: Means, left: Means) -> Verdict:
    """Whether choosing rates takes at least half of the range of the means over steps away."""
    before, after = means[published], _picked(means, chosen)
    told = (
        f"means on validation data {_ends(before)} with rate {published:g}, {_ends(after)} with chosen rates: ranges "
        f"of {_width(before):.1f} and {_width(after):.1f} points; without failed seeds {_width(left[published]):.1f} "
        f"and {_width(_picked(left, chosen)):.1f}"
    )
    claim = Claim(
        f"{title}: a trend at one learning rate is due to that rate",
        "P section 4.1",
        "any visible trends could be due to this choice",
    )
    return Verdict(claim, told, _width(after) <= _width(before) / 2)


def _picked(means: Means, chosen: dict[int, float]) -> dict[int, float]:
    """Of every number of steps the mean with its chosen rate, where it has one."""
    return {steps: means[rate][steps] for steps, rate in chosen.items() if steps in means[rate]}


def _width(means: dict[int, float]) -> float:
    return max(means.values()) - min(means.values()) if means else 0.0


def _ends(means: dict[int, float]) -> str:
    """The lowest and the highest mean, with their steps."""
    ends = (min(means, key=means.__getitem__), max(means, key=means.__getitem__))
    low, high = (f"{means[steps]:.1f} % ({steps} step{'s' * (steps != 1)})" for steps in ends)
    return f"from {low} to {high}"


def _notes(settings: Settings) -> str:
    task = settings.task
    config = task.config(0)
    return (
        f"{task.title}, Euler's method; {config.training.steps} iterations; changes of the published settings: "
        f"{', '.join(task.settings)}. For every number of steps all seeds are trained with each of the rates "
        f"{', '.join(f'{rate:g}' for rate in settings.rates)} (published: {settings.published:g}). The rate with the "
        "highest mean accuracy on validation data is chosen, where a training that left the finite numbers counts as "
        "the commonest class; these are the means on validation data in table and figure. Then, and with the chosen "
        "rate only, the nets are run on the test part, with other solvers too, as in `proper-grid`. The list of rates "
        "was drawn up on validation data of the same seeds. A seed failed if "
        "it left the finite numbers or learnt less than half of the way from the commonest class to the best net; "
        "failed seeds are left out of means on test data. Rules: accuracy does not depend on the step if the means "
        f"over seeds differ by at most {THRESHOLD:g} points, as in `proper-grid`; a trend is due to the rate if chosen "
        "rates leave at most half of the range that the published rate has, on validation data; a net is proper when "
        "no solver with steps as small and order as high changes its test accuracy by more than "
        f"{THRESHOLD:g} points."
    )


def _draw(task: Task, means: Means, chosen: dict[int, float], kept: dict[int, Cell]) -> "Figure":
    import matplotlib.pyplot as plt
    from matplotlib import colormaps

    figure, place = plt.subplots(figsize=(6.4, 4.2), constrained_layout=True)
    for rank, (rate, line) in enumerate(means.items()):
        colour = colormaps["viridis"](0.9 * rank / max(1, len(means) - 1))
        place.plot([*line], [*line.values()], ".-", color=colour, label=f"rate {rate:g}, validation")
    best = _picked(means, chosen)
    ring = {"markersize": 10, "markerfacecolor": "none", "markeredgecolor": "black"}
    place.plot([*best], [*best.values()], "o", **ring, label="chosen")
    tested = {steps: [one["accuracy"] for one in cell if one] for steps, cell in kept.items() if any(cell)}
    middle, error = ([float(f(some)) for some in tested.values()] for f in (np.mean, np.std))
    place.errorbar([*tested], middle, error, fmt="s--", color="#c2571a", capsize=3, label="chosen, test")
    place.set_xscale("log", base=2)
    place.set(title=task.title, xlabel="Euler steps, in training and test", ylabel="accuracy (%)")
    place.grid(alpha=0.25)
    place.legend(fontsize=8)
    return figure


EXPERIMENTS.add(
    "rates",
    Experiment(
        "Does accuracy depend on the step? With a learning rate chosen for every number of steps",
        "Proper ODEs, section 4.1",
        SETTINGS,
        run,
        seeds=5,
    ),
)
