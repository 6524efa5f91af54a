"""Parameters of ANODEV2's networks against Table 3, what evolving adds to them, and their operations."""

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from anydepth.measure.cost import flops
from anydepth.zoo.parts import build
from anydepth_papers.experiments import EXPERIMENTS
from anydepth_papers.judge.experiment import Claim, ClaimVerdict, Experiment, Findings
from anydepth_papers.judge.rules import Judgement, computed, undecided
from anydepth_papers.judge.study import Study
from anydepth_papers.recipes.anodev2 import (
    LAYOUTS,
    PRINTED_BLOCKS,
    PRINTED_NORMS,
    PRINTED_VARIANTS,
    VARIANTS,
    block_options,
    printed_options,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PRINTED = {
    "resnet4": dict(zip(VARIANTS, (7.71, 7.96, 7.96, 8.23, 7.99), strict=True)),
    "resnet10": dict(zip(VARIANTS, (44.19, 44.95, 44.95, 45.77, 45.05), strict=True)),
    "alexnet": dict(zip(VARIANTS, (1756.68, 1757.13, 1757.13, 1757.51, 1757.13), strict=True)),
}
"""Table 3, in thousands."""
MOST = {"config1": 6.7, "config2": 3.6}
"""Per cent that the configurations add to the baseline at most (section 4.1)."""
NEGLIGIBLE, LARGE = 1.0, 10.0
"""Per cent of the baseline's parameters: what reaction, diffusion and advection may add, and what counts as many."""
CONV = {"evolution": "conv", "options": {"hidden": 16}}
"""The convolutional block as q: as many hidden channels as the unit has."""
STRUCTURE = {
    "resnet4": f"{PRINTED_NORMS} sets of batch norm and one coefficient per filter",
    "resnet10": f"{PRINTED_NORMS} sets of batch norm and one coefficient per filter, its first block plain",
}
UNKNOWN = {
    "config1": "33 more per channel of the evolving blocks in both (8,234 and 45,770): several structures give it",
    "alexnet": "7 more per channel (ANODE, configuration two), 13 (configuration one): none of these structures does",
}
CLAIMS = {
    **{
        f"baseline {layout}": Claim(
            f"{title}: the baseline has the printed parameters", "A Table 3", f"{PRINTED[layout]['baseline']:.2f} K"
        )
        for layout, title in LAYOUTS.items()
    },
    **{
        f"{variant} {layout}": Claim(
            f"{LAYOUTS[layout]}, {variant}: the printed parameters are those of {STRUCTURE[layout]}",
            "A Table 3",
            f"{PRINTED[layout][variant]:.2f} K",
        )
        for layout in PRINTED_BLOCKS
        for variant in PRINTED_VARIANTS[1:]
    },
    "config1": Claim("Both ResNets, configuration one: a structure gives the printed parameters", "A Table 3"),
    "alexnet": Claim("AlexNet, all but the baseline: a structure gives the printed parameters", "A Table 3"),
    "growth": Claim(
        "Configuration one adds at most 6.7 % of parameters, configuration two at most 3.6 %", "A section 4.1"
    ),
    "sizes": Claim(
        "Configuration two has the operations of ANODE and at most 1 % more parameters", "A section 4", "the same"
    ),
    "conv": Claim(
        "A convolutional block as q adds at least 10 % of parameters, reaction, diffusion and advection at most 1 %",
        "A section 2.1",
        "significantly more",
    ),
}
Counts = dict[str, dict[str, dict[str, int]]]


def run(study: Study) -> Findings:
    study.plan(1)
    counts: Counts = study.piece("counts", lambda: {layout: counts_of(layout) for layout in LAYOUTS})
    rows = tuple(
        _row(layout, variant, counts[layout][variant]) for layout in LAYOUTS for variant in (*VARIANTS, "conv")
    )
    columns = ("net", "variant", "parameters", "in the printed structure", "printed (K)", "MFLOP an image")
    notes = (
        "The recipes `anodev2-*` keep batch norm per step and one set of coefficients per layer; their counts stand "
        "first.",
        f"The printed structure, recipes `anodev2-*-printed`: {STRUCTURE['resnet10']}. Two steps use two of its sets.",
        "The paper does not state that structure: it was chosen to fit the four printed counts.",
        "Operations are those of convolutions and matrix products; the FFTs of the kernels are not counted.",
        f"The convolutional block has {CONV['options']['hidden']} hidden channels and mixes the inputs of a filter.",
    )
    verdicts = tuple(ClaimVerdict(claim, *judged(name, counts)) for name, claim in CLAIMS.items())
    return Findings(columns, rows, verdicts, lambda: _draw(counts), notes)


def counts_of(layout: str) -> dict[str, dict[str, int]]:
    """By variant: parameters of the recipe, of the printed structure where there is one, and operations."""
    found = {variant: _counted(layout, block_options(layout, variant)) for variant in VARIANTS}
    found["conv"] = _counted(layout, block_options(layout, "config1", CONV))
    for variant in PRINTED_VARIANTS if layout in PRINTED_BLOCKS else ():
        found[variant]["printed"] = parameters(_net(layout, printed_options(layout, variant)))
    return found


def _counted(layout: str, options: dict[str, Any]) -> dict[str, int]:
    net = _net(layout, options).eval()
    image = torch.zeros(1, 3, 32, 32)
    return {"parameters": parameters(net), "flops": flops(lambda: net(image))}


def _net(layout: str, options: dict[str, Any]) -> nn.Module:
    return build("anode", layout=layout, **options)


def parameters(net: nn.Module) -> int:
    return sum(parameter.numel() for parameter in net.parameters())


def _row(layout: str, variant: str, one: dict[str, int]) -> tuple[Any, ...]:
    structure = f"{one['printed']:,}" if "printed" in one else None
    printed = PRINTED[layout].get(variant)
    return LAYOUTS[layout], variant, f"{one['parameters']:,}", structure, printed, one["flops"] / 1e6


def judged(name: str, counts: Counts) -> tuple[str, Judgement]:
    """A claim in words and by its rule."""
    if name in UNKNOWN:
        return UNKNOWN[name], undecided(UNKNOWN[name])
    if name in ("growth", "sizes", "conv"):
        return {"growth": _growth, "sizes": _sizes, "conv": _conv}[name](counts)
    variant, layout = name.split()
    one = counts[layout][variant]
    found = one["parameters"] if variant == "baseline" else one["printed"]
    text = f"{found:,}"
    return text, computed(f"{found / 1000:.2f}" == f"{PRINTED[layout][variant]:.2f}", text)


def _more(some: dict[str, dict[str, int]], variant: str, base: str = "baseline") -> float:
    """Per cent of the baseline's parameters that a variant has more than another."""
    return 100 * (some[variant]["parameters"] - some[base]["parameters"]) / some["baseline"]["parameters"]


def _growth(counts: Counts) -> tuple[str, Judgement]:
    most = {variant: max(_more(some, variant) for some in counts.values()) for variant in MOST}
    text = ", ".join(f"{variant} at most {value:.2f} %" for variant, value in most.items())
    return text, computed(all(most[variant] <= limit for variant, limit in MOST.items()), text)


def _sizes(counts: Counts) -> tuple[str, Judgement]:
    same = all(some["config2"]["flops"] == some["anode"]["flops"] for some in counts.values())
    most = max(_more(some, "config2", "anode") for some in counts.values())
    text = f"{'the same' if same else 'other'} operations, at most {most:.2f} % more parameters"
    return text, computed(same and most <= NEGLIGIBLE, text)


def _conv(counts: Counts) -> tuple[str, Judgement]:
    """What q adds, batch norm aside; in the ResNets, whose parameters are mostly kernels."""
    nets = [some for layout, some in counts.items() if layout != "alexnet"]
    least = min(_more(some, "conv", "config1") for some in nets)
    most = max(_more(some, "config2", "anode") for some in counts.values())
    text = f"a convolutional block at least {least:.1f} % in the ResNets, the others at most {most:.2f} %"
    return text, computed(least >= LARGE and most <= NEGLIGIBLE, text)


def _draw(counts: Counts) -> "Figure":
    import matplotlib.pyplot as plt

    figure, places = plt.subplots(1, len(counts), figsize=(11, 3.6), constrained_layout=True)
    for place, layout in zip(places, LAYOUTS, strict=True):
        some, base = counts[layout], PRINTED[layout]["baseline"]
        names = list(VARIANTS)
        ours = [some[name].get("printed", some[name]["parameters"]) / 1000 - base for name in names]
        place.bar(range(len(names)), ours, color="#0b6e99", alpha=0.85, label="counted")
        printed = [PRINTED[layout][name] - base for name in names]
        place.plot(range(len(names)), printed, "o", color="#c2571a", label="printed")
        place.set_xticks(range(len(names)), names, rotation=30)
        place.set(title=LAYOUTS[layout], ylabel="thousands above the baseline")
        place.grid(alpha=0.25, axis="y")
    places[0].legend()
    return figure


EXPERIMENTS.add(
    "anode-counts",
    Experiment(
        "Parameters of the coupled networks",
        "ANODEV2, Table 3, sections 2.1, 4, 4.1",
        {"smoke": None, "cpu": None, "paper": None},
        run,
        seeds=1,
    ),
)
