"""Models and settings of "When are Neural ODE solutions proper ODEs?" (Ott et al. 2020, app. A).

A vector field on the input itself, run by Euler's method with the steps that Table 1 finds enough, and a linear
classifier. The published numbers of training examples, which leave none for validation.
"""

from typing import Any

from anydepth.recipes import RECIPES
from anydepth.runs.config import SGD, Adam, DataSettings, ModelSettings, RunConfig, TrainingSettings


def _flow(unit: str, hidden: int, steps: int) -> ModelSettings:
    options: dict[str, Any] = {"unit": unit, "options": {"hidden": hidden}, "scheme": "euler", "steps": steps}
    return ModelSettings(name="flow", options=options)


@RECIPES.register("proper-spheres")
def spheres() -> RunConfig:
    """Concentric spheres: Conv1d 1-32-32-1, Euler with 128 steps; minutes."""
    return RunConfig(
        data=DataSettings(name="spheres", validation=0),
        model=_flow("vector_conv_field", 32, 128),
        optimizer=Adam(lr=1e-4),
        training=TrainingSettings(steps=10_000, batch=128),
    )


@RECIPES.register("proper-landscape")
def landscape() -> RunConfig:
    """Three minima: MLP 2-48-48-2, Euler with 64 steps; minutes."""
    return RunConfig(
        data=DataSettings(name="landscape", validation=0),
        model=_flow("mlp", 48, 64),
        optimizer=Adam(lr=5e-4),
        training=TrainingSettings(steps=30_000, batch=128),
    )


@RECIPES.register("proper-mnist")
def mnist() -> RunConfig:
    """MNIST: Conv 1-96-96-1, Euler with 16 steps."""
    return RunConfig(
        data=DataSettings(name="mnist", validation=0),
        model=_flow("conv_field", 96, 16),
        optimizer=SGD(lr=1e-2, momentum=0.0),
        training=TrainingSettings(steps=7020, batch=256),
    )


@RECIPES.register("proper-mnist-small")
def mnist_small() -> RunConfig:
    """MNIST in small: Conv 1-12-12-1 on 4000 images, with Adam; minutes."""
    return RunConfig(
        data=DataSettings(name="mnist", validation=0, limit=4000),
        model=_flow("conv_field", 12, 16),
        optimizer=Adam(lr=2e-3),
        training=TrainingSettings(steps=600, batch=64),
    )


@RECIPES.register("proper-cifar10")
def cifar10() -> RunConfig:
    """CIFAR-10: Conv 3-128-128-3, Euler with 32 steps."""
    return RunConfig(
        data=DataSettings(name="cifar10", validation=0),
        model=_flow("conv_field", 128, 32),
        optimizer=Adam(lr=1e-3),
        training=TrainingSettings(steps=7800, batch=256),
    )
