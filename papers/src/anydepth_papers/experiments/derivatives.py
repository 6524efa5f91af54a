"""Do schemes of higher order train smaller derivatives over depth? (Stateful ODE-Nets, section 6)."""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from anydepth.block.block import ContinuousBlock
from anydepth.measure.evaluation import batches_of, evaluate, evaluating, fitting
from anydepth.runs.config import RunConfig
from anydepth.runs.folder import Run
from anydepth.surgery.blocks import blocks_of
from anydepth.zoo.models.image_network import ImageNetwork
from anydepth_papers.experiments import EXPERIMENTS
from anydepth_papers.judge.experiment import Claim, ClaimVerdict, Experiment, Findings
from anydepth_papers.judge.rules import better
from anydepth_papers.judge.study import Study
from anydepth_papers.judge.wording import spread
from anydepth_papers.nets.image_configs import image_config

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCHEMES = ("euler", "midpoint", "rk4")
STARTS = {"independent": "independent", "tied": "shared"}
"""Initial weights: drawn for every depth, so that differences over depth are there before training; or the same at all
depths, as after a refinement, so that training makes all of them."""
CELLS = [(scheme, start) for start in STARTS for scheme in SCHEMES]
MEASURES = {
    "weights": "first differences of the kernels",
    "curvature": "second differences of the kernels",
    "field": "first differences of the field on its way",
}
STEPS = 8
"""As many constants as steps: every scheme reads the same weights."""
_PAPER = "smaller derivatives of f are implied by Theorem 1"

Comparison = tuple[tuple[str, str], tuple[str, str], str]
CLAIMS: dict[Comparison, Claim] = {
    (("euler", start), ("rk4", start), measure): Claim(
        f"Trained with RK4 rather than Euler, {MEASURES[measure]} are smaller ({start} start, digits, over seeds)",
        "S section 6",
        _PAPER,
    )
    for start in STARTS
    for measure in ("weights", "field")
} | {
    (("rk4", "independent"), ("euler", "tied"), "weights"): Claim(
        "Control: equal weights at the start make kernels smoother than RK4 does (digits, over seeds)", "ours"
    ),
}
"""What is larger, what is smaller, by which measure. Rule: `better` over seeds, paired, since they share the order of
the data."""
COLUMNS = ("scheme", "start", *MEASURES.values(), "accuracy (%)", "evaluations", "seeds")

_COMMON = {"channels": [8], "pool": 4, "batch": 64}
_SMOKE = _COMMON | {"data": {"name": "digits", "limit": 64, "validation": 0}, "epochs": 1, "warmup": 0}
_CPU = _COMMON | {"data": {"name": "digits", "validation": 0}, "epochs": 8, "warmup": 20}
_FULL = _COMMON | {
    "data": {"name": "cifar10", "validation": 5000, "crop": 4, "flip": True},
    "epochs": 200,
    "warmup": 400,
    "channels": [16, 32, 64],
    "pool": 8,
    "batch": 128,
}


def config_for(scheme: str, start: str, seed: int, settings: dict[str, Any]) -> RunConfig:
    shape = {"basis": "constant", "size": STEPS, "steps": STEPS, "scheme": scheme, "init": STARTS[start]}
    return image_config(seed, settings, (), **shape)


def run(study: Study) -> Findings:
    study.plan(len(CELLS) * len(study.seeds))
    found = {cell: [_found(study, *cell, seed) for seed in study.seeds] for cell in CELLS}
    rows = tuple(_row(cell, seeds) for cell, seeds in found.items())
    verdicts = tuple(_verdict(found, comparison) for comparison in CLAIMS)
    return Findings(COLUMNS, rows, verdicts, lambda: _draw(found), _notes(study))


def _found(study: Study, scheme: str, start: str, seed: int) -> dict[str, Any]:
    config = config_for(scheme, start, seed, study.settings)
    title = f"derivatives-{scheme}-{start}"
    return study.piece(f"{scheme}-{start}-{seed}", lambda: look(study, study.trained(title, config)))


def look(study: Study, run: Run) -> dict[str, Any]:
    """Differences over depth of a trained net, its accuracy, and what it costs."""
    model, test = run.model(), run.dataset(study.data).part("test")
    score = evaluate(model, test, run.facts, 500)
    kernels = kernels_of(model)
    (images, *_), _ = fitting(model, next(batches_of(test, run.facts, 200)))
    return {
        "weights": roughness(kernels, 1),
        "curvature": roughness(kernels, 2),
        "field": roughness(fields_of(model, images), 1),
        "accuracy": score.value,
        "evaluations": score.nfe,
    }


