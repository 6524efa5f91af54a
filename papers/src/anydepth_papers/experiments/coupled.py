"""Evolving kernels against kernels that stay: the variants of ANODEV2, Tables 1, 2 and 4, and kernels over depth."""

import json
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from anydepth.depth.times import Instant
from anydepth.runs.config import RunConfig
from anydepth.runs.folder import Run
from anydepth.runs.override import override
from anydepth.surgery.blocks import blocks_of
from anydepth.surgery.summary import summary
from anydepth_papers.experiments import EXPERIMENTS
from anydepth_papers.judge.experiment import Claim, ClaimVerdict, Experiment, Findings
from anydepth_papers.judge.rules import Judgement, all_of, better, near, no_worse, not_run, undecided
from anydepth_papers.judge.study import Study
from anydepth_papers.judge.wording import differences, spread
from anydepth_papers.nets.image_nets import uses_depth
from anydepth_papers.recipes.anodev2 import LAYOUTS, VARIANTS, config
from anydepth_papers.studies.kernel_figure import kernel_figure

PUBLISHED = {
    "resnet4": dict(zip(VARIANTS, (76.95, 47.37, 77.30, 78.11, 77.73), strict=True)),
    "resnet10": dict(zip(VARIANTS, (88.10, 67.94, 88.60, 89.04, 88.93), strict=True)),
    "alexnet": dict(zip(VARIANTS, (87.03, 75.67, 88.02, 88.78, 88.26), strict=True)),
}
"""Averages of five runs, Tables 1, 2 and 4."""
SPREADS = {
    "resnet4": dict(zip(VARIANTS, (0.48, 2.64, 0.38, 0.84, 0.55), strict=True)),
    "resnet10": dict(zip(VARIANTS, (0.42, 3.24, 0.15, 0.37, 0.28), strict=True)),
    "alexnet": dict(zip(VARIANTS, (0.19, 1.13, 0.16, 0.19, 0.16), strict=True)),
}
"""How far the lowest or the highest of the five runs is from their average: the margins of accuracies."""
CONTROLS: dict[str, dict[str, Any]] = {
    "anode-5": {"conv*.weight": {"basis": "constant", "size": 1}, "*": {"basis": "constant", "size": 5}},
    "separate": {"*": {"basis": "constant", "size": 5}},
}
"""Weights of two further nets with five evaluations, as many as configuration one makes: five steps with kernels that
stay, and a plain ResNet of five units, x + f(x) each, with kernels of their own."""
CELLS = (*VARIANTS, *CONTROLS)
GAIN = 1.0
"""Points above one step that count as a gain from more steps."""
RESOLUTION = 0.01
"""One of 10,000 test images."""
TIMES = tuple(Fraction(i, 4) for i in range(5))
"""Of the kernels in the figure."""
SHOWN = 5

PAIRS = (
    ("config1", "baseline", "Kernels that evolve (configuration one) beat the baseline", "A Table 1"),
    ("config2", "baseline", "Kernels that evolve (configuration two) beat the baseline", "A Table 2"),
    ("config2", "anode", "Configuration two beats ANODE with as many steps", "A Table 4"),
    ("config1", "config2", "Configuration one beats configuration two", "A Tables 1, 2"),
    ("anode", "neural-ode", "Exact gradients beat the reverse-time adjoint", "A Table 4"),
    ("config1", "anode-5", "Configuration one beats five steps with kernels that stay", "ours, control of A Table 1"),
)
"""Claims that one variant is better than another, over seeds, paired."""
STEPS = "Five steps with kernels that stay are at most 1 point above one step"
AS_PRINTED = "Every variant has its printed accuracy, within the printed spread"
NEEDS = "needs 350 epochs of 50,000 images for every variant: days; `anydepth reproduce coupled --scale paper`"
ABSENT = "not run at this scale"


@dataclass(frozen=True)
class Settings:
    """Layouts, and changes of the published settings."""

    layouts: tuple[str, ...]
    changes: tuple[str, ...] = ()


