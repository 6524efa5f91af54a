"""The papers' accuracies at full size: trained at paper scale only, listed with their commands at the others."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from anydepth.recipes import RECIPES
from anydepth.reproduce import EXPERIMENTS
from anydepth.reproduce.experiment import Claim, Experiment, Findings, Verdict
from anydepth.reproduce.judging import spread
from anydepth.reproduce.study import Study
from anydepth.surgery.blocks import blocks_of
from anydepth.surgery.resize import compress
from anydepth.surgery.summary import summary
from anydepth.train.config import RunConfig
from anydepth.train.evaluate import evaluate
from anydepth.train.override import override
from anydepth.zoo.models.image import ImageNetwork

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TOLERANCE = 0.5
"""Points below the paper's accuracy that still count as the same."""
_IMAGES = {
    "mnist": {"image": (1, 28, 28), "classes": 10},
    "cifar10": {"image": (3, 32, 32), "classes": 10},
    "cifar100": {"image": (3, 32, 32), "classes": 100},
    "tiny-imagenet": {"image": (3, 64, 64), "classes": 200},
}


@dataclass(frozen=True)
class Case:
    """A recipe, changes to it, the form the trained net is brought into, and the accuracy a paper gives for it."""

    what: str
    source: str
    paper: float | None
    recipe: str
    changes: tuple[str, ...] = ()
    form: dict[str, Any] = field(default_factory=dict)
    is_ceiling: bool = False
    """Whether the claim is that it gets no better."""

    @cached_property
    def config(self) -> RunConfig:
        return override(RECIPES[self.recipe](), self.changes)

    @property
    def claim(self) -> Claim:
        if self.paper is None:
            return Claim(self.what, self.source, "a picture")
        level = "no better than this" if self.is_ceiling else "this accuracy"
        return Claim(f"{self.what}: {level}", self.source, f"{self.paper:g} %")

    @property
    def command(self) -> str:
        """Which trains it, and brings it into its form."""
        train = " ".join(["anydepth train", self.recipe, *(f"--set {change}" for change in self.changes)])
        options = " ".join(f"--{name} {value}" for name, value in self.form.items())
        return f"`{train}`" + (f", then `anydepth compress RUN --out SMALL {options}`" if options else "")

    def judge(self, values: list[float]) -> bool | None:
        """By the mean over the seeds."""
        if self.paper is None or not values:
            return None
        mean = float(np.mean(values))
        return mean <= self.paper + TOLERANCE if self.is_ceiling else mean >= self.paper - TOLERANCE


_NO_NORM = ("model.options.normalise=false",)
CASES = (
    Case("ContinuousNet (RK4), CIFAR-10", "C Table 1a", 93.57, "continuousnet-cifar10"),
    Case("ContinuousNet (Euler), CIFAR-10", "C Table 1a", 93.84, "continuousnet-cifar10-euler"),
    Case("ResNet-200, CIFAR-10", "C Table 1a", 93.84, "resnet-cifar10"),
    Case("ContinuousNet (RK4), CIFAR-100", "C Table 1b", 77.99, "continuousnet-cifar100"),
    Case(
        "the same run with RK4-3/8 and 4 steps",
        "C Table 1b",
        76.19,
        "continuousnet-cifar100",
        form={"steps": 4, "scheme": "rk4_38"},
    ),
    Case("ContinuousNet (Euler), CIFAR-100", "C Table 1b", 78.8, "continuousnet-cifar100-euler"),
    Case("Wide-ResNet, CIFAR-100", "C Table 1b", 79.04, "wide-resnet-cifar100"),
    Case("ContinuousNet (midpoint), Tiny-ImageNet", "C B.1", 40.0, "continuousnet-tiny-imagenet"),
    Case("less accurate without skip-init", "C B.2, Fig 11a", None, "continuousnet-no-skip-init"),
    Case("twice as deep, half as wide", "C Fig 11c", None, "continuousnet-deep-narrow"),
    Case("constants, MNIST", "S Table 2", 99.4, "stateful-mnist"),
    Case("compressed to 4 constants and steps", "S Table 2", 99.2, "stateful-mnist", form={"size": 4, "steps": 4}),
    Case("compressed to 2 constants and steps", "S Table 2", 96.9, "stateful-mnist", form={"size": 2, "steps": 2}),
    Case("without normalisation, MNIST", "S Table 2", 99.1, "stateful-mnist-no-norm"),
    Case("constants, shallow, CIFAR-10", "S Table 3", 90.4, "stateful-cifar10-shallow"),
    Case("compressed to 4", "S Table 3", 89.9, "stateful-cifar10-shallow", form={"size": 4, "steps": 4}),
    Case("shallow without normalisation", "S Table 3", 88.4, "stateful-cifar10-shallow", _NO_NORM),
    Case("hats, refined, CIFAR-10 (c1)", "S Table 4", 92.4, "stateful-cifar10-deep"),
    Case("compressed to 9 hats, 8 steps", "S Table 4", 91.8, "stateful-cifar10-deep", form={"size": 9, "steps": 8}),
    Case("constants, not refined, CIFAR-10 (c2)", "S Table 4", 94.1, "stateful-cifar10-deep-fixed"),
    Case("c1 without normalisation", "S Table 4", 10.0, "stateful-cifar10-deep", _NO_NORM, is_ceiling=True),
    Case("hats, refined, CIFAR-100 (c1)", "S Table 5", 76.9, "stateful-cifar100"),
    Case("compressed to 5 hats, 4 steps", "S Table 5", 75.6, "stateful-cifar100", form={"size": 5, "steps": 4}),
    Case("constants, not refined, CIFAR-100 (c2)", "S Table 5", 79.1, "stateful-cifar100-fixed"),
)


