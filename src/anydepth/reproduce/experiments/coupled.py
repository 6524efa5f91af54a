"""Evolving kernels against kernels that stay: the five variants of ANODEV2, Tables 1 to 4, and kernels over depth."""

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from anydepth.depth.times import Instant
from anydepth.recipes.anodev2 import LAYOUTS, VARIANTS, config
from anydepth.reproduce import EXPERIMENTS
from anydepth.reproduce.experiment import Claim, Experiment, Findings, Verdict
from anydepth.reproduce.judging import RULE, differences, is_above, spread
from anydepth.reproduce.study import Study
from anydepth.surgery.blocks import blocks_of
from anydepth.surgery.summary import summary
from anydepth.train.config import RunConfig
from anydepth.train.override import override
from anydepth.train.runs import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PUBLISHED = {
    "resnet4": dict(zip(VARIANTS, (76.95, 47.37, 77.30, 78.11, 77.73), strict=True)),
    "resnet10": dict(zip(VARIANTS, (88.10, 67.94, 88.60, 89.04, 88.93), strict=True)),
    "alexnet": dict(zip(VARIANTS, (87.03, 75.67, 88.02, 88.78, 88.26), strict=True)),
}
PARAMETERS = {
    "resnet4": dict(zip(VARIANTS, (7.71, 7.96, 7.96, 8.23, 7.99), strict=True)),
    "resnet10": dict(zip(VARIANTS, (44.19, 44.95, 44.95, 45.77, 45.05), strict=True)),
    "alexnet": dict(zip(VARIANTS, (1756.68, 1757.13, 1757.13, 1757.51, 1757.13), strict=True)),
}
"""Table 3, in thousands."""
TIMES = tuple(Fraction(i, 4) for i in range(5))
"""Of the kernels in the figure."""
SHOWN = 5


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


def config_for(layout: str, variant: str, seed: int, settings: Settings) -> RunConfig:
    return override(config(layout, variant), [*settings.changes, f"seed={seed}"])


def run(study: Study) -> Findings:
    settings: Settings = study.settings
    cells = [(layout, variant) for layout in settings.layouts for variant in VARIANTS]
    study.plan(len(cells) * len(study.seeds))
    found: dict[str, dict[str, list[dict[str, Any]]]] = {
        layout: {variant: [] for variant in VARIANTS} for layout in settings.layouts
    }
    for seed in study.seeds:
        for layout, variant in cells:
            title = f"coupled-{layout}-{variant}"
            made = config_for(layout, variant, seed, settings)
            found[layout][variant].append(
                study.piece(f"{title}-{seed}", lambda t=title, c=made: _examined(study, study.trained(t, c)))
            )
    rows = tuple(_row(layout, variant, found[layout][variant]) for layout, variant in cells)
    columns = (
        "net",
        "variant",
        "test accuracy (%)",
        "lowest",
        "highest",
        "published (%)",
        "training accuracy (%)",
        "parameters",
        "published (K)",
        "evaluations",
        "minutes",
    )
    verdicts = tuple(verdict for layout in settings.layouts for verdict in _verdicts(layout, found[layout]))
    return Findings(columns, rows, verdicts, lambda: _draw(found), _notes(settings))


def _examined(study: Study, run: Run) -> dict[str, Any]:
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
        "kernels": _kernels(model),
        "coefficients": _coefficients(model),
    }


def _kernels(model: Any) -> list[list[Any]]:
    """A few kernels of the first block at a few times."""
    block = next(iter(blocks_of(model).values()))
    name = next(name for name in block.lifted if name.endswith("conv1.weight") or name == "conv.weight")
    reading = block.functions[name].reading([Instant(time) for time in TIMES])
    rows = [row.detach()[:SHOWN, 0].numpy().round(4).tolist() for row in reading.rows(*block.held(name))]
    return [rows[place] for place in reading.index]


def _coefficients(model: Any) -> dict[str, Any]:
    """The evolutions' own parameters."""
    return {
        f"{name}.{key}": np.round(value.detach().numpy(), 4).tolist()
        for name, block in blocks_of(model).items()
        for key, value in block.evolutions.named_parameters()
    }


