"""Steps chosen while training, against a search over steps (Proper ODEs, section 5, Table 1)."""

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from anydepth.runs.folder import Run
from anydepth.train.vary import STEADY
from anydepth_papers.experiments import EXPERIMENTS
from anydepth_papers.judge.experiment import ClaimVerdict, Experiment, Findings
from anydepth_papers.judge.rules import not_run
from anydepth_papers.judge.study import Study
from anydepth_papers.nets.flows import (
    AGREEMENT,
    THRESHOLD,
    Task,
    agreement,
    change,
    commonest,
    examine,
    is_proper,
    of_every_seed,
    trained_or_failed,
)
from anydepth_papers.studies.adaption_settings import (
    CONTROLS,
    IN_FULL,
    LOOKED_AT,
    NOT_RUN,
    ON_IMAGES,
    SETTINGS,
    Settings,
)
from anydepth_papers.studies.table_one import (
    MOST_ACCURATE,
    RULES,
    UNVARIED,
    Net,
    Nets,
    best_run,
    coarsest,
    steps_of,
    verdicts_on,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Found = dict[str, dict[str, Nets]]
"""By task and method."""


def run(study: Study) -> Findings:
    settings: Settings = study.settings
    tasks, seeds = settings.tasks, [seed + LOOKED_AT for seed in study.seeds]
    study.plan(sum((len(task.euler) + len(settings.controllers)) * len(seeds) + 1 for task in tasks.values()))
    found: Found = {name: {} for name in tasks}
    least = {}
    for name, task in tasks.items():
        found[name] = _searched(study, name, task, seeds)
        for control in settings.controllers:
            found[name][control] = [_piece(study, name, task, control, seed) for seed in seeds]
        chance = study.piece(f"{name}-chance", lambda t=task: commonest(study, t))
        least[name] = failing(chance, found[name])
    rows = tuple(
        _row(tasks[name].title, method, found[name][method], least[name])
        for name in tasks
        for method in settings.methods
    )
    columns = (
        "data",
        "steps by",
        "evaluations per iteration",
        "accuracy (%)",
        "spread",
        "median",
        "failed",
        "checks that fail (%)",
        "changes in the last half",
        "largest change (points)",
        "least agreement (%)",
        "proper",
        "steps at the start",
        "steps at the end",
    )
    verdicts = [
        verdict
        for name, task in tasks.items()
        for verdict in verdicts_on(name, task.title, found[name], settings.is_published, least[name])
    ]
    if study.scale == "cpu":
        verdicts += [ClaimVerdict(claim, "", not_run(reason)) for claim, reason in NOT_RUN.get(study.name, ())]
    return Findings(columns, rows, tuple(verdicts), lambda: _draw(tasks, found), _notes(settings))


def failing(chance: float, found: dict[str, Nets]) -> float:
    """The accuracy below which a net has failed: half of the way from chance to the best."""
    return (chance + max((one["accuracy"] for nets in found.values() for one in nets if one), default=chance)) / 2


def _searched(study: Study, name: str, task: Task, seeds: Sequence[int]) -> dict[str, Nets]:
    """Of the nets with all numbers of steps, the coarsest that are proper, and the most accurate run."""
    cells = {
        steps: of_every_seed(study, name, task, "euler", steps, lambda run: _examined(study, run, task), seeds)
        for steps in task.euler
    }
    proper = [coarsest({steps: cell[i] for steps, cell in cells.items()}) for i in range(len(seeds))]
    return {"grid": proper, MOST_ACCURATE: best_run(cells)}


def _examined(study: Study, run: Run | None, task: Task) -> Net | None:
    found = examine(study, run, task.tested)
    if found is None:
        return None
    told = {"accuracy": found["accuracy"], "change": change(found), "agreement": agreement(found)}
    return told | {"proper": is_proper(found), "nfe": found["steps"]}


def _piece(study: Study, name: str, task: Task, control: str, seed: int) -> Net | None:
    title = f"adaption-{name}-{control.replace(', ', '-').replace(' ', '-')}"
    config = task.config(seed, "euler", 8, *CONTROLS[control])
    return study.piece(f"{title}-{seed}", lambda: adapted(study, trained_or_failed(study, title, config), task))


def adapted(study: Study, run: Run | None, task: Task) -> Net | None:
    """What a controlled training did, and what its net is worth."""
    found = _examined(study, run, task)
    if run is None or found is None:
        return None
    lines = run.metrics()
    epochs = [line for line in lines if line["kind"] == "epoch"]
    last = epochs[-1]
    controls = [line for line in lines if line["kind"] == "control"]
    half = last["step"] / 2
    early, late = (
        [line["solver"] for line in controls if (line["step"] < half) is is_early] for is_early in (True, False)
    )
    thin = epochs[:: max(1, len(epochs) // 100)]
    return found | {
        "nfe": last["evaluations"] / last["step"],
        "failed checks": 100 * last["failed_checks"] / max(1, last["checks"]),
        "late changes": sum(a != b for a, b in pairwise([*early[-1:], *late])),
        "steps": [(line["step"], line["steps"]) for line in controls] + [(last["step"], controls[-1]["steps"])],
        "learnt": [(line["step"], line["train_accuracy"]) for line in thin],
    }


def _row(title: str, method: str, found: Nets, least: float) -> tuple[Any, ...]:
    good = [one for one in found if one]
    accuracies = [one["accuracy"] for one in good]
    failed = len(found) - sum(accuracy >= least for accuracy in accuracies)

    def mean(key: str) -> float | None:
        return float(np.mean([one[key] for one in good])) if good and key in good[0] else None

    return (
        title,
        method,
        mean("nfe"),
        mean("accuracy"),
        float(np.std(accuracies, ddof=1)) if len(good) > 1 else None,
        float(np.median(accuracies)) if good else None,
        f"{failed} of {len(found)}",
        *(mean(key) for key in ("failed checks", "late changes", "change", "agreement")),
        f"{sum(one['proper'] for one in good)} of {len(found)}",
        float(np.mean([one["steps"][0][1] for one in good])) if good and "steps" in good[0] else None,
        float(np.mean([*map(steps_of, good)])) if good else None,
    )


def _notes(settings: Settings) -> tuple[str, ...]:
    tasks = settings.tasks
    told = [f"{task.title}: {task.recipe}, {', '.join(task.settings) or 'as published'}" for task in tasks.values()]
    unvaried = ", and without that" if UNVARIED in settings.controllers else ""
    few = [f"{task.title} is tested on {task.tested} test examples." for task in tasks.values() if task.tested]
    return (
        f"All nets train with Euler's method. Recipes and changes of them: {'; '.join(told)}.",
        *RULES,
        "`paper`: Algorithm 1 as published: a check every 50 iterations, Hairer's first step; its checks are counted.",
        "`steady`: our controller, under which every pass of the training has its own number of steps, drawn from "
        f"{1 - STEADY:g} to {1 + STEADY:g} times the controller's{unvaried}; changes are those that the controller "
        "makes.",
        "A net is proper when no solver with steps as small and order as high changes its test accuracy by more than "
        f"{THRESHOLD:g} points; the agreement of predictions, of which `anydepth check` asks {AGREEMENT:g} %, is shown "
        "beside it.",
        f"Seeds 0 to {LOOKED_AT - 1} were looked at while `steady` and the rules were made; this study counts its "
        f"seeds from {LOOKED_AT} on.",
        *few,
    )


def _draw(tasks: dict[str, Task], found: Found) -> "Figure":
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        2, len(tasks), figsize=(4.6 * len(tasks), 6), constrained_layout=True, squeeze=False, sharex="col"
    )
    colours = {"paper": "#c2571a", "steady": "#0b6e99", UNVARIED: "#3a8f4d"}
    for places, (name, task) in zip(axes.T, tasks.items(), strict=True):
        for control in (control for control in CONTROLS if control in found[name]):
            for i, one in enumerate(one for one in found[name][control] if one):
                label = {"paper": "Algorithm 1"}.get(control, control) if i == 0 else None
                places[0].plot(*zip(*one["learnt"], strict=True), color=colours[control], alpha=0.8, linewidth=1)
                steps = tuple(zip(*one["steps"], strict=True))
                places[1].step(*steps, where="post", color=colours[control], alpha=0.8, linewidth=1, label=label)
        critical = [one["nfe"] for one in found[name]["grid"] if one]
        if critical:
            places[1].axhline(float(np.median(critical)), color="0.5", linestyle=":", label="grid search (median)")
        places[0].set(title=task.title, ylim=(0, 101))
        places[1].set(xlabel="training step", yscale="log")
        for place in places:
            place.grid(alpha=0.25)
    axes[0][0].set_ylabel("training accuracy (%)")
    axes[1][0].set_ylabel("Euler steps")
    axes[1][0].legend(fontsize=8)
    return figure


EXPERIMENTS.add(
    "adaption",
    Experiment(
        "Steps chosen while training, against a search over steps",
        "Proper ODEs, section 5, Table 1",
        SETTINGS,
        run,
        seeds=8,
    ),
)
EXPERIMENTS.add(
    "adaption-full",
    Experiment(
        "Steps chosen while training, against a search over steps: the published length of training",
        "Proper ODEs, section 5, Table 1",
        IN_FULL,
        run,
        seeds=5,
    ),
)
EXPERIMENTS.add(
    "adaption-mnist",
    Experiment(
        "Steps chosen while training, against a search over steps: MNIST",
        "Proper ODEs, section 5, Table 1, Fig 5",
        ON_IMAGES,
        run,
        seeds=3,
    ),
)
