"""What a training is made of beside anydepth's own parts."""

from anydepth.data.source import SOURCES
from anydepth.runs.config import RunConfig
from anydepth.runs.needs import DATA_KINDS, MODEL_KINDS, Kinds, Need, need_of
from anydepth.train.control.controller import CONTROLLERS
from anydepth.train.growth import RULES
from anydepth.zoo.parts import MODELS, UNITS

TRAINING_KINDS: Kinds = (*MODEL_KINDS, *DATA_KINDS, RULES, CONTROLLERS)


def needs_of(config: RunConfig) -> tuple[Need, ...]:
    """What a run of this config needs beside anydepth."""
    used = (
        (MODELS, config.model.name),
        (UNITS, config.model.options.get("unit")),
        (SOURCES, config.data.name),
        (RULES, config.refine.rule),
        (CONTROLLERS, getattr(config.control, "controller", None)),
    )
    found = (need_of(registry, name) for registry, name in used)
    return tuple(need for need in found if need is not None)
