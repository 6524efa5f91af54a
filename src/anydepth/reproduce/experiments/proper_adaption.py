"""Steps chosen while training, against a search over steps (Proper ODEs, section 5, Table 1, Figs 5 and 6)."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from anydepth.reproduce import EXPERIMENTS
from anydepth.reproduce.experiment import Claim, Experiment, Findings, Verdict
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
from anydepth.reproduce.judging import RULE, is_above, spread
from anydepth.reproduce.study import Study
from anydepth.train.runs import Run
from anydepth.train.vary import STEADY

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UNVARIED = "steady, not varied"
CONTROLS = {
    "paper": ("control.name=paper",),
    "steady": ("control.name=steady",),
    UNVARIED: ("control.name=steady", "training.vary_steps=0"),
}
METHODS = ("grid", *CONTROLS)
LOOKED_AT = 17
"""So many seeds, from 0 on, were looked at while `steady` was designed: the study takes those that follow."""
TABLE = {
    "spheres": ("NFE 100.5, 98.9 +- 0.6 %; grid 65 to 129, 99.2 +- 0.8 %", 100.5),
    "landscape": ("NFE 43.3, 76.5 +- 1.6 %; grid 33 to 65, 79.0 +- 2.6 %", 43.3),
    "mnist": ("NFE 9.8, 95.6 +- 0.5 %; grid 9 to 17, 96.5 +- 0.2 %", 9.8),
    "cifar10": ("NFE 21.9, 55.0 +- 0.8 %; grid 17 to 33, 54.7 +- 0.3 %", 21.9),
}
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
IN_FULL = {
    "smoke": Settings({SPHERES: SMOKE[SPHERES]}, variations=()),
    "cpu": Settings(_FULL, variations=()),
    "paper": Settings({name: PAPER[name] for name in _FULL}, variations=()),
}
"""Two datasets with the published settings, for which cpu scale searches fewer numbers of steps."""

Found = dict[str, dict[str, list[dict[str, Any] | None]]]
"""By task and method; None: the training failed, or the grid has no proper net."""


def run(study: Study) -> Findings:
    settings: Settings = study.settings
    judged = [seed + LOOKED_AT for seed in study.seeds]
    tasks, seeds = settings.tasks, {name: judged[: settings.seeds.get(name)] for name in settings.tasks}
    varied = judged[: settings.varied_seeds]
    trainings = sum((len(task.euler) + len(CONTROLS)) * len(seeds[name]) for name, task in tasks.items())
    study.plan(trainings + len(settings.variations[1:]) * len(varied))
    found: Found = {name: {} for name in tasks}
    for name, task in tasks.items():
        found[name]["grid"] = _searched(study, name, task, seeds[name])
        for control in CONTROLS:
            found[name][control] = [_piece(study, name, task, control, seed) for seed in seeds[name]]
    variations = {
        label: [_piece(study, LANDSCAPE, tasks[LANDSCAPE], "paper", seed, label) for seed in varied]
        for label in settings.variations
    }
    rows = tuple(_row(tasks[name].title, method, found[name][method]) for name in tasks for method in METHODS)
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
    verdicts = [v for name, task in tasks.items() for v in _verdicts(name, task, found[name])]
    if variations:
        verdicts.append(_robust(variations))
    return Findings(columns, (*rows, *more), tuple(verdicts), lambda: _draw(tasks, found), _notes(tasks))


def _searched(study: Study, name: str, task: Task, seeds: Sequence[int]) -> list[dict[str, Any] | None]:
    """Of every seed the net with the fewest steps from which on all are proper."""
    cells = {
        steps: of_every_seed(study, name, task, "euler", steps, lambda run: _examined(study, run, task), seeds)
        for steps in task.euler
    }
    return [_coarsest({steps: cell[i] for steps, cell in cells.items()}) for i in range(len(seeds))]


def _examined(study: Study, run: Run | None, task: Task) -> dict[str, Any] | None:
    found = examine(study, run, task.tested)
    if found is None:
        return None
    told = {"accuracy": found["accuracy"], "change": change(found), "agreement": agreement(found)}
    return told | {"proper": is_proper(found), "nfe": found["steps"]}


def _coarsest(nets: dict[int, dict[str, Any] | None]) -> dict[str, Any] | None:
    """Also with the accuracy of the best proper net."""
    found, proper = None, [one["accuracy"] for one in nets.values() if one and one["proper"]]
    for _, one in sorted(nets.items(), reverse=True):
        if one is not None and not one["proper"]:
            break
        found = one or found
    return None if found is None else found | {"best": max(proper)}


def _piece(
    study: Study, name: str, task: Task, control: str, seed: int, label: str = "as published"
) -> dict[str, Any] | None:
    told = "" if label == "as published" else f"-{label.replace(' ', '-')}"
    title = f"adaption-{name}-{control.replace(', ', '-').replace(' ', '-')}{told}"
    more = study.settings.controls.get(name, {}).get(control, ())
    config = task.config(seed, "euler", 8, *CONTROLS[control], *more, *VARIATIONS[label])
    return study.piece(f"{title}-{seed}", lambda: _read(study, trained_or_failed(study, title, config), task))


def _read(study: Study, run: Run | None, task: Task) -> dict[str, Any] | None:
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


def _row(title: str, method: str, found: list[dict[str, Any] | None]) -> tuple[Any, ...]:
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
        float(np.mean([*map(_end, good)])) if good else None,
    )


def _end(one: dict[str, Any]) -> int:
    """The number of steps that a net is left with."""
    return one["steps"][-1][1] if "steps" in one else one["nfe"]


def _verdicts(name: str, task: Task, found: dict[str, list[dict[str, Any] | None]]) -> list[Verdict]:
    paper, trios = found["paper"], _complete(found, "grid", "paper", "steady")
    published, nfe = TABLE[name]
    good = [one for one in paper if one]
    on_par = Claim(
        f"{task.title}: Algorithm 1 finds the steps and the accuracy of a grid search", "P Table 1", published
    )
    calm = Claim(f"{task.title}: a controller without oscillation", "P section 6, future work", "not investigated")
    verdicts = [_on_par(on_par, trios)]
    if good:
        mean = float(np.mean([one["nfe"] for one in good]))
        verdicts += [
            Verdict(
                Claim(f"{task.title}: Algorithm 1 needs {nfe} evaluations per iteration", "P Table 1", str(nfe)),
                f"{spread([one['nfe'] for one in good], 1)}, checks included",
                0.5 <= mean / nfe <= 2,
            ),
            Verdict(
                Claim(f"{task.title}: Algorithm 1 ends with an ODE", "P section 5", "time-continuous dynamics"),
                f"{sum(one['proper'] for one in good)} of {len(paper)} seeds proper; accuracy changes by "
                f"{spread([one['change'] for one in good], 1)} points",
                all(one is not None and one["proper"] for one in paper),
            ),
            Verdict(
                Claim(
                    f"{task.title}: the number of steps fluctuates to the end", "P section 5.1, Fig 5, 6", "fluctuates"
                ),
                f"{spread([one['late changes'] for one in good], 1)} changes in the last half",
                min(one["late changes"] for one in good) >= 5,
            ),
        ]
    return [*verdicts, _better(calm, found), _varying(task.title, _complete(found, "steady", UNVARIED))]


def _complete(found: dict[str, list[dict[str, Any] | None]], *methods: str) -> list[tuple[Any, ...]]:
    """The nets of every seed by these methods, where there are all of them."""
    return [nets for nets in zip(*(found[method] for method in methods), strict=True) if all(nets)]


def _on_par(claim: Claim, trios: list[tuple[Any, ...]]) -> Verdict:
    if not trios:
        return Verdict(claim, "no seed has both a proper net in the grid and a training that succeeded", None)
    gaps = [paper["accuracy"] - grid["accuracy"] for grid, paper, _ in trios]
    ratios = [paper["nfe"] / grid["nfe"] for grid, paper, _ in trios]
    told = f"{spread(ratios)} times the evaluations of the grid's coarsest proper net, accuracy {spread(gaps)} points"
    return Verdict(claim, f"{told} apart", float(np.mean(ratios)) <= 1.5 and float(np.mean(gaps)) >= -3)


def _better(claim: Claim, found: dict[str, list[dict[str, Any] | None]]) -> Verdict:
    """Few changes, fewer evaluations than Algorithm 1, proper, and as accurate as the best proper net of the grid."""
    pairs, trios = _complete(found, "paper", "steady"), _complete(found, "grid", "paper", "steady")
    count = len(found["steady"])
    if len(pairs) < count or not trios:
        told = f"{len(pairs)} of {count} trainings succeeded with both controllers"
        return Verdict(claim, f"{told}, {len(trios)} of them with a proper net in the grid", False if pairs else None)
    changes = [ours["late changes"] for _, ours in pairs]
    gaps = [ours["accuracy"] - grid["best"] for grid, _, ours in trios]
    error = float(np.std(gaps, ddof=1)) / len(gaps) ** 0.5 if len(gaps) > 1 else 0.0
    cost = float(np.mean([ours["nfe"] / paper["nfe"] for paper, ours in pairs]))
    proper = sum(ours["proper"] and ours["agreement"] >= AGREEMENT for _, ours in pairs)
    among = "" if len(trios) == count else f", for the {len(trios)} of {count} seeds with one"
    told = (
        f"`steady` changes the steps {spread(changes, 1)} times in the last half (Algorithm 1: "
        f"{spread([paper['late changes'] for paper, _ in pairs], 1)}), needs {cost:.2f} times its evaluations, "
        f"{proper} of {count} seeds proper by accuracy and by agreement, accuracy {spread(gaps)} points (standard "
        f"error {error:.2f}) from the best proper net of the grid{among} (Algorithm 1: "
        f"{spread([paper['accuracy'] - grid['best'] for grid, paper, _ in trios])})"
    )
    is_accurate = float(np.mean(gaps)) >= -max(1.0, 2 * error)
    return Verdict(claim, told, max(changes) <= 2 and cost <= 0.8 and proper == count and is_accurate)


def _varying(title: str, pairs: list[tuple[Any, ...]]) -> Verdict:
    claim = Claim(f"{title}: `steady` learns more when the steps vary from pass to pass", "anydepth")
    if not pairs:
        return Verdict(claim, "no seed has both nets", None)
    gaps = [varied["accuracy"] - plain["accuracy"] for varied, plain in pairs]
    cost = [spread([pair[i]["nfe"] for pair in pairs], 1) for i in (0, 1)]
    ends = [spread([_end(pair[i]) for pair in pairs], 0) for i in (0, 1)]
    told = (
        f"accuracy {spread(gaps)} points above that without it; {cost[0]} against {cost[1]} evaluations per iteration, "
        f"{ends[0]} against {ends[1]} steps at the end"
    )
    return Verdict(claim, told, is_above(gaps))


def _robust(variations: dict[str, list[dict[str, Any] | None]]) -> Verdict:
    claim = Claim("Algorithm 1 is robust against small changes to its constants", "P section 5", "robust")
    everything = [one for some in variations.values() for one in some]
    if not all(everything):
        return Verdict(claim, f"{everything.count(None)} of {len(everything)} trainings failed", False)
    accuracy = {label: float(np.mean([one["accuracy"] for one in some if one])) for label, some in variations.items()}
    cost = {label: float(np.mean([one["nfe"] for one in some if one])) for label, some in variations.items()}
    proper = sum(one["proper"] for one in everything if one)
    first = next(iter(variations))
    told = "; ".join(f"{label} {accuracy[label]:.1f} %, {cost[label]:.1f}" for label in variations)
    is_near = all(
        abs(accuracy[label] - accuracy[first]) <= 5 and 0.5 <= cost[label] / cost[first] <= 2 for label in cost
    )
    return Verdict(
        claim,
        f"accuracy and evaluations per iteration: {told}; {proper} of {len(everything)} proper",
        is_near and proper == len(everything),
    )


def _notes(tasks: dict[str, Task]) -> str:
    told = [f"{task.title}: {task.recipe}, {', '.join(task.settings) or 'as published'}" for task in tasks.values()]
    few = [
        f"{task.title} is tested on {task.tested} test examples; in so short a training, Algorithm 1 checks every "
        "10 steps and starts with 8 steps instead of Hairer's rule, `steady` checks every 25 steps on 128 examples. "
        for task in tasks.values()
        if task.tested
    ]
    return (
        f"All nets train with Euler's method. Recipes and changes of them: {'; '.join(told)}. `grid`: per seed, "
        "the net with the fewest steps from which on all are proper; its cost is that of this net alone, "
        "without the search. `paper`: Algorithm 1, its checks counted. `steady`: our controller, under which "
        f"every pass of the training has its own number of steps, drawn from {1 - STEADY:g} to {1 + STEADY:g} times "
        "the controller's, and without that; changes are those that the controller makes. A net is proper when "
        f"no solver with steps as small and order as high changes its test accuracy by more than {THRESHOLD:g} points; "
        f"the agreement of predictions, of which `anydepth check` asks {AGREEMENT:g} %, is shown beside it. Rules: on "
        "par is at most 1.5 times the evaluations and at most 3 points less accuracy on average; as published means "
        "within a factor of two; fluctuating is at least 5 changes in the last half; without oscillation is at most 2 "
        "there with at most 0.8 times the evaluations of Algorithm 1, all seeds proper also by agreement, and at most "
        "1 point or two standard errors less accurate than the best proper net of the grid, for seeds that have "
        "one (chosen on test data, so that it has luck on its side); robust is within 5 points and a factor of two in "
        "evaluations of the published constants, and proper. `steady` was designed "
        f"on seeds 0 to {LOOKED_AT - 1}; this study counts its seeds from {LOOKED_AT} on. {RULE} {''.join(few)}"
    )


def _draw(tasks: dict[str, Task], found: Found) -> "Figure":
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        2, len(tasks), figsize=(4.6 * len(tasks), 6), constrained_layout=True, squeeze=False, sharex="col"
    )
    colours = {"paper": "#c2571a", "steady": "#0b6e99", UNVARIED: "#3a8f4d"}
    for places, (name, task) in zip(axes.T, tasks.items(), strict=True):
        for control in CONTROLS:
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
    ),
)
