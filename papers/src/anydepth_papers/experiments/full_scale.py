"""The papers' nets at full size: trained at paper scale only; at the others listed with their cost and command."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from anydepth.depth.schemes import SCHEMES
from anydepth.runs.config import RunConfig
from anydepth.runs.override import override
from anydepth.surgery.blocks import blocks_of
from anydepth.surgery.resize import compress
from anydepth.surgery.summary import summary
from anydepth.zoo.models.image_network import ImageNetwork
from anydepth_papers.experiments import EXPERIMENTS
from anydepth_papers.judge.experiment import ClaimVerdict, Experiment, Findings
from anydepth_papers.judge.rules import Judgement, better, near, no_worse, not_run
from anydepth_papers.judge.study import Study
from anydepth_papers.judge.wording import differences, spread
from anydepth_papers.nets.image_nets import PAPER, Exam
from anydepth_papers.studies.form_tables import time_of
from anydepth_papers.studies.printed import ROWS, Above, Below, Form, Keeps, Near, PrintedRow

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Images:
    """Facts of a dataset that sizes and costs follow from."""

    shape: tuple[int, int, int]
    classes: int
    count: int
    """Training images, without validation."""


IMAGES = {
    "mnist": Images((1, 28, 28), 10, 55_000),
    "cifar10": Images((3, 32, 32), 10, 45_000),
    "cifar100": Images((3, 32, 32), 100, 45_000),
    "tiny-imagenet": Images((3, 64, 64), 200, 95_000),
}
SECONDS = 22.5 / 50_000 / (3 * 16**2 * 32**2)
"""Of training on two cores, per image, evaluation of a unit, squared channel and pixel: measured with 16-32-64 channels
on 50,000 images of CIFAR-10, where one more evaluation in every block takes 22.5 s an epoch."""
CHANNELS = (16, 32, 64)
"""Of recipes that name none."""
Accuracy = Callable[[Form], list[float]]


def run(study: Study) -> Findings:
    forms = list(dict.fromkeys(form for row in ROWS for form in _needed(row)))
    study.plan(len(forms) * (len(study.seeds) if study.settings["trains"] else 1))
    counts = {form: study.piece(f"parameters-{_key(form)}", lambda f=form: parameters_of(f)) for form in forms}
    found = {form: _examined(study, form) for form in forms}
    rows = tuple(_line(row, counts[row.form], found[row.form]) for row in ROWS)
    verdicts = tuple(_verdict(row, found) for row in ROWS)
    columns = (
        "net",
        "recipe",
        "paper (%)",
        "parameters",
        "evaluations",
        "hours on two cores",
        "ours (%)",
        "recalibrated (%)",
        "ms per image",
    )
    notes = (
        "At paper scale every recipe is trained and judged on all test images; at the other scales nets are only "
        "built and counted.",
        "A printed accuracy is met within the spread that the paper prints, or within the margin in the sentence.",
        "Evaluations are those of residual units for one image in all blocks.",
        "Hours: one seed's training on two cores, from the time that an evaluation of a unit takes there.",
        "The paper changes the solver of its best instance; here that of every seed's net.",
    )
    return Findings(columns, rows, verdicts, lambda: _draw(rows), notes)


def _needed(row: PrintedRow) -> list[Form]:
    """The net in its form and as trained, and what it is compared with."""
    others = [] if row.other is None else [row.other, row.other.trained]
    return [row.form, row.form.trained, *others]


def parameters_of(form: Form) -> int:
    """Of the net at the end of training, in its form."""
    images = IMAGES[form.config.data.name]
    model = ImageNetwork(image=images.shape, classes=images.classes, **form.config.model.options)
    counted, block = summary(model), next(iter(blocks_of(model).values()))
    function = next(iter(block.functions.values()))
    for _ in form.config.refine.at:
        function = function.refined()
    each = sum(row.form.parameters for row in counted.rows) // block.size
    return counted.parameters + each * ((form.size or function.size) - block.size)


def evaluations_of(form: Form) -> int:
    """Of units, for one image in all blocks, in the net's form."""
    options = form.config.model.options
    steps = form.steps or options["steps"] * 2 ** len(form.config.refine.at)
    return len(options.get("channels", CHANNELS)) * steps * SCHEMES[form.scheme or options["scheme"]].stages


