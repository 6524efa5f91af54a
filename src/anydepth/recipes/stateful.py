"""Stateful ODE-Nets (Queiruga et al. 2021): batch norm inside the block, RK4, refinement; image networks."""

from typing import Any

from anydepth.recipes import RECIPES
from anydepth.train.config import (
    SGD,
    Cosine,
    DataSettings,
    ModelSettings,
    RefineSettings,
    RunConfig,
    Step,
    TrainingSettings,
)

_START: dict[str, Any] = {"basis": "linear", "size": 1, "steps": 1, "scheme": "rk4"}
_SGD = SGD(lr=0.1, weight_decay=5e-4)


def _mnist(**changes: Any) -> ModelSettings:
    return ModelSettings(name="image", options={"channels": [12], "pool": 8, **_START} | changes)


def _cifar(
    dataset: str, options: dict[str, Any], epochs: int, milestones: tuple[int, ...], refine_at: tuple[int, ...]
) -> RunConfig:
    return RunConfig(
        data=DataSettings(name=dataset, validation=5000, crop=4, flip=True),
        model=ModelSettings(name="image", options=options),
        optimizer=_SGD,
        schedule=Step(milestones=milestones),
        training=TrainingSettings(epochs=epochs, batch=128),
        refine=RefineSettings(at=refine_at),
    )


@RECIPES.register("stateful-mnist")
def mnist() -> RunConfig:
    """Table 2: MNIST, 12 channels, constants grown from 1 to 8, 90 epochs; paper scale."""
    return RunConfig(
        data=DataSettings(name="mnist", validation=5000),
        model=_mnist(basis="constant"),
        optimizer=_SGD,
        schedule=Step(milestones=(60, 80)),
        training=TrainingSettings(epochs=90, batch=128),
        refine=RefineSettings(at=(20, 50, 80)),
    )


@RECIPES.register("stateful-mnist-no-norm")
def mnist_no_norm() -> RunConfig:
    """Table 2, ablation: the same without normalisation; paper scale."""
    return mnist().model_copy(update={"model": _mnist(basis="constant", normalise=False)})


@RECIPES.register("stateful-mnist-cpu")
def mnist_cpu() -> RunConfig:
    """MNIST, 12 channels, in 12 epochs, with hats grown 1, 2, 3, 5 and steps 1, 2, 4, 8: half an hour on two cores."""
    return RunConfig(
        data=DataSettings(name="mnist", validation=5000, crop=2),
        model=_mnist(),
        optimizer=_SGD,
        schedule=Cosine(warmup=200),
        training=TrainingSettings(epochs=12, batch=128),
        refine=RefineSettings(at=(5, 9, 11)),
        checkpoint_minutes=1.0,
    )


@RECIPES.register("stateful-cifar10-shallow")
def cifar10_shallow() -> RunConfig:
    """Table 3: CIFAR-10, 16 and 32 channels, constants grown from 1 to 8; paper scale."""
    options = {"channels": [16, 32], **_START, "basis": "constant"}
    return _cifar("cifar10", options, 200, (100, 150), (50, 110, 150))


@RECIPES.register("stateful-cifar10-deep")
def cifar10_deep() -> RunConfig:
    """Table 4, c1: CIFAR-10, 16-32-64 channels, hats grown 2, 3, 5, 9, 17 and steps 1 to 16; paper scale."""
    return _cifar("cifar10", {"channels": [16, 32, 64], **_START, "size": 2}, 200, (100, 150), (20, 40, 70, 90))


@RECIPES.register("stateful-cifar10-deep-fixed")
def cifar10_deep_fixed() -> RunConfig:
    """Table 4, c2: 16 constants and Euler with scale = steps = 16 from the start; paper scale."""
    options = {"channels": [16, 32, 64], "basis": "constant", "size": 16, "scheme": "euler", "steps": 16, "scale": 16.0}
    return _cifar("cifar10", options, 200, (100, 150), ())


@RECIPES.register("stateful-cifar100")
def cifar100() -> RunConfig:
    """Table 5, c1: CIFAR-100, 64-128-256 channels, hats grown 2, 3, 5, 9 and steps 1 to 8; paper scale."""
    return _cifar("cifar100", {"channels": [64, 128, 256], **_START, "size": 2}, 200, (100, 150), (40, 70, 90))


@RECIPES.register("stateful-cifar100-fixed")
def cifar100_fixed() -> RunConfig:
    """Table 5, c2: 8 constants and Euler with scale = steps = 8 from the start; paper scale."""
    options = {"channels": [64, 128, 256], "basis": "constant", "size": 8, "scheme": "euler", "steps": 8, "scale": 8.0}
    return _cifar("cifar100", options, 200, (100, 150), ())
