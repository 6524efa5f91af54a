"""Finding a model's blocks, and values given for all of them or by name."""

from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from torch import nn

from anydepth.block.block import ContinuousBlock
from anydepth.errors import ConfigError, choices

Where = str | Iterable[str] | Callable[[str, ContinuousBlock], bool] | None


def blocks_in(model: nn.Module) -> dict[str, ContinuousBlock]:
    """The model's blocks by name; none for a plain network."""
    if not isinstance(model, nn.Module):
        raise ConfigError(f"expected an nn.Module with continuous blocks, got {type(model).__name__}")
    return {name: module for name, module in model.named_modules() if isinstance(module, ContinuousBlock)}


def blocks_of(model: nn.Module, where: Where = None) -> dict[str, ContinuousBlock]:
    """The model's blocks by name; `where` is a name, a pattern, several of them, or a predicate."""
    blocks = blocks_in(model)
    if not blocks:
        raise ConfigError(f"{type(model).__name__} has no ContinuousBlock; build one with anydepth.ContinuousBlock")
    if where is None:
        return blocks
    if callable(where):
        chosen = {name: block for name, block in blocks.items() if where(name, block)}
    else:
        patterns = [where] if isinstance(where, str) else list(where)
        for pattern in patterns:
            if not any(fnmatchcase(name, pattern) for name in blocks):
                raise ConfigError(f"no block fits {pattern!r}; {choices(pattern, blocks)}")
        chosen = {n: b for n, b in blocks.items() if any(fnmatchcase(n, pattern) for pattern in patterns)}
    if not chosen:
        raise ConfigError(f"where selects no block; the model has {', '.join(map(repr, blocks))}")
    return chosen


def per_block(value: object, blocks: Mapping[str, ContinuousBlock]) -> dict[str, Any]:
    """One value for every block, or a mapping by block name."""
    if not isinstance(value, Mapping):
        return dict.fromkeys(blocks, value)
    for name in value:
        if name not in blocks:
            raise ConfigError(f"no block is called {name!r}; {choices(name, blocks)}")
    return {name: value.get(name) for name in blocks}