def kernels_of(model: nn.Module) -> list[Tensor]:
    """The convolutions of all blocks in the middle of every step, each (N, ...)."""
    centres = [(2 * i + 1) / (2 * STEPS) for i in range(STEPS)]
    thetas = [block.theta(t) for block in blocks_of(model).values() for t in centres]
    return [
        torch.stack([theta[name].detach() for theta in thetas[first : first + STEPS]])
        for first in range(0, len(thetas), STEPS)
        for name, tensor in thetas[first].items()
        if tensor.ndim == 4
    ]


def fields_of(model: nn.Module, images: Tensor) -> list[Tensor]:
    """What every block's unit gives at the start of each step, on the states that the block passes: (N, ...)."""
    assert isinstance(model, ImageNetwork)
    found = []
    with evaluating(model):
        x = model.stem(images)
        for stitch, block in zip(model.stitches, model.blocks, strict=True):
            assert isinstance(block, ContinuousBlock)
            x = stitch(x)
            found.append(_field(block, x))
            x = block(x)
    return found


def _field(block: ContinuousBlock, x: Tensor) -> Tensor:
    times = [i / STEPS for i in range(STEPS)]
    states = block.trajectory(x, times)
    return torch.stack([functional_call(block.unit, block.theta(t), (y,)) for t, y in zip(times, states, strict=True)])  # pyright: ignore[reportArgumentType]


def roughness(functions: list[Tensor], order: int) -> float:
    """Root mean square of differences over depth, divided by the step to that power, over that of the values."""
    differences = sum(float(torch.diff(f, order, 0).double().square().mean(0).sum()) for f in functions)
    values = sum(float(f.double().square().mean(0).sum()) for f in functions)
    return STEPS**order * (differences / values) ** 0.5


def _row(cell: tuple[str, str], seeds: list[dict[str, Any]]) -> tuple[Any, ...]:
    measured = (spread([one[measure] for one in seeds]) for measure in MEASURES)
    return (*cell, *measured, spread([one["accuracy"] for one in seeds]), seeds[0]["evaluations"], len(seeds))


def _verdict(found: dict[tuple[str, str], list[dict[str, Any]]], comparison: Comparison) -> ClaimVerdict:
    larger, smaller, measure = comparison
    values = [[one[measure] for one in found[cell]] for cell in (larger, smaller)]
    told = f"{spread(values[0])} ({', '.join(larger)}) against {spread(values[1])} ({', '.join(smaller)})"
    return ClaimVerdict(CLAIMS[comparison], told, better(*values, paired=True, unit=""))


def _notes(study: Study) -> tuple[str, ...]:
    size = f"{study.settings['channels']} channels, {study.settings['epochs']} epochs"
    return (
        f"Nets with {STEPS} constants and {STEPS} steps, {size}, data {study.settings['data']['name']}; all nets of a "
        "seed share the order of the data, those with the same start also their initial weights.",
        "Differences over depth: root mean square, divided by the step, over the root mean square of the values; "
        f"{STEPS} independent values have {2**0.5 * STEPS:.1f} (first) and {6**0.5 * STEPS**2:.0f} (second).",
        "The field is the unit's output at the start of each step, on 200 test images.",
        "Mean (lowest to highest) over the seeds.",
    )


def _draw(found: dict[tuple[str, str], list[dict[str, Any]]]) -> "Figure":
    import matplotlib.pyplot as plt

    figure, places = plt.subplots(1, len(MEASURES), figsize=(12, 3.6), constrained_layout=True)
    for place, (measure, title) in zip(places, MEASURES.items(), strict=True):
        for start, colour in zip(STARTS, ("#c2571a", "#0b6e99"), strict=True):
            values = np.array([[one[measure] for one in found[scheme, start]] for scheme in SCHEMES])
            place.plot(SCHEMES, values, "o", color=colour, alpha=0.4, markersize=4)
            place.plot(SCHEMES, values.mean(1), "-", color=colour, label=f"{start} start")
        place.set_title(title, fontsize=9)
        place.set_ylim(bottom=0)
        place.grid(alpha=0.25)
        place.legend(fontsize=8)
    return figure


EXPERIMENTS.add(
    "derivatives",
    Experiment(
        "Derivatives over depth of nets trained with Euler, midpoint and RK4",
        "Stateful ODE-Nets, section 6 (Theorem 1's use)",
        {"smoke": _SMOKE, "cpu": _CPU, "paper": _FULL},
        run,
        seeds=5,
    ),
)
