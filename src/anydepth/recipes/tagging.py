"""A continuous transformer that tags parts of speech: minutes on two cores."""

from anydepth.recipes import RECIPES
from anydepth.runs.config import (
    AdamW,
    Cosine,
    DataSettings,
    ModelSettings,
    RefineSettings,
    RunConfig,
    TrainingSettings,
)


@RECIPES.register("gum")
def gum_cpu() -> RunConfig:
    """UD English-GUM, width 128, constants and Euler grown from 1 to 16 in 2,400 steps: minutes on two cores."""
    return RunConfig(
        data=DataSettings(name="ud-english-gum", hide=1.0),
        model=ModelSettings(name="tagger", options={"width": 128, "basis": "constant", "size": 1, "scheme": "euler"}),
        optimizer=AdamW(lr=4e-3, betas=(0.9, 0.98), eps=1e-9, weight_decay=1.0),
        schedule=Cosine(warmup=150),
        training=TrainingSettings(steps=2400, batch=64, clip=1.0),
        refine=RefineSettings(at=(400, 800, 1200, 1600), unit="step"),
        checkpoint_minutes=1.0,
    )
