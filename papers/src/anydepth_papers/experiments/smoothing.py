"""Smoothing a trained ResNet, against what else could be done with it in the same time.

A ResNet with 8 units a stage is trained, made of blocks, and then given a quarter of the evaluations of its training.
The treatments are smoothing as a whole (hidden units aligned, penalty, drawn forms, distillation), penalty alone,
distillation of drawn forms without a penalty, and two that give up half of the units at once: layers skipped and
healed, and a fresh net of half the units, distilled. All are recalibrated on training images.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from anydepth.data.order import Draw
from anydepth.data.order import batches as batches_of_epoch
from anydepth.data.table import Augment, Batch
from anydepth.deploy.smooth import Lazily
from anydepth.runs.folder import Run
from anydepth.surgery.align import align
from anydepth.surgery.blocks import blocks_of
from anydepth.surgery.forms import form_of
from anydepth.surgery.resize import compress, set_solver
from anydepth.surgery.resnet_blocks import as_blocks
from anydepth.train.smoothing import Smoothing, smoothed, smoothing_forms
from anydepth.zoo.models.resnet import ResNet
from anydepth_papers.experiments import EXPERIMENTS
from anydepth_papers.judge.experiment import Claim, ClaimVerdict, Experiment, Findings
from anydepth_papers.judge.rules import better, no_worse
from anydepth_papers.judge.study import Study
from anydepth_papers.judge.wording import spread
from anydepth_papers.nets.depth_nets import RESNETS, SMOKE_IMAGES, depth_config
from anydepth_papers.nets.image_nets import Exam
from anydepth_papers.nets.resnets import skipped
from anydepth_papers.studies.form_tables import time_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UNITS = 8
SHARE = 0.25
"""Of the evaluations of the training, for every treatment."""
MARGIN = 1.0
"""Points that half of the steps or of the size may lose."""
WHOLE, PENALTY, DISTILLED = "smoothing", "penalty alone", "distillation alone"
NONE, HEALED, HALF = "as imported", "skipped and healed", "half net distilled"
TREATMENTS: dict[str, dict[str, Any]] = {
    WHOLE: {},
    PENALTY: {"draws": 0, "distill": False},
    DISTILLED: {"penalty": 0.0},
}
"""Settings of the treatments that keep all units."""
FORMS = ("as it is", "half the steps", "half the size", "half of both", "twice the steps")
RIVALS = {
    PENALTY: "penalty alone",
    DISTILLED: "distillation alone",
    HEALED: "layers skipped and healed",
    HALF: "a half net distilled",
}
CLAIMS = {
    **{
        ("loses", form): Claim(
            f"Smoothed for a quarter of its training, a ResNet loses at most {MARGIN:g} point with {form}", "ours"
        )
        for form in ("half the steps", "half the size")
    },
    ("loses", "as it is"): Claim("Smoothed, the ResNet as it is loses at most 0.5 points", "ours"),
    **{
        ("rival", name): Claim(f"With half the steps, smoothing is above {words} for the same evaluations", "ours")
        for name, words in RIVALS.items()
    },
}
COLUMNS = (
    "treatment",
    "form",
    "as it is (%)",
    "recalibrated (%)",
    "parameters",
    "evaluations",
    "ms per image",
    "evaluations of the treatment",
    "seeds",
)
Found = dict[int, dict[str, Any]]


def run(study: Study) -> Findings:
    names = (NONE, *TREATMENTS, HEALED, HALF)
    study.plan((1 + len(names)) * len(study.seeds))
    found: Found = {seed: {name: _found(study, name, seed) for name in names} for seed in study.seeds}
    verdicts = tuple(_verdict(found, kind, which, claim) for (kind, which), claim in CLAIMS.items())
    return Findings(COLUMNS, tuple(_rows(found, names)), verdicts, lambda: _draw(found, names), _notes(study))


def _found(study: Study, name: str, seed: int) -> dict[str, Any]:
    config = depth_config(RESNETS[UNITS], seed, study.settings)
    model = config.model.model_copy(
        update={"name": "resnet", "options": {k: study.settings[k] for k in ("channels", "pool")} | {"layers": UNITS}}
    )
    config = config.model_copy(update={"model": model})
    study.piece(f"train-{seed}", lambda: study.trained("smoothing-resnet", config).metrics()[-1])
    key = "-".join(name.split())
    return study.piece(f"{key}-{seed}", lambda: _look(study, name, seed, study.trained("smoothing-resnet", config)))


def _look(study: Study, name: str, seed: int, run: Run) -> dict[str, Any]:
    exam, resnet = Exam(study, run), run.model()
    assert isinstance(resnet, ResNet)
    allowed = int(SHARE * UNITS * len(study.settings["channels"]) * study.settings["steps"])
    made, spent = _treated(name, seed, resnet, run, study, allowed)
    return {"forms": {form: _kept(exam(each)) for form, each in _forms(name, made).items()}, "evaluations": spent}


def _treated(name: str, seed: int, resnet: ResNet, run: Run, study: Study, allowed: int) -> tuple[nn.Module, int]:
    """A treated net, and the evaluations of units that this took: at most those allowed."""
    whole = as_blocks(resnet).eval()
    blocks = len(study.settings["channels"])
    if name == NONE:
        return whole, 0
    if name in (HEALED, HALF):
        half = as_blocks(skipped(resnet, UNITS // 2)).eval() if name == HEALED else _fresh(resnet, seed)
        cost = blocks * (UNITS // 2 + (UNITS if name == HALF else 0))
        settings = Smoothing(epochs=1, penalty=0.0, draws=0, distill=name == HALF, lr=0.05, seed=seed)
        return smoothed(half, some_batches(run, study, seed, allowed // cost), (), settings, whole, classes=True)
    return smooth_within(allowed, whole, Smoothing(epochs=1, seed=seed, **TREATMENTS[name]), run, study)


def smooth_within(allowed: int, whole: nn.Module, settings: Smoothing, run: Run, study: Study) -> tuple[nn.Module, int]:
    """A run's stack of units, aligned and smoothed with about so many evaluations, and how many it took."""
    forms, blocks = smoothing_forms(whole), len(blocks_of(whole))
    units = form_of(whole).steps or 1
    drawn = np.mean([form.steps or units for form in forms]) if settings.draws else 0
    cost = blocks * (units + drawn + (units if settings.distill else 0))
    epoch = some_batches(run, study, settings.seed, int(allowed / cost))
    return smoothed(align(deepcopy(whole)), epoch, forms, settings, whole, classes=True)


