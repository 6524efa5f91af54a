"""ContinuousNet (Queiruga et al. 2020): skip-init units; RK4 with refinement, Euler at fixed depth (section 5.1)."""

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

_SGD = SGD(lr=0.1, weight_decay=5e-4)
_WIDE = {"channels": [64, 128, 256]}
_NARROW = {"channels": [32, 64, 128]}
_NO_SKIP_INIT = {"unit": "preact_conv", "options": {"bias": True}, "stitch_skip_init": False}


def _net(scheme: str, scale: float, final_steps: int, **changes: Any) -> ModelSettings:
    """Starts with one step; stitches are scaled as one of the final steps is (A.1, corrected)."""
    options = {
        "unit": "skip_init_conv",
        "first_stitch": False,
        "stitch_skip_init": True,
        "basis": "constant",
        "size": 1,
        "steps": 1,
        "scheme": scheme,
        "scale": scale,
        "stitch_scale": scale / final_steps,
    }
    return ModelSettings(name="image", options=options | changes)


def _fixed(scheme: str, scale: float, steps: int, **changes: Any) -> ModelSettings:
    """Has all its steps from the start."""
    return _net(scheme, scale, steps, size=steps, steps=steps, **changes)


def _cifar(
    dataset: str, model: ModelSettings, refine_at: tuple[int, ...] = (20, 40, 60, 70, 80), epochs: int = 160
) -> RunConfig:
    return RunConfig(
        data=DataSettings(name=dataset, validation=5000, crop=4, flip=True),
        model=model,
        optimizer=_SGD,
        schedule=Step(milestones=(80, 120, 140)),
        training=TrainingSettings(epochs=epochs, batch=128),
        refine=RefineSettings(at=refine_at),
    )


@RECIPES.register("continuousnet-cifar10")
def cifar10() -> RunConfig:
    """Table 1a: CIFAR-10, 16-32-64 channels, RK4, grown from 1 to 32 steps; paper scale."""
    return _cifar("cifar10", _net("rk4", 8.0, 32))


@RECIPES.register("continuousnet-cifar10-euler")
def cifar10_euler() -> RunConfig:
    """Table 1a: CIFAR-10, 16-32-64 channels, Euler, 32 steps from the start; paper scale."""
    return _cifar("cifar10", _fixed("euler", 8.0, 32), refine_at=())


@RECIPES.register("continuousnet-cifar10-fixed")
def cifar10_fixed() -> RunConfig:
    """Footnote 6: CIFAR-10, 16-32-64 channels, RK4, 32 steps from the start; paper scale."""
    return _cifar("cifar10", _fixed("rk4", 8.0, 32), refine_at=())


@RECIPES.register("resnet-cifar10")
def resnet_cifar10() -> RunConfig:
    """Baseline of Table 1a: a pre-activation ResNet of 3 x 32 units, which is Euler with scale = steps; paper scale."""
    plain = {"channels": [16, 32, 64], "basis": "constant", "size": 32, "steps": 32, "scheme": "euler", "scale": 32.0}
    return _cifar("cifar10", ModelSettings(name="image", options=plain), refine_at=())


@RECIPES.register("continuousnet-cifar100")
def cifar100() -> RunConfig:
    """Table 1b: CIFAR-100, 64-128-256 channels, RK4, grown from 1 to 8 steps; paper scale."""
    return _cifar("cifar100", _net("rk4", 4.0, 8, **_WIDE), refine_at=(20, 50, 80))


@RECIPES.register("continuousnet-cifar100-euler")
def cifar100_euler() -> RunConfig:
    """Table 1b: CIFAR-100, 64-128-256 channels, Euler, 8 steps from the start; paper scale."""
    return _cifar("cifar100", _fixed("euler", 4.0, 8, **_WIDE), refine_at=())


@RECIPES.register("wide-resnet-cifar100")
def wide_resnet_cifar100() -> RunConfig:
    """Baseline of Table 1b: a wide ResNet of 3 x 8 units, 64-128-256 channels; paper scale."""
    options = {"channels": [64, 128, 256], "basis": "constant", "size": 8, "steps": 8, "scheme": "euler", "scale": 8.0}
    return _cifar("cifar100", ModelSettings(name="image", options=options), refine_at=())


