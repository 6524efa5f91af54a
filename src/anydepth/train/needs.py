"""Parts of other people's code that a run is made of, so that one who lacks them is told what to import."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict

from anydepth.data.source import SOURCES
from anydepth.errors import ConfigError
from anydepth.registry import Registry
from anydepth.train.config import RunConfig
from anydepth.train.control.choose import CONTROLLERS
from anydepth.train.growth import RULES
from anydepth.zoo.parts import MODELS, UNITS

KINDS: Mapping[str, Registry[Any]] = {
    "model": MODELS,
    "unit": UNITS,
    "dataset": SOURCES,
    "refinement rule": RULES,
    "controller": CONTROLLERS,
}
_OWN = "anydepth."


class Need(BaseModel):
    """A part that does not come with anydepth, and the module that adds it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: str
    name: str
    module: str


class _Used(NamedTuple):
    kind: str
    name: object


def needs_of(config: RunConfig) -> tuple[Need, ...]:
    """What a run of this config needs beside anydepth."""
    used = [
        _Used("model", config.model.name),
        _Used("unit", config.model.options.get("unit")),
        _Used("dataset", config.data.name),
        _Used("refinement rule", config.refine.rule),
        _Used("controller", getattr(config.control, "controller", None)),
    ]
    found = []
    for kind, name in used:
        if isinstance(name, str) and name in KINDS[kind]:
            module = getattr(KINDS[kind][name], "__module__", "")
            if not f"{module}.".startswith(_OWN):
                found.append(Need(kind=kind, name=name, module=module))
    return tuple(found)


def check_needs(needs: Iterable[Need], what: object, kinds: Iterable[str] = tuple(KINDS)) -> None:
    """Refuse to go on without a part of these kinds."""
    for need in needs:
        if need.kind in kinds and need.name not in KINDS.get(need.kind, ()):
            raise ConfigError(
                f"{what} needs {need.kind} {need.name!r} of module {need.module!r}, which is not loaded; add --import "
                f"{need.module}, or the path of its file"
            )
