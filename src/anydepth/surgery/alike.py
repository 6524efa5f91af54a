"""Which layers of a stack are alike: the same modules and settings, with other weights."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from types import FunctionType, MethodType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from anydepth.block.roles import roles_of
from anydepth.errors import ConfigError

INDICES = ("layer_idx", "layer_id", "layer_index", "layer_number", "block_idx")
"""Attributes that say which layer of a stack a layer is."""

_NOT_SETTINGS = ("_parameters", "_buffers", "_modules")
_DEEPEST = 6


def difference(one: nn.Module, other: nn.Module, ignored: Sequence[str]) -> str | None:
    """What keeps two layers from being one unit with other weights, in words; None if nothing does."""
    if one is other:
        return None
    mine, its = dict(one.named_modules()), dict(other.named_modules())
    for path in (*mine, *(path for path in its if path not in mine)):
        if path not in mine or path not in its:
            return f"one has {path!r}, the other has not"
        if _kind(mine[path]) is not _kind(its[path]):
            return f"{path or 'the layer'} is a {type(mine[path]).__name__} and a {type(its[path]).__name__}"
        found = _settings(path, mine[path], its[path], ignored)
        if found is not None:
            return found
    return _tensors(one, other)


def varying(layers: Sequence[nn.Module], ignore: Iterable[str]) -> dict[str, tuple[object, ...]]:
    """The settings that may differ among alike layers and do, by dotted name: the value of each layer."""
    ignored = (*INDICES, *ignore)
    tables = [dict(_named_settings(layer)) for layer in layers]
    names = [name for name in tables[0] if _is_ignored(name, ignored)]
    values = {name: tuple(table.get(name) for table in tables) for name in names}
    return {name: found for name, found in values.items() if any(value != found[0] for value in found)}


def check_unwatched(layers: Sequence[nn.Module]) -> None:
    """Refuse hooks: one unit would call them at every depth, without saying at which."""
    for i, layer in enumerate(layers):
        for path, module in layer.named_modules():
            hooks = [key for key, value in vars(module).items() if key.endswith("_hooks") and value]
            if any("forward" in key or "backward" in key for key in hooks) or "forward" in vars(module):
                where = f"{i}.{path}".rstrip(".")
                raise ConfigError(
                    f"layer {where!r} has hooks, which know one layer; remove them, or add them afterwards"
                )


def _kind(module: nn.Module) -> type:
    """A module's class; parametrized modules have one of their own each."""
    return type(module).__mro__[1] if is_parametrized(module) else type(module)


def _named_settings(layer: nn.Module) -> Iterator[tuple[str, object]]:
    for path, module in layer.named_modules():
        for key, value in vars(module).items():
            if key not in _NOT_SETTINGS and not key.endswith("_hooks"):
                yield f"{path}.{key}".lstrip("."), value


def _is_ignored(name: str, ignored: Sequence[str]) -> bool:
    own = name.rpartition(".")[2]
    return any(fnmatchcase(name, pattern) or fnmatchcase(own, pattern) for pattern in ignored)


def _settings(path: str, one: nn.Module, other: nn.Module, ignored: Sequence[str]) -> str | None:
    for key in {**vars(one), **vars(other)}:
        name = f"{path}.{key}".lstrip(".")
        if key in _NOT_SETTINGS or key.endswith("_hooks") or _is_ignored(name, ignored):
            continue
        mine, its = vars(one).get(key), vars(other).get(key)
        if not _same(mine, its):
            return f"{name!r} is {_short(mine)} and {_short(its)}"
    return None


def _short(value: object) -> str:
    return f"{value!r:.40}" if isinstance(value, (int, float, str, tuple)) else f"a {type(value).__name__}"


def _same(one: Any, other: Any, depth: int = 0) -> bool:
    """Whether two settings mean the same in two layers; what cannot be told within some levels is not the same."""
    if one is other:
        return True
    if type(one) is not type(other) or depth > _DEEPEST:
        return False
    if isinstance(one, nn.Module):
        return True  # a back-reference: modules are compared where they are at home
    if isinstance(one, Tensor):
        return one.shape == other.shape and one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, MethodType):
        return one.__func__ is other.__func__ and _same(one.__self__, other.__self__, depth + 1)
    if isinstance(one, FunctionType):
        cells = [[cell.cell_contents for cell in function.__closure__ or ()] for function in (one, other)]
        return one.__code__ is other.__code__ and _same(cells[0], cells[1], depth + 1)
    if isinstance(one, partial):
        return _same([one.func, one.args, one.keywords], [other.func, other.args, other.keywords], depth + 1)
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(_same(one[key], other[key], depth + 1) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(_same(a, b, depth + 1) for a, b in zip(one, other, strict=True))
    return _equal(one, other) or _same_attributes(one, other, depth)


def _equal(one: object, other: object) -> bool:
    try:
        return bool(one == other)
    except (RuntimeError, TypeError, ValueError):
        return False


def _same_attributes(one: object, other: object, depth: int) -> bool:
    return bool(getattr(one, "__dict__", None)) and _same(vars(one), vars(other), depth + 1)


def _tensors(one: nn.Module, other: nn.Module) -> str | None:
    mine, its = _named_tensors(one), _named_tensors(other)
    if mine.keys() != its.keys():
        return f"{sorted(mine.keys() ^ its.keys())[0]!r} is a tensor of one, not of the other"
    constants = roles_of(one).constants
    for name, tensor in mine.items():
        for what in ("shape", "dtype", "device", "requires_grad"):
            a, b = getattr(tensor, what), getattr(its[name], what)
            if a != b:
                told = (tuple(a), tuple(b)) if what == "shape" else (a, b)
                return f"{what} of {name!r} is {told[0]} and {told[1]}"
        if name in constants and not tensor.is_meta and not torch.equal(tensor, its[name]):
            return f"the buffer {name!r} has other values"
    return None


def _named_tensors(layer: nn.Module) -> dict[str, Tensor]:
    return dict(layer.named_parameters()) | dict(layer.named_buffers())