_SHORT = ("training.epochs=6", "training.batch=64", 'schedule={"name":"cosine","warmup":50}')
SETTINGS = {
    "smoke": Settings(
        ("resnet4",),
        (
            'data={"name":"digits","limit":64,"validation":0}',
            "model.options.width=2",
            "training.epochs=1",
            "training.batch=32",
            'schedule={"name":"constant"}',
        ),
    ),
    "cpu": Settings(("resnet4",), ("data.limit=8000", *_SHORT)),
    "paper": Settings(tuple(LAYOUTS)),
}
Found = dict[str, dict[str, list[dict[str, Any]]]]


def config_for(layout: str, variant: str, seed: int, settings: Settings) -> RunConfig:
    if variant not in CONTROLS:
        return override(config(layout, variant), [*settings.changes, f"seed={seed}"])
    weights = CONTROLS[variant]
    if layout == "alexnet" and variant == "anode-5":
        weights = {"conv.bias": {"basis": "constant", "size": 1}} | weights
    start, scale = ("independent", 5) if variant == "separate" else ("shared", 1)
    net = {"weights": json.dumps(weights), "init": start, "scale": scale}
    changes = (f"model.options.{name}={value}" for name, value in net.items())
    return override(config(layout, "config1"), [*settings.changes, *changes, f"seed={seed}"])


def run(study: Study) -> Findings:
    settings: Settings = study.settings
    study.plan(len(settings.layouts) * len(CELLS) * len(study.seeds))
    found: Found = {layout: {variant: [] for variant in CELLS} for layout in settings.layouts}
    for seed in study.seeds:
        for layout, variants in found.items():
            for variant, seeds in variants.items():
                title = f"coupled-{layout}-{variant}"
                made = config_for(layout, variant, seed, settings)
                seeds.append(study.piece(f"{title}-{seed}", lambda t=title, c=made: _examined(study.trained(t, c))))
    rows = tuple(_row(layout, variant, found[layout][variant]) for layout in found for variant in CELLS)
    verdicts = tuple(verdict for layout in LAYOUTS for verdict in verdicts_on(layout, found.get(layout), settings))
    return Findings(COLUMNS, rows, verdicts, lambda: kernel_figure(found, LAYOUTS, "config1"), _notes(settings))


def _examined(run: Run) -> dict[str, Any]:
    lines = run.metrics()
    epochs = [line for line in lines if line["kind"] == "epoch"]
    model = run.model()
    told = summary(model)
    return {
        "accuracy": next(line["test_accuracy"] for line in lines if "test_accuracy" in line),
        "learnt": epochs[-1]["train_accuracy"],
        "minutes": epochs[-1]["seconds"] / 60,
        "parameters": told.parameters,
        "nfe": told.nfe,
        **_kernels(model),
    }


def _kernels(model: Any) -> dict[str, Any]:
    """A few kernels of the first block at a few times, and how far all of them move."""
    block = next(iter(blocks_of(model).values()))
    name = next(name for name in block.lifted if name.endswith("conv1.weight") or name == "conv.weight")
    reading = block.functions[name].reading([Instant(time) for time in TIMES])
    each = reading.rows(*block.held(name))
    rows = [each[place].detach() for place in reading.index]
    moved = 100 * float((rows[-1] - rows[0]).norm() / rows[0].norm())
    kernels = [row[:SHOWN, 0].numpy().round(4).tolist() for row in rows]
    return {"kernels": kernels, "times": [float(time) for time in TIMES], "moved": moved}


COLUMNS = (
    "net",
    "variant",
    "test accuracy (%)",
    "lowest",
    "highest",
    "published (%)",
    "training accuracy (%)",
    "parameters",
    "evaluations",
    "w(1) - w(0) (% of w(0))",
    "minutes",
)


def _row(layout: str, variant: str, found: list[dict[str, Any]]) -> tuple[Any, ...]:
    accuracy = [one["accuracy"] for one in found]

    def mean(key: str) -> float:
        return float(np.mean([one[key] for one in found]))

    return (
        LAYOUTS[layout],
        variant,
        *(float(np.mean(accuracy)), min(accuracy), max(accuracy)),
        PUBLISHED[layout].get(variant),
        mean("learnt"),
        f"{found[0]['parameters']:,}",
        found[0]["nfe"],
        mean("moved"),
        mean("minutes"),
    )


