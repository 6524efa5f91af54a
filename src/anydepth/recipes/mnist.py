"""A small continuous net on MNIST: minutes on two cores."""

from anydepth.recipes import RECIPES
from anydepth.runs.config import (
    SGD,
    Cosine,
    DataSettings,
    ModelSettings,
    RefineSettings,
    RunConfig,
    TrainingSettings,
)


@RECIPES.register("mnist")
def mnist() -> RunConfig:
    """MNIST: two blocks of hats grown from 1 to 3 functions and 4 steps, trained with RK4; minutes."""
    net = {"channels": [8, 16], "pool": 7, "first_stitch": False}
    return RunConfig(
        data=DataSettings(name="mnist", validation=5000, crop=2),
        model=ModelSettings(name="image", options={**net, "basis": "linear", "size": 1, "steps": 1, "scheme": "rk4"}),
        optimizer=SGD(lr=0.1, weight_decay=5e-4),
        schedule=Cosine(warmup=100),
        training=TrainingSettings(epochs=4, batch=128),
        refine=RefineSettings(at=(2, 3)),
    )