def _fresh(resnet: ResNet, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    config: dict[str, Any] = resnet.config
    return as_blocks(ResNet(**{**config, "layers": UNITS // 2}))


def some_batches(run: Run, study: Study, seed: int, count: int) -> Callable[[int], Sequence[Batch]]:
    """So many batches of the training part, augmented as in the training."""
    table, data = run.dataset(study.data).part("train"), run.config.data
    augment, draw = Augment(data.crop, data.flip, data.hide), Draw(1000 + seed, 0)

    def epoch(number: int) -> Sequence[Batch]:
        plans: list[Any] = []
        while len(plans) < max(1, count):
            plans += batches_of_epoch(Draw(draw.seed, len(plans)), len(table), run.config.training.batch)
        numbered = [*enumerate(plans[: max(1, count)])]
        return Lazily(numbered, lambda plan: table.batch(plan[1], run.facts, augment, Draw(draw.seed, plan[0])))

    return epoch


def _forms(name: str, model: nn.Module) -> dict[str, nn.Module]:
    return {"half the steps": model} if name in (HEALED, HALF) else halved(model)


def halved(model: nn.Module) -> dict[str, nn.Module]:
    """A stack of units in the forms that are looked at."""
    units = form_of(model).steps or 1
    half = units // 2
    return {
        "as it is": model,
        "half the steps": set_solver(deepcopy(model), steps=half),
        "half the size": compress(model, size=half),
        "half of both": compress(model, size=half, steps=half),
        "twice the steps": set_solver(deepcopy(model), steps=2 * units),
    }


def _kept(seen: dict[str, Any]) -> dict[str, Any]:
    kept = {key: seen[key] for key in ("parameters", "evaluations", "milliseconds")}
    return kept | {"accuracy": seen["recalibrated"]["accuracy"], "as it is": seen["accuracy"]}


def _values(found: Found, name: str, form: str, what: str = "accuracy") -> list[float]:
    return [one[name]["forms"][form][what] for one in found.values()]


def _verdict(found: Found, kind: str, which: str, claim: Claim) -> ClaimVerdict:
    if kind == "rival":
        mine, its = (_values(found, name, "half the steps") for name in (WHOLE, which))
        judged = better(mine, its, paired=True)
    else:
        mine, its = _values(found, WHOLE, which), _values(found, NONE, "as it is")
        judged = no_worse(mine, its, MARGIN if which != "as it is" else 0.5, paired=True)
    return ClaimVerdict(claim, f"{spread(mine)} against {spread(its)} %", judged)


def _rows(found: Found, names: Sequence[str]) -> list[tuple[Any, ...]]:
    rows = []
    for name in names:
        seeds = [one[name] for one in found.values()]
        for form, seen in seeds[0]["forms"].items():
            means = (round(float(np.mean(_values(found, name, form, key))), 2) for key in ("as it is", "accuracy"))
            cost = seen["parameters"], seen["evaluations"], time_of([one["forms"][form] for one in seeds])
            spent = int(np.mean([one["evaluations"] for one in seeds]))
            rows.append((name, form, *means, *cost, spent, len(seeds)))
    return rows


def _notes(study: Study) -> tuple[str, ...]:
    used = study.settings
    return (
        f"Data: {used['data']}; channels {used['channels']}, 8 units a stage, {used['steps']} steps of the optimiser "
        f"with a batch of {used['batch']}; {used['images']} test images.",
        "Evaluations: of units for one image; those of a treatment are in all its passes, the teacher's among them: a "
        "quarter of those of the training for each. Nothing was tuned for these nets.",
        "skipped and healed: every second unit left out, then trained on labels; half net distilled: fresh weights.",
    )


def _draw(found: Found, names: Sequence[str]) -> "Figure":
    import matplotlib.pyplot as plt

    figure, place = plt.subplots(figsize=(7, 4), constrained_layout=True)
    for name in names:
        forms = [form for form in FORMS if form in found[next(iter(found))][name]["forms"]]
        place.plot(forms, [np.mean(_values(found, name, form)) for form in forms], "o-", markersize=5, label=name)
    place.set(ylabel="test accuracy, recalibrated (%)")
    place.grid(alpha=0.25)
    place.legend(fontsize=8)
    return figure


_SMOKE: dict[str, Any] = SMOKE_IMAGES | {
    "steps": 8,
    "longer": 8,
    "grows": [1],
    "batch": 32,
    "warmup": 0,
    "images": 16,
    "recalibration": 1,
}
_MNIST: dict[str, Any] = {
    "data": {"name": "mnist", "limit": 8000, "validation": 2000},
    "channels": [4, 8],
    "pool": 7,
    "crop": 2,
    "batch": 128,
    "warmup": 20,
    "steps": 800,
    "longer": 800,
    "grows": [],
    "images": 4000,
    "recalibration": 20,
}
"""Three seeds in about ten minutes of one thread."""
_CIFAR: dict[str, Any] = {
    "data": {"name": "cifar10", "limit": 15_000, "validation": 2000},
    "channels": [16, 32],
    "pool": 8,
    "crop": 4,
    "flip": True,
    "batch": 128,
    "warmup": 100,
    "steps": 1404,
    "longer": 1404,
    "grows": [],
    "images": 10_000,
    "recalibration": 40,
}
_FULL: dict[str, Any] = {"steps": 9500, "longer": 9500, "images": 10_000}

for _name, _title, _cpu in (("smoothing", "MNIST", _MNIST), ("smoothing-cifar10", "CIFAR-10", _CIFAR)):
    _paper = _cpu | _FULL | {"data": {"name": _cpu["data"]["name"], "validation": 5000}}
    EXPERIMENTS.add(
        _name,
        Experiment(
            "Smoothing a trained ResNet, against other uses of the same time",
            f"anydepth; {_title}",
            {"smoke": _SMOKE, "cpu": _cpu, "paper": _paper},
            run,
        ),
    )
