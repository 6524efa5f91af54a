"""Steps chosen while training, against a search over steps (Proper ODEs, section 5, Table 1, Figs 5 and 6)."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from anydepth.reproduce import EXPERIMENTS
from anydepth.reproduce.experiment import Experiment, Findings
from anydepth.reproduce.flows import (
    AGREEMENT,
    CPU,
    LANDSCAPE,
    PAPER,
    SMOKE,
    SPHERES,
    THRESHOLD,
    Task,
    agreement,
    change,
    examine,
    is_proper,
    of_every_seed,
    trained_or_failed,
)
from anydepth.reproduce.judging import RULE
from anydepth.reproduce.study import Study
from anydepth.reproduce.table_one import (
    MOST_ACCURATE,
    RULES,
    TABLE,
    UNVARIED,
    Net,
    Nets,
    best_run,
    coarsest,
    robust,
    steps_of,
    verdicts_on,
)
from anydepth.train.runs import Run
from anydepth.train.vary import STEADY

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONTROLS = {
    "paper": ("control.name=paper",),
    "steady": ("control.name=steady",),
    UNVARIED: ("control.name=steady", "training.vary_steps=0"),
}
LOOKED_AT = 27
"""So many seeds, from 0 on, were looked at while `steady` and the rules were made: the study takes the next ones."""
VARIATIONS = {
    "as published": (),
    "threshold 0.05": ("control.threshold=0.05",),
    "threshold 0.15": ("control.threshold=0.15",),
    "shrink 0.7": ("control.shrink=0.7",),
    "grow 1.2": ("control.grow=1.2",),
}


@dataclass(frozen=True)
class Settings:
    """Tasks with their grids; the seeds of those that take long; and the variations of the constants that are tried."""

    tasks: dict[str, Task]
    seeds: dict[str, int] = field(default_factory=dict)
    variations: tuple[str, ...] = tuple(VARIATIONS)
    varied_seeds: int = 2
    controls: dict[str, dict[str, tuple[str, ...]]] = field(default_factory=dict)
    """Changes of the controllers' settings, by task and controller."""
    controllers: tuple[str, ...] = tuple(CONTROLS)
    """Those that are run."""

    @property
    def methods(self) -> tuple[str, ...]:
        return ("grid", MOST_ACCURATE, *self.controllers)


_MNIST = ("training.steps=250", "evaluation.test=false")
_FULL = {
    name: replace(PAPER[name], euler=steps) for name, steps in ((SPHERES, (32, 64, 128)), (LANDSCAPE, (16, 32, 64)))
}
SETTINGS = {
    "smoke": Settings({LANDSCAPE: SMOKE[LANDSCAPE]}, {}, tuple(VARIATIONS)[:2], 1),
    "cpu": Settings(
        {
            **CPU,
            "mnist": Task("MNIST", "proper-mnist-small", _MNIST, (1, 2, 4, 8, 16), together=False, tested=500),
        },
        {"mnist": 1},
        controls={
            "mnist": {
                "paper": ("control.every=10", "control.first=0.125"),
                "steady": ("control.every=25", "control.examples=128"),
                UNVARIED: ("control.every=25", "control.examples=128"),
            }
        },
    ),
    "paper": Settings({name: PAPER[name] for name in TABLE}, varied_seeds=5),
}
_BOTH = ("paper", "steady")
IN_FULL = {
    "smoke": Settings({SPHERES: SMOKE[SPHERES]}, variations=(), controllers=_BOTH),
    "cpu": Settings(_FULL, variations=(), controllers=_BOTH),
    "paper": Settings({name: PAPER[name] for name in _FULL}, variations=(), controllers=_BOTH),
}
"""Two datasets with the published settings, for which cpu scale searches fewer numbers of steps."""

Found = dict[str, dict[str, Nets]]
"""By task and method."""


