"""The nets of the studies on proper ODEs: trained once in a folder of results, then examined by each study."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from anydepth.block.block import ContinuousBlock
from anydepth.data.facts import Facts
from anydepth.data.source import Part
from anydepth.data.table import Table
from anydepth.depth.grids import by_step
from anydepth.errors import NumericalError
from anydepth.measure.evaluation import batches_of, evaluating, fitting
from anydepth.recipes import RECIPES
from anydepth.runs.config import RunConfig
from anydepth.runs.folder import Run
from anydepth.runs.override import override
from anydepth.surgery.blocks import blocks_of
from anydepth_papers.judge.study import Study
from anydepth_papers.nets.ensemble import data_of, trained_together

FACTORS = (0.5, 0.75, 1.0, 1.5, 2.0)
"""On the step size, in tests."""
THRESHOLD = 10.0
"""Points of accuracy by which a more accurate solver may change a proper ODE: that of Algorithm 1."""
AGREEMENT = 95.0
"""Per cent of predictions that survive a more accurate solver: the stricter rule of `anydepth check`."""
NEARLY_ALL = 0.9
"""The share of nets that a claim about every net asks for, where some nets are looked at."""
RESOLUTION = 0.1
"""Points of accuracy that 1000 test examples can tell apart."""
TESTED_WITH = {"euler": ("euler", "midpoint", "rk4"), "rk4": ("rk4",)}


@dataclass(frozen=True)
class Task:
    """A dataset with its net, and the numbers of steps that it is trained at."""

    title: str
    recipe: str
    settings: tuple[str, ...] = ()
    """Changes of the recipe."""
    euler: tuple[int, ...] = ()
    rk4: tuple[int, ...] = ()
    together: bool = True
    """Whether its field is one of those whose seeds can be trained together."""
    tested: int | None = None
    """How many examples of the test part are looked at; None: all."""

    def config(self, seed: int, scheme: str = "euler", steps: int = 1, *more: str) -> RunConfig:
        solver = (f"model.options.scheme={scheme}", f"model.options.steps={steps}")
        return override(RECIPES[self.recipe](), [*self.settings, *solver, *more, f"seed={seed}"])

    def steps(self, scheme: str) -> tuple[int, ...]:
        return self.euler if scheme == "euler" else self.rk4


_FEW = ("data.options.train=120", "data.options.test=60", "training.batch=60", "training.steps=6")
_FASTER = ("training.steps=3000",)
_POWERS = tuple(2**k for k in range(9))
SPHERES, LANDSCAPE = "spheres", "landscape"

SMOKE = {
    SPHERES: Task("spheres, d = 2", "proper-spheres", _FEW, (1, 4), (1, 2)),
    LANDSCAPE: Task("three minima", "proper-landscape", _FEW, (1, 4), (1, 2)),
}
CPU = {
    SPHERES: Task("spheres, d = 2", "proper-spheres", (*_FASTER, "optimizer.lr=5e-4"), _POWERS[:8], _POWERS[:5]),
    LANDSCAPE: Task("three minima", "proper-landscape", (*_FASTER, "optimizer.lr=2e-3"), _POWERS[:8], _POWERS[:5]),
}
PAPER = {
    SPHERES: Task("spheres, d = 2", "proper-spheres", (), _POWERS, _POWERS[:8]),
    LANDSCAPE: Task("three minima", "proper-landscape", (), _POWERS, _POWERS[:7]),
    **{
        f"spheres-{d}": Task(
            f"spheres, d = {d}", "proper-spheres", (f"data.options.d={d}",), _POWERS, _POWERS[:8], together=d <= 4
        )
        for d in (3, 10, 900)
    },
    "mnist": Task("MNIST", "proper-mnist", (), _POWERS[:7], _POWERS[:6], together=False),
    "cifar10": Task("CIFAR-10", "proper-cifar10", (), _POWERS[:7], _POWERS[:5], together=False),
}
TASKS = {"smoke": SMOKE, "cpu": CPU, "paper": PAPER}
"""At cpu scale, trained for 3000 steps with four to five times the published learning rates."""


def trained_flows(
    study: Study, name: str, task: Task, scheme: str, steps: int, seeds: Sequence[int]
) -> list[Run | None]:
    """The runs of some seeds; None where a training left the finite numbers."""
    configs = [task.config(seed, scheme, steps) for seed in seeds]
    title = f"proper-{name}-{scheme}-{steps}"
    if task.together:
        return trained_together(study, title, configs)
    return [trained_or_failed(study, title, config) for config in configs]


def trained_or_failed(study: Study, title: str, config: RunConfig) -> Run | None:
    try:
        return study.trained(title, config)
    except NumericalError:
        return None


def of_every_seed(
    study: Study,
    name: str,
    task: Task,
    scheme: str,
    steps: int,
    look: Callable[[Run | None], Any],
    seeds: Sequence[int] | None = None,
) -> list[Any]:
    """What `look` finds about the net of every seed, each a piece; the first piece trains them all.

    With `seeds`, only of these.
    """
    few = study.seeds if seeds is None else seeds
    return [
        study.piece(
            f"{name}-{scheme}-{steps}-{seed}",
            lambda i=i: look(trained_flows(study, name, task, scheme, steps, few)[i]),
        )
        for i, seed in enumerate(few)
    ]


# Examining them


def examine(study: Study, run: Run | None, examples: int | None = None) -> dict[str, Any] | None:
    """Accuracy, and agreement with itself, of a trained net under other solvers, in per cent.

    On the test part, or so many examples of it.
    """
    if run is None:
        return None
    model, test = run.model(), data_of(run.config, study.data).part("test")
    test = test.take(np.arange(len(test))[:examples])
    targets = _targets(test, run.facts)
    block = block_of(model)
    own, made, step = predictions(model, test, run.facts), block.scheme.name, step_of(block)
    result: dict[str, Any] = {"steps": block.steps, "accuracy": _share(own, targets), "tests": []}
    for scheme in TESTED_WITH[made]:
        for factor in FACTORS:
            grid = by_step(min(Fraction(1), Fraction(factor) * step))
            found = predictions(with_solver(model, scheme, grid.times), test, run.facts)
            result["tests"].append(
                {
                    "scheme": scheme,
                    "factor": factor,
                    "steps": grid.steps,
                    "accuracy": _share(found, targets),
                    "agreement": _share(found, own),
                }
            )
    return result


def accuracy_on(study: Study, run: Run | None, part: Part) -> float | None:
    """The accuracy of a trained net, in per cent, on one part of its data."""
    if run is None:
        return None
    table = data_of(run.config, study.data).part(part)
    return _share(predictions(run.model(), table, run.facts), _targets(table, run.facts))


def block_of(model: nn.Module) -> ContinuousBlock:
    return next(iter(blocks_of(model).values()))


def step_of(block: ContinuousBlock) -> Fraction:
    """The size of its steps; the last one may be smaller."""
    assert block.grid is not None
    return block.grid.times[1] - block.grid.times[0]


def with_solver(model: nn.Module, scheme: str, times: Sequence[Fraction]) -> nn.Module:
    """The same model, run otherwise from now on."""
    block_of(model).set_solver(scheme=scheme, steps=times)
    return model


def predictions(model: nn.Module, table: Table, facts: Facts) -> Tensor:
    """The classes that a model gives; -1 where its outputs are not finite."""
    found = []
    with evaluating(model):
        for batch in batches_of(table, facts, 500):
            outputs = model(*fitting(model, batch).inputs)
            found.append(torch.where(outputs.isfinite().all(-1), outputs.argmax(-1), -1))
    return torch.cat(found)


def _targets(table: Table, facts: Facts) -> Tensor:
    _, targets = table.batch(np.arange(len(table)), facts)
    return targets


def _share(found: Tensor, right: Tensor) -> float:
    return round(100 * float((found == right).double().mean()), 3)


# Judging them


def finer(examined: dict[str, Any]) -> list[dict[str, Any]]:
    """Tests with solvers whose error is at most that of the training: no larger steps, no lower order."""
    return [test for test in examined["tests"] if test["factor"] <= 1]


def change(examined: dict[str, Any]) -> float:
    """The largest change of accuracy, in points, by a more accurate solver."""
    return max(abs(test["accuracy"] - examined["accuracy"]) for test in finer(examined))


def agreement(examined: dict[str, Any]) -> float:
    """The least share of predictions, in per cent, that stay the same under a more accurate solver."""
    return min(test["agreement"] for test in finer(examined))


def is_proper(examined: dict[str, Any]) -> bool:
    return change(examined) <= THRESHOLD


def commonest(study: Study, task: Task, part: Part = "test") -> float:
    """The accuracy, in per cent, of always giving the commonest class of a part."""
    table = data_of(task.config(0), study.data).part(part)
    targets = _targets(table, table.facts())
    return 100 * float(targets.bincount().max()) / len(targets)
