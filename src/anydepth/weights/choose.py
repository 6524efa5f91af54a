"""From what a user writes to one weight function per tensor."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import TypedDict

from anydepth.depth.bases import Basis, make_basis, read_basis
from anydepth.errors import ConfigError
from anydepth.weights.evolved import read_evolved
from anydepth.weights.expansion import Expansion
from anydepth.weights.protocol import WeightFunction

Choice = tuple[str, int] | list | dict[str, object] | Basis | WeightFunction


def choose(
    names: Iterable[str], basis: str | Basis, size: int | None, weights: Mapping[str, Choice] | None
) -> dict[str, WeightFunction]:
    """A function for every tensor: one basis for all, or by the first pattern that fits its name."""
    names = list(names)
    if weights is None:
        function = as_function(basis if size is None or isinstance(basis, Basis) else (basis, size))
        if size is not None and function.size != size:
            raise ConfigError(f"basis {function} has size {function.size}, got size {size}; leave size out")
        return dict.fromkeys(names, function)
    if size is not None or basis != "constant":
        raise ConfigError("give either weights or basis and size, got both")
    if not isinstance(weights, Mapping):
        raise ConfigError(f"weights is {weights!r:.60}, expected functions by tensor name, such as {{'*': ...}}")
    patterns = {pattern: as_function(choice) for pattern, choice in weights.items()}
    chosen = {name: next((p for p in patterns if fnmatchcase(name, p)), None) for name in names}
    missing = [name for name, pattern in chosen.items() if pattern is None]
    if missing:
        raise ConfigError(f"no pattern of weights fits {', '.join(missing)}; add a pattern, for example '*'")
    idle = [pattern for pattern in patterns if not any(fnmatchcase(name, pattern) for name in names)]
    if idle:
        raise ConfigError(f"pattern {idle[0]!r} of weights fits no tensor; the unit has {', '.join(names)}")
    return {name: patterns[pattern] for name, pattern in chosen.items() if pattern is not None}


class Weights(TypedDict, total=False):
    """Settings of a block: a basis and its size, or functions by name of tensor."""

    basis: str
    size: int
    weights: Mapping[str, Choice]


def block_weights(basis: str, size: int, weights: Mapping[str, Choice] | None) -> Weights:
    """What a model passes to its blocks: basis and size, or weights by tensor name."""
    if weights is None:
        return {"basis": basis, "size": size}
    if (basis, size) != ("constant", 1):
        raise ConfigError("give a model either weights or basis and size, got both")
    return {"weights": weights}


def as_function(choice: object) -> WeightFunction:
    if isinstance(choice, str):
        return Expansion(make_basis(choice))
    if isinstance(choice, Basis):
        return Expansion(choice)
    if isinstance(choice, WeightFunction):
        return choice
    if isinstance(choice, (tuple, list)) and len(choice) == 2 and isinstance(choice[0], str):
        return Expansion(make_basis(*choice))
    if isinstance(choice, dict) and ("basis" in choice or "evolution" in choice):
        return read_function(choice)
    raise ConfigError(
        "a weight function is ('linear', 4), a basis, Evolved(...), a description of one of them, or an object with "
        f"the protocol, got {choice!r}"
    )


def read_function(description: dict[str, object]) -> WeightFunction:
    """Inverse of `describe` of any weight function."""
    if "evolution" in description:
        return read_evolved(description)
    return Expansion(read_basis({"size": 1, **description}))
