"""Small nets on the bundled digits: seconds on two cores."""

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

_NET = {"channels": [12], "pool": 4, "first_stitch": False}


@RECIPES.register("digits")
def digits() -> RunConfig:
    """Bundled digits: hats grown from 1 to 9 functions and 16 steps, trained with RK4; half a minute."""
    return RunConfig(
        data=DataSettings(name="digits", validation=0),
        model=ModelSettings(name="image", options={**_NET, "basis": "linear", "size": 1, "steps": 1, "scheme": "rk4"}),
        optimizer=SGD(lr=0.1, weight_decay=1e-3),
        schedule=Cosine(),
        training=TrainingSettings(epochs=16, batch=64),
        refine=RefineSettings(at=(2, 5, 8, 13)),
    )


@RECIPES.register("digits-resnet")
def digits_resnet() -> RunConfig:
    """Bundled digits, the control: Euler with 8 steps, 8 constants and scale 8 is a ResNet of 8 layers."""
    options = {**_NET, "basis": "constant", "size": 8, "steps": 8, "scheme": "euler", "scale": 8}
    return RunConfig(
        data=DataSettings(name="digits", validation=0),
        model=ModelSettings(name="image", options=options),
        optimizer=SGD(lr=0.1, weight_decay=1e-3),
        schedule=Cosine(),
        training=TrainingSettings(epochs=16, batch=64),
    )