def run(study: Study) -> Findings:
    settings: Settings = study.settings
    judged = [seed + LOOKED_AT for seed in study.seeds]
    tasks, seeds = settings.tasks, {name: judged[: settings.seeds.get(name)] for name in settings.tasks}
    varied = judged[: settings.varied_seeds]
    trainings = sum((len(task.euler) + len(settings.controllers)) * len(seeds[name]) for name, task in tasks.items())
    study.plan(trainings + len(settings.variations[1:]) * len(varied))
    found: Found = {name: {} for name in tasks}
    for name, task in tasks.items():
        found[name] = _searched(study, name, task, seeds[name])
        for control in settings.controllers:
            found[name][control] = [_piece(study, name, task, control, seed) for seed in seeds[name]]
    variations = {
        label: [_piece(study, LANDSCAPE, tasks[LANDSCAPE], "paper", seed, label) for seed in varied]
        for label in settings.variations
    }
    rows = tuple(_row(tasks[name].title, method, found[name][method]) for name in tasks for method in settings.methods)
    more = tuple(_row(f"{tasks[LANDSCAPE].title}, {label}", "paper", some) for label, some in variations.items())
    columns = (
        "data",
        "steps by",
        "evaluations per iteration",
        "accuracy (%)",
        "spread",
        "checks that fail (%)",
        "changes in the last half",
        "largest change (points)",
        "least agreement (%)",
        "proper",
        "steps at the end",
    )
    verdicts = [v for name, task in tasks.items() for v in verdicts_on(name, task.title, found[name])]
    if variations:
        verdicts.append(robust(variations))
    return Findings(columns, (*rows, *more), tuple(verdicts), lambda: _draw(tasks, found), _notes(settings))


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


def _piece(study: Study, name: str, task: Task, control: str, seed: int, label: str = "as published") -> Net | None:
    told = "" if label == "as published" else f"-{label.replace(' ', '-')}"
    title = f"adaption-{name}-{control.replace(', ', '-').replace(' ', '-')}{told}"
    more = study.settings.controls.get(name, {}).get(control, ())
    config = task.config(seed, "euler", 8, *CONTROLS[control], *more, *VARIATIONS[label])
    return study.piece(f"{title}-{seed}", lambda: _read(study, trained_or_failed(study, title, config), task))


def _read(study: Study, run: Run | None, task: Task) -> Net | None:
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


def _row(title: str, method: str, found: Nets) -> tuple[Any, ...]:
    good = [one for one in found if one]

    def mean(key: str) -> float | None:
        return float(np.mean([one[key] for one in good])) if good and key in good[0] else None

    deviation = float(np.std([one["accuracy"] for one in good])) if good else None
    proper = f"{sum(one['proper'] for one in good)} of {len(found)}"
    shown = (mean("failed checks"), mean("late changes"), mean("change"), mean("agreement"))
    return (
        title,
        method,
        mean("nfe"),
        mean("accuracy"),
        deviation,
        *shown,
        proper,
        float(np.mean([*map(steps_of, good)])) if good else None,
    )


def _notes(settings: Settings) -> str:
    tasks = settings.tasks
    told = [f"{task.title}: {task.recipe}, {', '.join(task.settings) or 'as published'}" for task in tasks.values()]
    few = [
        f"{task.title} is tested on {task.tested} test examples; in so short a training, Algorithm 1 checks every "
        "10 steps and starts with 8 steps instead of Hairer's rule, `steady` checks every 25 steps on 128 examples. "
        for task in tasks.values()
        if task.tested
    ]
    unvaried = ", and without that" if UNVARIED in settings.controllers else ""
    return (
        f"All nets train with Euler's method. Recipes and changes of them: {'; '.join(told)}. `grid`: per seed, "
        "the net with the fewest steps from which on all are proper; its cost is that of this net alone, "
        f"without the search. `{MOST_ACCURATE}`: what Table 1 reports, the run with the highest accuracy of all that "
        "are ODEs. Such a run is a number of steps with its nets of all seeds, every one of them proper; if there is "
        "none, the run with the most proper nets, then the most steps. Failed nets tell nothing, and a run with fewer "
        "than half of its nets left does not count. `paper`: Algorithm 1, its checks counted. `steady`: our "
        f"controller, under which every pass of the training has its own number of steps, drawn from {1 - STEADY:g} to "
        f"{1 + STEADY:g} times the controller's{unvaried}; changes are those that the controller makes. A net is "
        "proper when no solver with steps as small and order as high changes its test accuracy by more than "
        f"{THRESHOLD:g} points; the agreement of predictions, of which `anydepth check` asks {AGREEMENT:g} %, is shown "
        f"beside it. {RULES} Seeds 0 to {LOOKED_AT - 1} were looked at while `steady` and these rules were made; this "
        f"study counts its seeds from {LOOKED_AT} on. {RULE} {''.join(few)}"
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
        "Proper ODEs, section 5, Table 1, Figs 5 and 6",
        SETTINGS,
        run,
        seeds=5,
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