def hours_of(config: RunConfig) -> float:
    """What one training takes on two cores, to one digit or so: evaluations of units only."""
    images, options = IMAGES[config.data.name], ImageNetwork(**config.model.options).config
    pixels = images.shape[1] * images.shape[2]
    work = sum(c**2 * pixels / 4**stage for stage, c in enumerate(options["channels"]))
    steps = options["steps"] or options["size"]
    depths = [steps * 2 ** sum(epoch >= at for at in config.refine.at) for epoch in range(config.training.epochs or 0)]
    evaluations = sum(depths) * SCHEMES[options["scheme"]].stages
    return SECONDS * work * images.count * evaluations / 3600


def _key(form: Form) -> str:
    changes = [change.rpartition(".")[2] for change in form.changes]
    return "-".join([form.recipe, *changes, *(f"{name}={value}" for name, value in form.options.items())])


def _examined(study: Study, form: Form) -> list[dict[str, Any]]:
    """What is seen on the test images, by seed; nothing unless at paper scale."""
    if not study.settings["trains"]:
        return []
    return [study.piece(f"seen-{_key(form)}-{seed}", lambda s=seed: _seen(study, form, s)) for seed in study.seeds]


def _seen(study: Study, form: Form, seed: int) -> dict[str, Any]:
    run = study.trained(form.recipe, override(form.config, [f"seed={seed}"]))
    model = compress(run.model(), **form.options) if form.options else run.model()  # pyright: ignore
    return Exam(study, run)(model)


def _line(row: PrintedRow, count: int, seen: list[dict[str, Any]]) -> tuple[Any, ...]:
    paper = row.rule.value if isinstance(row.rule, Near) else None
    as_is = float(np.mean([one["accuracy"] for one in seen])) if seen else None
    again = float(np.mean([one["recalibrated"]["accuracy"] for one in seen])) if seen else None
    hours = float(f"{hours_of(row.form.config):.2g}")
    cost = count, evaluations_of(row.form), hours
    return row.what, row.form.recipe, paper, *cost, as_is, again, time_of(seen)


def _verdict(row: PrintedRow, found: dict[Form, list[dict[str, Any]]]) -> ClaimVerdict:
    if not found[row.form]:
        nets = {form.trained for form in _needed(row)}
        hours = float(f"{sum(hours_of(form.config) for form in nets):.2g}")
        commands = "; ".join(dict.fromkeys([row.form.command, *([row.other.command] if row.other else [])]))
        return ClaimVerdict(row.claim, commands, not_run(f"costs about {hours:g} hours a seed on two cores"))
    ours = f"{spread([one['accuracy'] for one in found[row.form]])} %"
    return ClaimVerdict(row.claim, ours, judged(row, lambda form: [one["accuracy"] for one in found[form]]))


def judged(row: PrintedRow, accuracy: Accuracy) -> Judgement:
    """By the row's rule; seeds share the order of their data."""
    rule, here = row.rule, accuracy(row.form)
    if isinstance(rule, Near):
        return near(here, rule.value, rule.margin)
    own = accuracy(row.form.trained)
    if isinstance(rule, Keeps):
        return no_worse(here, own, rule.margin, paired=True)
    assert row.other is not None
    there = accuracy(row.other)
    if isinstance(rule, Above):
        return better(here, there, paired=True)
    if isinstance(rule, Below):
        return better(there, here, paired=True)
    return better(differences(own, here), differences(accuracy(row.other.trained), there), paired=True)


def _draw(rows: tuple[tuple[Any, ...], ...]) -> "Figure":
    import matplotlib.pyplot as plt

    figure, place = plt.subplots(figsize=(8, 9), constrained_layout=True)
    places = range(len(rows))
    place.barh(places, [row[5] for row in rows], color="#0b6e99", alpha=0.85)
    for y, (_, _, paper, _, _, hours, ours, _, _) in enumerate(rows):
        told = "" if paper is None else f"{paper:g} %" + ("" if ours is None else f", ours {ours:.2f} %")
        place.text(hours * 1.1, y, told, va="center", fontsize=7)
    place.set_yticks(places, [row[0] for row in rows], fontsize=7)
    place.invert_yaxis()
    place.set(xscale="log", xlabel="hours of one training on two cores", title="The papers' nets at full size")
    place.set_xlim(right=1e5)
    place.grid(alpha=0.25, axis="x")
    return figure


EXPERIMENTS.add(
    "full-scale",
    Experiment(
        "The papers' accuracies at full size",
        "ContinuousNet, Table 1 and Appendix B; Stateful ODE-Nets, Tables 2-5",
        {scale: PAPER | {"trains": scale == "paper"} for scale in ("smoke", "cpu", "paper")},
        run,
    ),
)
