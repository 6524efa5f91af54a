"""Stateful ODE-Nets (Queiruga et al. 2021): batch norm inside the block, RK4, refinement; image networks."""

from typing import Any

from anydepth.recipes import RECIPES
from anydepth.runs.config import (
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
_SHALLOW, _DEEP, _WIDE = [16, 32], [16, 32, 64], [64, 128, 256]
_SGD = SGD(lr=0.1, weight_decay=5e-4)
_NO_DECAY = SGD(lr=0.1)
"""For CIFAR-100: E.1 states a weight decay for every net but this one."""


def _mnist(**changes: Any) -> ModelSettings:
    return ModelSettings(name="image", options={"channels": [12], "pool": 8, **_START} | changes)


def _cifar(dataset: str, options: dict[str, Any], refine_at: tuple[int, ...] = ()) -> RunConfig:
    """200 epochs; the paper gives the initial learning rate, but neither its milestones nor an augmentation."""
    return RunConfig(
        data=DataSettings(name=dataset, validation=5000, crop=4, flip=True),
        model=ModelSettings(name="image", options=options),
        optimizer=_NO_DECAY if dataset == "cifar100" else _SGD,
        schedule=Step(milestones=(100, 150)),
        training=TrainingSettings(epochs=200, batch=128),
        refine=RefineSettings(at=refine_at),
    )


def _fixed(channels: list[int], size: int, scheme: str) -> dict[str, Any]:
    """c2: constants, as deep from the start; with Euler and scale = steps it is a ResNet."""
    scale = float(size) if scheme == "euler" else 1.0
    shape = {"basis": "constant", "size": size, "steps": size}
    return {"channels": channels, **shape, "scheme": scheme, "scale": scale}


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
    return _cifar("cifar10", {"channels": _SHALLOW, **_START, "basis": "constant"}, (50, 110, 150))


@RECIPES.register("stateful-cifar10-deep")
def cifar10_deep() -> RunConfig:
    """Table 4, c1: CIFAR-10, 16-32-64 channels, hats grown 2, 3, 5, 9, 17 and steps 1 to 16; paper scale.

    The printed 1.63 M -> 0.85 M parameters are those of 16 -> 8 functions, which hats that are split do not reach.
    """
    return _cifar("cifar10", {"channels": _DEEP, **_START, "size": 2}, (20, 40, 70, 90))


@RECIPES.register("stateful-cifar10-deep-fixed")
def cifar10_deep_fixed() -> RunConfig:
    """Table 4, c2: 16 constants and Euler with scale = steps = 16 from the start; paper scale.

    This is how the authors' programs start such nets. The text names no scheme for c2: `-fixed-rk4` follows E.1.
    """
    return _cifar("cifar10", _fixed(_DEEP, 16, "euler"))


@RECIPES.register("stateful-cifar10-deep-fixed-rk4")
def cifar10_deep_fixed_rk4() -> RunConfig:
    """Table 4, c2 with the RK4 that E.1 names for the deep net, and that its inference time suggests; paper scale."""
    return _cifar("cifar10", _fixed(_DEEP, 16, "rk4"))


@RECIPES.register("stateful-cifar100")
def cifar100() -> RunConfig:
    """Table 5, c1: CIFAR-100, 64-128-256 channels, hats grown 2, 3, 5, 9 and steps 1 to 8; paper scale."""
    return _cifar("cifar100", {"channels": _WIDE, **_START, "size": 2}, (40, 70, 90))


@RECIPES.register("stateful-cifar100-fixed")
def cifar100_fixed() -> RunConfig:
    """Table 5, c2: 8 constants and Euler with scale = steps = 8 from the start; paper scale."""
    return _cifar("cifar100", _fixed(_WIDE, 8, "euler"))


@RECIPES.register("stateful-cifar100-fixed-rk4")
def cifar100_fixed_rk4() -> RunConfig:
    """Table 5, c2 with the RK4 that E.1 names; paper scale."""
    return _cifar("cifar100", _fixed(_WIDE, 8, "rk4"))
