"""Models and settings of "ANODEV2: A coupled neural ODE framework" (Zhang et al. 2019).

CIFAR-10; ANODE's training: 350 epochs, learning rate 0.1 divided by 10 after 150 and 250, batch 256, weight decay 5e-4.
Convolutions evolve; batch norm is kept per step.
"""

from typing import Any

from anydepth.recipes import RECIPES
from anydepth.train.config import SGD, DataSettings, ModelSettings, RunConfig, Step, TrainingSettings

LAYOUTS = {"resnet4": "ResNet-4", "resnet10": "ResNet-10", "alexnet": "AlexNet"}
VARIANTS = {
    "baseline": "one residual unit per block",
    "neural-ode": "2 steps with the same kernels, gradients by the reverse-time adjoint",
    "anode": "2 steps with the same kernels, exact gradients",
    "config1": "kernels evolve by reaction, diffusion and advection on the grid of the activations, 5 steps",
    "config2": "kernels evolve first; w(0) and w(1) are applied, 2 steps",
}


def block_options(layout: str, variant: str, evolution: dict[str, Any] | None = None) -> dict[str, Any]:
    """What the blocks of a variant are: steps, and functions by tensor name."""
    steps = {"baseline": 1, "config1": 5}.get(variant, 2)
    evolved = {"evolution": "rda", **(evolution or {})}
    kernels: dict[str, Any] = {"basis": "constant", "size": 1}
    if variant == "config1":
        kernels = evolved | {"steps": 5}
    if variant == "config2":
        kernels = evolved | {"steps": 10, "apply_at": [0, 1]}
    weights = {"conv*.weight": kernels, "*": {"basis": "constant", "size": steps}}
    if layout == "alexnet":
        weights = {"conv.bias": {"basis": "constant", "size": 1}} | weights
    return {"scheme": "euler", "steps": steps, "weights": weights}


def config(layout: str, variant: str) -> RunConfig:
    """The recipe of a network in a variant."""
    gradient = {"baseline": "backprop", "neural-ode": "adjoint"}.get(variant, "checkpoint")
    options = {"layout": layout, **block_options(layout, variant)}
    segment = options["steps"] if gradient == "checkpoint" else 1  # ANODE keeps the input of a block alone
    return RunConfig(
        data=DataSettings(name="cifar10", validation=0, crop=4, flip=True),
        model=ModelSettings(name="anode", options=options, gradient=gradient, segment=segment),  # pyright: ignore[reportArgumentType]
        optimizer=SGD(lr=0.1, momentum=0.9, weight_decay=5e-4),
        schedule=Step(milestones=(150, 250)),
        training=TrainingSettings(epochs=350, batch=256),
    )


def _register(layout: str, variant: str) -> None:
    def make() -> RunConfig:
        return config(layout, variant)

    make.__doc__ = f"CIFAR-10, {LAYOUTS[layout]}: {VARIANTS[variant]}; paper scale."
    RECIPES.add(f"anodev2-{layout}-{variant}", make)


for _layout in LAYOUTS:
    for _variant in VARIANTS:
        _register(_layout, _variant)
