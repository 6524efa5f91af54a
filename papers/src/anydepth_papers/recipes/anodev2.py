"""Models and settings of "ANODEV2: A coupled neural ODE framework" (Zhang et al. 2019).

CIFAR-10; ANODE's training: 350 epochs, learning rate 0.1 divided by 10 after 150 and 250, batch 256, weight decay 5e-4.
Convolutions evolve; batch norm is kept per step. All variants of one seed begin with the same weights.

The paper does not say how its blocks are built. Its Table 3 prints parameter counts, in thousands. Those of the Neural
ODE, ANODE and configuration two fit both ResNets with `PRINTED_NORMS` sets of batch norm although two steps use two of
them, one coefficient per filter, and the first block of ResNet-10 left plain, as the first unit of its second stage is.
The recipes that end with `-printed` are these. The counts of configuration one are 33 more per channel of the same
blocks, which more than one structure gives; those of AlexNet (7 and 13 more per channel) fit none of them.
"""

from typing import Any

from anydepth.recipes import RECIPES
from anydepth.runs.config import SGD, DataSettings, ModelSettings, RunConfig, Step, TrainingSettings

LAYOUTS = {"resnet4": "ResNet-4", "resnet10": "ResNet-10", "alexnet": "AlexNet"}
VARIANTS = {
    "baseline": "one residual unit per block",
    "neural-ode": "2 steps with the same kernels, gradients by the reverse-time adjoint",
    "anode": "2 steps with the same kernels, exact gradients",
    "config1": "kernels evolve by reaction, diffusion and advection on the grid of the activations, 5 steps",
    "config2": "kernels evolve first; w(0) and w(1) are applied, 2 steps",
}
PRINTED_NORMS = 5
PRINTED_BLOCKS = {"resnet4": [0], "resnet10": [1, 2]}
"""Which blocks of a layout evolve, by the printed counts."""
PRINTED_VARIANTS = ("neural-ode", "anode", "config2")


def block_options(
    layout: str, variant: str, evolution: dict[str, Any] | None = None, norms: int | None = None
) -> dict[str, Any]:
    """What the blocks of a variant are: steps, and functions by tensor name.

    Args:
        evolution: changes of how the kernels evolve.
        norms: sets of batch norm over depth; None: one per step.
    """
    steps = {"baseline": 1, "config1": 5}.get(variant, 2)
    evolved = {"evolution": "rda", **(evolution or {})}
    kernels: dict[str, Any] = {"basis": "constant", "size": 1}
    if variant == "config1":
        kernels = evolved | {"steps": 5}
    if variant == "config2":
        kernels = evolved | {"steps": 10, "apply_at": [0, 1]}
    weights = {"conv*.weight": kernels, "*": {"basis": "constant", "size": norms or steps}}
    if layout == "alexnet":
        weights = {"conv.bias": {"basis": "constant", "size": 1}} | weights
    return {"scheme": "euler", "steps": steps, "weights": weights, "init": "shared"}


def printed_options(layout: str, variant: str) -> dict[str, Any]:
    """Blocks that give the printed parameter counts; which coefficient a filter has, the counts do not tell."""
    evolution = {"options": {"per": "filter", "terms": ["reaction"]}}
    return block_options(layout, variant, evolution, PRINTED_NORMS) | {"blocks": PRINTED_BLOCKS[layout]}


def config(layout: str, variant: str, is_printed: bool = False) -> RunConfig:
    """The recipe of a network in a variant, by default with batch norm per step and coefficients per layer."""
    gradient = {"baseline": "backprop", "neural-ode": "adjoint"}.get(variant, "checkpoint")
    options = {"layout": layout, **(printed_options if is_printed else block_options)(layout, variant)}
    segment = options["steps"] if gradient == "checkpoint" else 1  # ANODE keeps the input of a block alone
    return RunConfig(
        data=DataSettings(name="cifar10", validation=0, crop=4, flip=True),
        model=ModelSettings(name="anode", options=options, gradient=gradient, segment=segment),  # pyright: ignore[reportArgumentType]
        optimizer=SGD(lr=0.1, momentum=0.9, weight_decay=5e-4),
        schedule=Step(milestones=(150, 250)),
        training=TrainingSettings(epochs=350, batch=256),
    )


def _register(layout: str, variant: str, is_printed: bool = False) -> None:
    def make() -> RunConfig:
        return config(layout, variant, is_printed)

    counted = ", with the printed parameter count" if is_printed else ""
    make.__doc__ = f"CIFAR-10, {LAYOUTS[layout]}: {VARIANTS[variant]}{counted}; paper scale."
    RECIPES.add(f"anodev2-{layout}-{variant}{'-printed' if is_printed else ''}", make)


for _layout in LAYOUTS:
    for _variant in VARIANTS:
        _register(_layout, _variant)
for _layout in PRINTED_BLOCKS:
    for _variant in PRINTED_VARIANTS:
        _register(_layout, _variant, is_printed=True)
