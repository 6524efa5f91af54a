"""Parts of other people's code that a run is made of, so that one who lacks them is told what to import."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict
from torch import nn

from anydepth import plugins
from anydepth.data.source import SOURCES
from anydepth.depth.bases import BASES
from anydepth.depth.schemes import SCHEMES
from anydepth.errors import ConfigError
from anydepth.registry import Registry
from anydepth.surgery.store import describe_blocks
from anydepth.weights.evolutions import EVOLUTIONS
from anydepth.zoo.parts import MODELS, UNITS

Kinds = tuple[Registry[Any], ...]
DEPTH_KINDS: Kinds = (BASES, EVOLUTIONS, SCHEMES)
"""What a block is made of; also the keys under which configs and model files name them."""
MODEL_KINDS: Kinds = (MODELS, UNITS, *DEPTH_KINDS)
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
    module = registry.module_of(name)
    return None if f"{module}.".startswith(_OWN) else Need(kind=registry.kind, name=name, module=module)


def depth_needs(model: nn.Module, config: Mapping[str, object]) -> tuple[Need, ...]:
    """The bases, evolutions and schemes of a model's blocks, and those that a config names."""
    named = dict.fromkeys((*_named(describe_blocks(model)), *_named(config)))
    kinds = {registry.kind: registry for registry in DEPTH_KINDS}
    found = (need_of(kinds[kind], name) for kind, name in named)
    return tuple(need for need in found if need is not None)


def _named(values: object) -> Iterator[tuple[str, str]]:
    """Everything of the form {kind: name} inside of JSON values."""
    if isinstance(values, Mapping):
        for key, value in values.items():
            if isinstance(value, str) and any(key == registry.kind for registry in DEPTH_KINDS):
                yield key, value
            yield from _named(value)
    elif isinstance(values, (list, tuple)):
        for value in values:
            yield from _named(value)


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
