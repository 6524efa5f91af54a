"""Does accuracy depend on the step once the learning rate is chosen for every step (Proper ODEs, section 4.1)?"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from anydepth.runs.folder import Run
from anydepth_papers.experiments import EXPERIMENTS
from anydepth_papers.judge.experiment import Claim, ClaimVerdict, Experiment, Findings
from anydepth_papers.judge.rules import better
from anydepth_papers.judge.study import Study
from anydepth_papers.judge.wording import spread
from anydepth_papers.nets.flows import (
    LANDSCAPE,
    PAPER,
    RESOLUTION,
    SMOKE,
    THRESHOLD,
    Task,
    accuracy_on,
    commonest,
    examine,
    trained_flows,
)
from anydepth_papers.studies.grid_rules import (
    COLUMNS,
    NOTES,
    Cell,
    criticals,
    ends,
    has_no_trend,
    is_continuous,
    succeeded,
    told_of,
    trends,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ITERATIONS = 10_000
"""At cpu scale."""
RATES = (5e-4, 2e-3, 3e-3, 5e-3)
"""The published one first."""
_HELD_OUT = ("data.options.train=2500", "data.validation=500", "evaluation.test=false")
"""Besides the published 2000 examples to learn from; no training looks at the test part."""
INDEPENDENT = Claim(
    f"three minima: with a learning rate chosen for every number of Euler steps, accuracy has a trend of at most "
    f"{THRESHOLD:g} points over all of them",
    "P section 4.1",
    "no clear dependence; trends could be due to the learning rate",
)
DUE_TO_RATE = Claim(
    "three minima: choosing the learning rate for every number of steps takes more than half of the trend away",
    "P section 4.1",
    "any visible trends could be due to this choice",
)
"""On validation data, seed by seed, a training that failed counting as the commonest class."""
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
        *(f"test {column}" if column.startswith("accuracy") else column for column in COLUMNS),
    )
    verdicts = (
        is_independent(kept, chosen, max(rates)),
        is_due_to_rate(published, chosen, filled(validated, chance)),
        is_continuous(f"{task.title}, rates chosen", kept, criticals(kept)),
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


Validated = dict[float, dict[int, Cell]]
"""What was found on validation data, by learning rate and number of steps."""


def filled(validated: Validated, chance: float) -> Validated:
    """The same with the commonest class for a seed that failed."""
    return {
        rate: {steps: [one or {"accuracy": chance} for one in cell] for steps, cell in cells.items()}
        for rate, cells in validated.items()
    }


def means_of(validated: Validated, chance: float) -> Means:
    """Mean accuracies over seeds; a seed that failed counts as the commonest class."""
    return {rate: _means(cells) for rate, cells in filled(validated, chance).items()}


def _means(cells: dict[int, Cell]) -> dict[int, float]:
    return {
        steps: float(np.mean([one["accuracy"] for one in cell if one])) for steps, cell in cells.items() if any(cell)
    }


def best_rates(means: Means) -> dict[int, float]:
    """For every number of steps the rate with the highest mean; of equals the first."""
    return {steps: max(means, key=lambda rate: means[rate][steps]) for steps in next(iter(means.values()))}


def is_independent(kept: dict[int, Cell], chosen: dict[int, float], largest: float) -> ClaimVerdict:
    verdict = has_no_trend(INDEPENDENT, kept)
    count = sum(rate == largest for rate in chosen.values())
    edge = f"the largest rate, {largest:g}, is chosen for {count} of {len(chosen)} numbers of steps"
    return replace(verdict, ours=f"{verdict.ours}; {edge}")


def is_due_to_rate(published: float, chosen: dict[int, float], validated: Validated) -> ClaimVerdict:
    """Whether chosen rates leave less than half of a seed's trend."""
    before, after = validated[published], {steps: validated[rate][steps] for steps, rate in chosen.items()}
    sizes = [[abs(trend) for trend in trends(cells)] for cells in (before, after)]
    told = (
        f"trends of {spread(sizes[0], 1)} points with rate {published:g}, means {ends(_means(before))}; of "
        f"{spread(sizes[1], 1)} with chosen rates, means {ends(_means(after))}"
    )
    halves = [size / 2 for size in sizes[0]]
    return ClaimVerdict(DUE_TO_RATE, told, better(halves, sizes[1], paired=True, resolution=RESOLUTION))


def _picked(means: Means, chosen: dict[int, float]) -> dict[int, float]:
    """Of every number of steps the mean with its chosen rate, where it has one."""
    return {steps: means[rate][steps] for steps, rate in chosen.items() if steps in means[rate]}


def _notes(settings: Settings) -> tuple[str, ...]:
    task = settings.task
    config = task.config(0)
    return (
        f"{task.title}, Euler's method; {config.training.steps} iterations; changes of the published settings: "
        f"{', '.join(task.settings)}.",
        "For every number of steps all seeds are trained with each of the rates "
        f"{', '.join(f'{rate:g}' for rate in settings.rates)} (published: {settings.published:g}). The rate with the "
        "highest mean accuracy on validation data is chosen; a training that failed counts as the commonest class.",
        "The test part is looked at with the chosen rate only. The list of rates was drawn up on validation data of "
        "the same seeds.",
        *NOTES,
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
