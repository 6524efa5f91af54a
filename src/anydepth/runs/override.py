"""`--set a.b=value`: changes to a config, given as text."""

import json
from collections.abc import Iterable
from copy import deepcopy

from anydepth.errors import ConfigError
from anydepth.runs.config import RunConfig, read_config

_UNIONS = ("optimizer", "schedule", "control")
"""Groups whose fields depend on their name."""


def override(config: RunConfig, settings: Iterable[str]) -> RunConfig:
    """The config with every `a.b=value` applied in turn."""
    settings = list(settings)
    values = config.plain()
    for setting in settings:
        path, text = _parsed(setting)
        values = _put(values, path, _value(text))
    return read_config(values, f"--set {' '.join(settings)}") if settings else config


def _parsed(setting: str) -> tuple[list[str], str]:
    name, equals, text = setting.partition("=")
    path = name.strip().split(".")
    if not equals or not all(path):
        raise ConfigError(f"--set takes a.b=value, got {setting!r}; for example --set optimizer.lr=0.05")
    return path, text.strip()


def _value(text: str) -> object:
    """JSON where it is JSON, else the text itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _put(values: dict[str, object], path: list[str], value: object) -> dict[str, object]:
    values = deepcopy(values)
    group = values
    for depth, part in enumerate(path[:-1]):
        if group.get(part) is None:
            group[part] = {}
        inner = group[part]
        if not isinstance(inner, dict):
            raise ConfigError(f"{'.'.join(path[: depth + 1])} is not a group of settings, it is {inner!r}")
        group = inner
    if len(path) == 2 and path[0] in _UNIONS and path[1] == "name":
        _become(group, path[0], value)
    group[path[-1]] = value
    return values


def _become(group: dict[str, object], union: str, name: object) -> None:
    """Drop what the newly named variant does not have, and defaults, since it has its own."""
    classes = RunConfig.model_fields[union].annotation.__args__  # pyright: ignore[reportOptionalMemberAccess, reportAttributeAccessIssue]
    variants = {variant.model_fields["name"].default: variant for variant in classes}
    known = [str(variant) for variant in (name, group.get("name"))]
    if not all(variant in variants for variant in known):
        return
    before = variants[known[1]].model_fields
    for key in [key for key, value in group.items() if key in before and value == before[key].default]:
        del group[key]
    for key in set(group) - set(variants[known[0]].model_fields):
        del group[key]