def verdicts_on(layout: str, found: dict[str, list[dict[str, Any]]] | None, settings: Settings) -> list[ClaimVerdict]:
    """Of one network; of one that was not trained here, that it was not."""
    claims = {pair: _claim(layout, *pair) for pair in PAIRS}
    steps = Claim(f"{LAYOUTS[layout]}: {STEPS}", "A section 1", "no gain")
    printed = Claim(f"{LAYOUTS[layout]}: {AS_PRINTED}", "A Tables 1, 2, 4", _printed(layout))
    if found is None:
        return [ClaimVerdict(claim, ABSENT, not_run(NEEDS)) for claim in (*claims.values(), steps, printed)]
    accuracy = {variant: [one["accuracy"] for one in seeds] for variant, seeds in found.items()}
    judged = [_better(claim, accuracy[a], accuracy[b]) for (a, b, *_), claim in claims.items()]
    return [*judged, _more_steps(steps, accuracy), _accuracies(printed, layout, accuracy, settings)]


def _claim(layout: str, better: str, worse: str, sentence: str, source: str) -> Claim:
    printed = PUBLISHED[layout]
    figures = f"{printed[better]} against {printed[worse]} %" if worse in printed else ""
    return Claim(f"{LAYOUTS[layout]}: {sentence}", source, figures)


def _printed(layout: str) -> str:
    return ", ".join(f"{variant} {value} ± {SPREADS[layout][variant]}" for variant, value in PUBLISHED[layout].items())


def _better(claim: Claim, a: list[float], b: list[float]) -> ClaimVerdict:
    told = f"{spread(a)} against {spread(b)} %; {spread(differences(a, b))} points apart"
    return ClaimVerdict(claim, told, better(a, b, paired=True, resolution=RESOLUTION))


def _more_steps(claim: Claim, accuracy: dict[str, list[float]]) -> ClaimVerdict:
    """Decides only where five units with kernels of their own gain from their depth."""
    one, same, own = accuracy["baseline"], accuracy["anode-5"], accuracy["separate"]
    gains = spread(differences(same, one)), spread(differences(own, one))
    told = f"{gains[0]} points above one step; a ResNet of five units {gains[1]}"
    judgement: Judgement = no_worse(one, same, GAIN, paired=True, resolution=RESOLUTION)
    by_seed = dict(enumerate(own))
    if not uses_depth({"separate": by_seed}, "separate", dict(enumerate(one)), float):
        judgement = undecided("five units with their own kernels are not 5 points above one: depth does not pay here")
    return ClaimVerdict(claim, told, judgement)


def _accuracies(claim: Claim, layout: str, accuracy: dict[str, list[float]], settings: Settings) -> ClaimVerdict:
    if settings.changes:
        return ClaimVerdict(claim, ABSENT, not_run(NEEDS))
    told = ", ".join(f"{variant} {spread(accuracy[variant])}" for variant in VARIANTS)
    parts = (near(accuracy[v], PUBLISHED[layout][v], SPREADS[layout][v], resolution=RESOLUTION) for v in VARIANTS)
    return ClaimVerdict(claim, told, all_of(*parts))


def _notes(settings: Settings) -> tuple[str, ...]:
    changes = ", ".join(settings.changes) or "none"
    return (
        f"CIFAR-10 by the recipes `anodev2-*`; changes of the published settings: {changes}.",
        "Kernels evolve by reaction, diffusion and advection with one set of coefficients per layer; batch norm is "
        "kept per step.",
        "Controls: `anode-5` has the five steps of configuration one and kernels that stay; `separate` is a plain "
        "ResNet of five units, x + f(x) each.",
        "Seeds are paired: runs of one seed share the order of the data and, but for `separate`, the initial weights.",
        "Test accuracy on all test images, read once after training; minutes of one thread beside other work.",
        "Section 5 says that the worst coupled net is better than the best baseline; Table 1 says 77.27 and 77.35 % "
        "for ResNet-4.",
    )


EXPERIMENTS.add(
    "coupled",
    Experiment("Kernels that evolve: the five variants", "ANODEV2, Tables 1, 2, 4, Figs 4-6", SETTINGS, run, seeds=5),
)
