"""Parts of other people's code that a run is made of, so that one who lacks them is told what to import."""

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ConfigDict

from anydepth import plugins
from anydepth.data.source import SOURCES
from anydepth.errors import ConfigError
from anydepth.registry import Registry
from anydepth.zoo.parts import MODELS, UNITS

Kinds = tuple[Registry[Any], ...]
MODEL_KINDS: Kinds = (MODELS, UNITS)
"""What a trained model is made of."""
DATA_KINDS: Kinds = (SOURCES,)
_OWN = "anydepth."


class Need(BaseModel):
    """A part that does not come with anydepth, and the module that adds it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: str
    name: str
    module: str


def need_of(registry: Registry[Any], name: object) -> Need | None:
    """The part of this name, if there is one that is not anydepth's own."""
    if not isinstance(name, str) or name not in registry:
        return None
    module = getattr(registry[name], "__module__", "")
    return None if f"{module}.".startswith(_OWN) else Need(kind=registry.kind, name=name, module=module)


def check_needs(needs: Iterable[Need], what: object, kinds: Kinds) -> None:
    """Refuse to go on without a part of these kinds."""
    known = {registry.kind: registry for registry in kinds}
    for need in needs:
        if need.kind in known and need.name not in known[need.kind]:
            elsewhere = plugins.where_else(need.kind, need.name)
            raise ConfigError(
                f"{what}: {elsewhere}"
                if elsewhere
                else f"{what} needs {need.kind} {need.name!r} of module {need.module!r}, which is not loaded; "
                f"add --import {need.module}, or the path of its file"
            )