@RECIPES.register("continuousnet-tiny-imagenet")
def tiny_imagenet() -> RunConfig:
    """Fig 10: Tiny-ImageNet, 64-128-256 channels, midpoint, scale 1, grown from 1 to 8 steps; paper scale."""
    return _cifar("tiny-imagenet", _net("midpoint", 1.0, 8, **_WIDE), refine_at=(20, 50, 80))


@RECIPES.register("continuousnet-tiny-imagenet-euler")
def tiny_imagenet_euler() -> RunConfig:
    """Fig 10: Tiny-ImageNet, 64-128-256 channels, Euler, scale 1, 8 steps from the start; paper scale."""
    return _cifar("tiny-imagenet", _fixed("euler", 1.0, 8, **_WIDE), refine_at=())


@RECIPES.register("continuousnet-no-norm")
def no_norm() -> RunConfig:
    """Ablation: CIFAR-10 without normalisation; paper scale."""
    return _cifar("cifar10", _net("rk4", 8.0, 32, normalise=False))


@RECIPES.register("continuousnet-cifar10-no-skip-init")
def cifar10_no_skip_init() -> RunConfig:
    """Fig 11a: CIFAR-10 without skip-init, RK4, grown from 1 to 32 steps; paper scale."""
    return _cifar("cifar10", _net("rk4", 8.0, 32, **_NO_SKIP_INIT))


@RECIPES.register("continuousnet-cifar10-euler-no-skip-init")
def cifar10_euler_no_skip_init() -> RunConfig:
    """Fig 11a: CIFAR-10 without skip-init, Euler, 32 steps from the start; paper scale."""
    return _cifar("cifar10", _fixed("euler", 8.0, 32, **_NO_SKIP_INIT), refine_at=())


@RECIPES.register("continuousnet-cifar100-no-skip-init")
def cifar100_no_skip_init() -> RunConfig:
    """Fig 11b: CIFAR-100 without skip-init, RK4, grown from 1 to 8 steps; paper scale."""
    return _cifar("cifar100", _net("rk4", 4.0, 8, **_WIDE, **_NO_SKIP_INIT), refine_at=(20, 50, 80))


@RECIPES.register("continuousnet-cifar100-euler-no-skip-init")
def cifar100_euler_no_skip_init() -> RunConfig:
    """Fig 11b: CIFAR-100 without skip-init, Euler, 8 steps from the start; paper scale."""
    return _cifar("cifar100", _fixed("euler", 4.0, 8, **_WIDE, **_NO_SKIP_INIT), refine_at=())


@RECIPES.register("continuousnet-cifar100-deep-no-skip-init")
def cifar100_deep_no_skip_init() -> RunConfig:
    """Fig 11c: CIFAR-100, 32-64-128 channels, RK4, grown from 1 to 16 steps (when is ours); paper scale."""
    model = _net("rk4", 4.0, 16, **_NARROW, **_NO_SKIP_INIT)
    return _cifar("cifar100", model, refine_at=(20, 40, 60, 80))


@RECIPES.register("continuousnet-cifar100-deep-euler-no-skip-init")
def cifar100_deep_euler_no_skip_init() -> RunConfig:
    """Fig 11c: CIFAR-100, 32-64-128 channels, Euler, 16 steps from the start; paper scale."""
    return _cifar("cifar100", _fixed("euler", 4.0, 16, **_NARROW, **_NO_SKIP_INIT), refine_at=())


@RECIPES.register("continuousnet-cifar10-cpu")
def cifar10_cpu() -> RunConfig:
    """CIFAR-10 for two cores: 8-16-32 channels, 10,000 images, midpoint, grown from 1 to 8 steps in 9 epochs."""
    return RunConfig(
        data=DataSettings(name="cifar10", validation=5000, limit=10_000, crop=4, flip=True),
        model=_net("midpoint", 4.0, 8, channels=[8, 16, 32]),
        optimizer=_SGD,
        schedule=Cosine(warmup=40),
        training=TrainingSettings(epochs=9, batch=64),
        refine=RefineSettings(at=(2, 5, 8)),
    )