def run(study: Study) -> Findings:
    study.plan(len(CASES) * (1 + len(study.seeds)))
    counts = [study.piece(f"parameters-{i}", lambda c=case: parameters_of(c)) for i, case in enumerate(CASES)]
    found = [_values(study, i, case) for i, case in enumerate(CASES)]
    rows = tuple(
        (case.what, case.recipe, case.paper, count, float(np.mean(values)) if values else None)
        for case, count, values in zip(CASES, counts, found, strict=True)
    )
    verdicts = tuple(
        Verdict(case.claim, f"{spread(values)} %" if values else f"not run here; {case.command}", case.judge(values))
        for case, values in zip(CASES, found, strict=True)
    )
    columns = ("net", "recipe", "paper (%)", "parameters", "ours (%)")
    notes = (
        f"At paper scale every recipe is trained and judged on all test images, {TOLERANCE} points below the paper's "
        "average counting as equal; that takes days on a GPU. At the other scales the nets are built and counted only."
    )
    return Findings(columns, rows, verdicts, lambda: _draw(rows), notes)


def parameters_of(case: Case) -> int:
    """Of the net at the end of training, in its form."""
    model = ImageNetwork(**_IMAGES[case.config.data.name], **case.config.model.options)
    counted, block = summary(model), next(iter(blocks_of(model).values()))
    function = next(iter(block.functions.values()))
    for _ in case.config.refine.at:
        function = function.refined()
    each = sum(row.form.parameters for row in counted.rows) // block.size
    return counted.parameters + each * (case.form.get("size", function.size) - block.size)


def _values(study: Study, number: int, case: Case) -> list[float]:
    """Test accuracy by seed; none unless at paper scale."""
    if not study.settings["trains"]:
        return []
    return [study.piece(f"accuracy-{number}-{seed}", lambda s=seed: _accuracy(study, case, s)) for seed in study.seeds]


def _accuracy(study: Study, case: Case, seed: int) -> float:
    run = study.trained(case.recipe, override(case.config, [f"seed={seed}"]))
    model = compress(run.model(), **case.form) if case.form else run.model()
    return evaluate(model, run.dataset(study.data).part("test"), run.facts, run.config.evaluation.batch).value


def _draw(rows: tuple[tuple[Any, ...], ...]) -> "Figure":
    import matplotlib.pyplot as plt

    figure, place = plt.subplots(figsize=(8, 6.5), constrained_layout=True)
    places = range(len(rows))
    place.barh(places, [row[3] for row in rows], color="#0b6e99", alpha=0.85)
    for y, (_, _, paper, count, ours) in enumerate(rows):
        told = "" if paper is None else f"{paper:g} %" + ("" if ours is None else f", ours {ours:.2f} %")
        place.text(count * 1.1, y, told, va="center", fontsize=8)
    place.set_yticks(places, [row[0] for row in rows], fontsize=8)
    place.invert_yaxis()
    place.set(xscale="log", xlabel="parameters", title="The papers' nets at full size, and their accuracies there")
    place.set_xlim(right=1e8)
    place.grid(alpha=0.25, axis="x")
    return figure


EXPERIMENTS.add(
    "full-scale",
    Experiment(
        "The papers' accuracies at full size",
        "ContinuousNet, Table 1 and Appendix B; Stateful ODE-Nets, Tables 2-5",
        {"smoke": {"trains": False}, "cpu": {"trains": False}, "paper": {"trains": True}},
        run,
        seeds=1,
    ),
)
