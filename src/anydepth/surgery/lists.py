"""Lists of layers inside models: finding them, what in them becomes a block, and putting other modules in."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from torch import nn

from anydepth.errors import ConfigError, choices
from anydepth.surgery.alike import INDICES, check_unwatched, difference

Named = Sequence[tuple[str, nn.Module]]


@dataclass(frozen=True, eq=False)
class Piece:
    """Neighbours in a list of layers: one that stays, or some that are alike and become a block."""

    names: tuple[str, ...]
    layers: tuple[nn.Module, ...]
    is_block: bool


def named_layers(layers: Any) -> Named:
    """The layers of a list by name; a layer may be in it more than once."""
    if isinstance(layers, nn.Module):
        return [(name, layer) for name, layer in layers._modules.items() if layer is not None]
    wrong = next((layer for layer in layers if not isinstance(layer, nn.Module)), None)
    if wrong is not None:
        raise ConfigError(f"layers must be nn.Modules, got a {type(wrong).__name__}")
    return [(str(i), layer) for i, layer in enumerate(layers)]


def pieces_of(named: Named, ignored: Sequence[str]) -> list[Piece]:
    """The layers in order, those that become blocks together; refused when none can."""
    if not named:
        raise ConfigError("from_layers needs at least one layer, got an empty list")
    runs = _runs(named, (*INDICES, *ignored))
    chosen = [len(run) > 1 and _has_weights(run[0][1]) for run in runs]
    if not any(chosen):
        (_, one), (_, last) = runs[max(len(runs) - 2, 0)][0], runs[-1][0]
        if type(one) is not type(last) or not _has_weights(last):
            raise ConfigError(
                f"no two neighbours among these {len(named)} layers are alike: {difference(one, last, INDICES)}; group "
                "what repeats, [nn.Sequential(a, b), ...], or name a list inside a model with where="
            )
        chosen[-1] = True
    pieces = []
    for run, is_block in zip(runs, chosen, strict=True):
        for part in [run] if is_block else [[each] for each in run]:
            names, layers = zip(*part, strict=True)
            pieces.append(Piece(names, layers, is_block))
    for piece in pieces:
        check_unwatched(piece.layers if piece.is_block else ())
    return pieces


def _runs(named: Named, ignored: Sequence[str]) -> list[list[tuple[str, nn.Module]]]:
    """The layers in groups of neighbours that are alike."""
    runs: list[list[tuple[str, nn.Module]]] = []
    for name, layer in named:
        if runs and difference(runs[-1][0][1], layer, ignored) is None:
            runs[-1].append((name, layer))
        else:
            runs.append([(name, layer)])
    return runs


def _has_weights(layer: nn.Module) -> bool:
    return next(layer.parameters(), None) is not None


def find_lists(model: object, where: str | Iterable[str] | None, ignored: Sequence[str]) -> dict[str, list[Piece]]:
    """The lists of layers to be replaced in a model, by name, outermost only."""
    if not isinstance(model, nn.Module):
        raise ConfigError(f"layers must be a list of modules or a model, got {type(model).__name__}")
    lists = {n: m for n, m in model.named_modules() if isinstance(m, (nn.Sequential, nn.ModuleList)) and len(m)}
    if where is None:
        repeating = _outermost([name for name, found in lists.items() if name and _repeats(found, ignored)])
        if len(repeating) != 1:
            several = (
                f"several lists of layers, {', '.join(map(repr, repeating))}" if repeating else "no list of layers"
            )
            raise ConfigError(f"{type(model).__name__} has {several}; name what to replace with where=")
        return {repeating[0]: pieces_of(named_layers(lists[repeating[0]]), ignored)}
    names = []
    for pattern in (where,) if isinstance(where, str) else tuple(where):
        fitting = [name for name in lists if fnmatchcase(name, pattern)]
        if not fitting:
            raise ConfigError(f"no Sequential or ModuleList of the model fits {pattern!r}; {choices(pattern, lists)}")
        names += fitting
    return {name: pieces_of(named_layers(lists[name]), ignored) for name in _outermost(names)}


def _repeats(found: nn.Module, ignored: Sequence[str]) -> bool:
    runs = _runs(named_layers(found), (*INDICES, *ignored))
    return any(len(run) > 1 and _has_weights(run[0][1]) for run in runs)


def _outermost(names: Sequence[str]) -> list[str]:
    distinct = dict.fromkeys(names)
    return [name for name in distinct if not any(name.startswith(f"{other}.") for other in distinct)]


def refill(container: nn.Module, parts: Sequence[tuple[str, nn.Module]]) -> None:
    """Give a list other modules; numbers are counted again, other names kept."""
    is_numbered = isinstance(container, nn.ModuleList) or all(name.isdecimal() for name, _ in parts)
    named = {str(i) if is_numbered else name: part for i, (name, part) in enumerate(parts)}
    container._modules.clear()
    container._modules.update(named)


def switch_off(model: nn.Module, path: str) -> dict[str, object]:
    """Turn off what relies on single layers around a list: caches of keys and values, nested tensors.

    Gives what the settings were.
    """
    before = {}
    home = model.get_submodule(path.rpartition(".")[0])
    if isinstance(home, nn.TransformerEncoder):
        before["use_nested_tensor"], home.use_nested_tensor = home.use_nested_tensor, False
    for config in _configs(model):
        before["use_cache"] = before.get("use_cache", False) or config.use_cache
        config.use_cache = False
    return before


def switch_on(model: nn.Module, path: str, before: Mapping[str, object]) -> None:
    """The settings that `switch_off` found, as they were."""
    home = model.get_submodule(path.rpartition(".")[0])
    if "use_nested_tensor" in before:
        home.use_nested_tensor = before["use_nested_tensor"]  # pyright: ignore[reportArgumentType]
    for config in _configs(model, wanted=False):
        config.use_cache = before.get("use_cache", config.use_cache)


def _configs(model: nn.Module, wanted: bool = True) -> list[Any]:
    """The configurations of a model and its parts that say whether keys and values are kept."""
    names = ("config", "generation_config")
    found = [vars(module).get(name) for module in model.modules() for name in names]
    return [each for each in {id(config): config for config in found}.values() if _cache(each) is wanted]


def _cache(config: object) -> bool | None:
    value = getattr(config, "use_cache", None)
    return value if isinstance(value, bool) else None
