"""The continuous transformer of Stateful ODE-Nets (section 7.3, E.2): part-of-speech tagging."""

from anydepth.recipes import RECIPES
from anydepth.runs.config import (
    AdamW,
    DataSettings,
    InverseSqrt,
    ModelSettings,
    RefineSettings,
    RunConfig,
    TrainingSettings,
)


def _paper(treebank: str) -> RunConfig:
    return RunConfig(
        data=DataSettings(name=treebank),
        model=ModelSettings(name="tagger", options={"width": 128, "basis": "constant", "size": 1, "scheme": "euler"}),
        optimizer=AdamW(lr=0.1, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.1),
        schedule=InverseSqrt(warmup=8000),
        training=TrainingSettings(steps=35_000, batch=64),
        refine=RefineSettings(at=(1000, 2000, 3000, 4000, 5000, 6000), unit="step"),
    )


@RECIPES.register("stateful-gum")
def gum() -> RunConfig:
    """Fig 5: UD English-GUM, width 128, constants and Euler grown from 1 to 64, 35,000 steps; paper scale."""
    return _paper("ud-english-gum")


@RECIPES.register("stateful-hdt")
def hdt() -> RunConfig:
    """Fig 6: UD German-HDT, the same; paper scale."""
    return _paper("ud-german-hdt")
