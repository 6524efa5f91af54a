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


@RECIPES.register("stateful-mnist")
def mnist() -> RunConfig:
    """Stateful ODE-Nets, Table 2, at the paper's length: MNIST, 12 channels, 90 epochs, grown at 20, 50 and 80."""
    return RunConfig(
        data=DataSettings(name="mnist", validation=5000),
        model=ModelSettings(name="image", options={"channels": [12], "pool": 8, **_START, "basis": "constant"}),
        optimizer=_SGD,
        schedule=Step(milestones=(60, 80)),
        training=TrainingSettings(epochs=90, batch=128),
        refine=RefineSettings(at=(20, 50, 80)),
    )


@RECIPES.register("stateful-mnist-cpu")
def mnist_cpu() -> RunConfig:
    """The same net in 12 epochs, with hats grown 1, 2, 3, 5 and steps 1, 2, 4, 8: half an hour on two cores."""
    return RunConfig(
        data=DataSettings(name="mnist", validation=5000, crop=2),
        model=ModelSettings(name="image", options={"channels": [12], "pool": 8, **_START}),
        optimizer=_SGD,
        schedule=Cosine(warmup=200),
        training=TrainingSettings(epochs=12, batch=128),
        refine=RefineSettings(at=(5, 9, 11)),
        checkpoint_minutes=1.0,
    )