def _row(layout: str, variant: str, found: list[dict[str, Any]]) -> tuple[Any, ...]:
    accuracy = [one["accuracy"] for one in found]

    def mean(key: str) -> float:
        return float(np.mean([one[key] for one in found]))

    first = found[0]
    return (
        LAYOUTS[layout],
        variant,
        *(float(np.mean(accuracy)), min(accuracy), max(accuracy)),
        PUBLISHED[layout][variant],
        mean("learnt"),
        f"{first['parameters']:,}",
        PARAMETERS[layout][variant],
        first["nfe"],
        mean("minutes"),
    )


def _verdicts(layout: str, found: dict[str, list[dict[str, Any]]]) -> list[Verdict]:
    accuracy = {variant: [one["accuracy"] for one in seeds] for variant, seeds in found.items()}
    pairs = (
        ("config1", "baseline", "Kernels that evolve (configuration one) beat the baseline", "A Table 1"),
        ("config2", "baseline", "Kernels that evolve (configuration two) beat the baseline", "A Table 2"),
        ("config2", "anode", "Evolving helps: configuration two beats ANODE with as many steps", "A Table 4"),
        ("config1", "config2", "Configuration one beats configuration two", "A Tables 1, 2"),
        ("anode", "neural-ode", "Exact gradients beat the reverse-time adjoint", "A Table 4"),
    )
    verdicts = []
    for better, worse, sentence, source in pairs:
        published = f"{PUBLISHED[layout][better]} against {PUBLISHED[layout][worse]} %"
        gaps = differences(accuracy[better], accuracy[worse])
        told = f"{spread(accuracy[better])} against {spread(accuracy[worse])} %; {spread(gaps)} points apart"
        verdicts.append(Verdict(Claim(f"{LAYOUTS[layout]}: {sentence}", source, published), told, is_above(gaps)))
    return verdicts


def _notes(settings: Settings) -> str:
    changes = ", ".join(settings.changes) or "none"
    return (
        f"CIFAR-10 by the recipes `anodev2-*`; changes of the published settings: {changes}. Kernels evolve by "
        "reaction, diffusion and advection with one set of coefficients per layer; batch norm is kept per step. Test "
        f"accuracy on all test images, read once after training; minutes of one thread beside other work. {RULE}"
    )


def _draw(found: dict[str, dict[str, list[dict[str, Any]]]]) -> "Figure":
    import matplotlib.pyplot as plt

    layout, variants = next(iter(found.items()))
    figure = plt.figure(figsize=(11, 4.6), constrained_layout=True)
    left, right = figure.subfigures(1, 2, squeeze=False, width_ratios=[1, 1.2])[0]
    place = left.subplots()
    for x, (variant, seeds) in enumerate(variants.items()):
        colour = "#0b6e99" if variant.startswith("config") else "#c2571a"
        place.plot([x] * len(seeds), [one["accuracy"] for one in seeds], "o", color=colour, alpha=0.8)
    place.set_xticks(range(len(variants)), list(variants), rotation=20)
    place.set(ylabel="test accuracy (%)", title=LAYOUTS[layout])
    place.grid(alpha=0.25, axis="y")
    kernels = variants["config1"][0]["kernels"]
    limit = max(abs(np.array(kernels)).max(), 1e-9)
    places = right.subplots(len(kernels[0]), len(TIMES), squeeze=False)
    for t, column in enumerate(kernels):
        for k, kernel in enumerate(column):
            places[k][t].imshow(kernel, cmap="RdBu_r", vmin=-limit, vmax=limit)
            places[k][t].set_axis_off()
        places[0][t].set_title(f"t = {float(TIMES[t]):g}", fontsize=9)
    right.suptitle("Kernels of the first convolution, configuration one", fontsize=11)
    return figure


EXPERIMENTS.add(
    "coupled",
    Experiment("Kernels that evolve: the five variants", "ANODEV2, Tables 1-4, Figs 4-6", SETTINGS, run),
)
