"""What is executed in a pass: a private image of the unit's modules, which the block's own modules never notice.

What is stored (tensors with a leading axis) and what runs (the same modules with the tensors of one depth) are
different objects. An `Image` is the unit's modules as they are at one moment, without tensors; an `Executor` is made
from it for one pass, and is closed and thrown away when the pass is over. Nothing is ever put into the unit: no thread,
interrupt or fork can meet it half changed, and there is nothing to lock, to save or to copy.
"""

from collections.abc import Sequence
from functools import cache
from operator import is_
from typing import Any, NoReturn, Protocol

import torch
from torch import Tensor, nn
from torch.func import functional_call

from anydepth.errors import UnitError
from anydepth.executor.follow import followed, leads_to
from anydepth.executor.image import TABLES, Aliases, Image, Part, names_in


class UnitCall(Protocol):
    """Runs a unit with given tensors under given names."""

    def __call__(
        self, tensors: Sequence[Tensor], args: tuple, kwargs: dict[str, Any], watched: Sequence[int]
    ) -> tuple[Any, list[Tensor]]:
        """The unit's result, and the tensors that are in the watched places afterwards."""
        ...

    def close(self) -> None:
        """The pass is over."""
        ...

    def written(self) -> list[tuple[nn.Module, str, Any]]:
        """Plain attributes that the unit wrote: whose, which, and what."""
        ...


class Executor:
    """An image of a unit that is called with other tensors time and again, in one pass."""

    def __init__(self, image: Image, names: tuple[str, ...], aliases: Aliases):
        own, others = image.places(names, aliases)
        self.image, self.modules = image, image.made()
        self.root, tables = self.modules[0], [vars(module) for module in self.modules]
        self.given = [
            part.given if part.is_plain else tuple(table[key] for key in part.attributes)
            for part, table in zip(image.parts, tables, strict=True)
        ]
        self.own = [(tables[i][table], key) for i, table, key in own]
        self.others = [(number, tables[i][table], key) for number, (i, table, key) in others]

    def __call__(
        self, tensors: Sequence[Tensor], args: tuple, kwargs: dict[str, Any], watched: Sequence[int]
    ) -> tuple[Any, list[Tensor]]:
        for (table, key), tensor in zip(self.own, tensors, strict=True):
            table[key] = tensor
        for i, table, key in self.others:
            table[key] = tensors[i]
        out = self.root(*args, **kwargs)
        return out, [self.own[i][0][self.own[i][1]] for i in watched]

    def close(self) -> None:
        """Take the tensors out, and refuse whoever calls the modules later."""
        table = _closed(self.image.name)
        for module in self.modules:
            vars(module).update(_parameters=table, _buffers=table, _compiled_call_impl=table.refuse)

    def written(self) -> list[tuple[nn.Module, str, Any]]:
        found: list[tuple[nn.Module, str, Any]] = []
        for part, module, given in zip(self.image.parts, self.modules, self.given, strict=True):
            if module._modules.keys() != part.children.keys():
                raise UnitError(
                    f"unit {self.image.name} makes or replaces modules in its forward pass, whose weights "
                    "would be lost; make them at construction"
                )
            own = vars(module)
            if len(own) != len(given) + len(TABLES) or not all(map(is_, own.values(), given)):
                found += self._changed(part, own, dict(zip(part.attributes, given, strict=True)))
        return found

    def _changed(self, part: Part, own: dict[str, Any], given: dict[str, Any]) -> list[tuple[nn.Module, str, Any]]:
        homes = {id(made): p.module for made, p in zip(self.modules, self.image.parts, strict=True)}
        changed = [key for key, value in own.items() if key not in TABLES and given.get(key, self) is not value]
        return [(part.module, key, followed(own[key], homes)) for key in changed]

    def new_buffers(self) -> list[str]:
        """The names of buffers that came, or were None and are not any more."""
        if all(names_in(m._buffers) == p.buffers for m, p in zip(self.modules, self.image.parts, strict=True)):
            return []
        known = {name for name, _ in self.image.parts[0].module.named_buffers(remove_duplicate=False)}
        return [name for name, _ in self.root.named_buffers(remove_duplicate=False) if name not in known]


class Traced:
    """The unit itself with other tensors, for a compiler, which understands `functional_call` and runs nothing."""

    def __init__(self, unit: nn.Module, names: Sequence[str]):
        self.unit, self.names = unit, names

    def __call__(
        self, tensors: Sequence[Tensor], args: tuple, kwargs: dict[str, Any], watched: Sequence[int]
    ) -> tuple[Any, list[Tensor]]:
        placed = dict(zip(self.names, tensors, strict=True))
        out = functional_call(self.unit, placed, args, kwargs)
        return out, [placed[self.names[i]] for i in watched]

    def close(self) -> None:
        """Nothing was put in."""

    def written(self) -> list[tuple[nn.Module, str, Any]]:
        return []


def unit_call(image: Image, names: tuple[str, ...], aliases: Aliases) -> UnitCall:
    """A unit, ready to be called with tensors in the place of those names."""
    is_compiling = torch.compiler.is_compiling()
    return Traced(image.parts[0].module, names) if is_compiling else Executor(image, names, aliases)


class _Closed(dict):
    """A table of tensors after the pass; every look into it is refused."""

    def __init__(self, name: str):
        super().__init__()
        self.name = name
        for method in ("get", "items", "keys", "values"):
            setattr(self, method, self.refuse)

    def refuse(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise UnitError(
            f"a module of unit {self.name} is used after its evaluation is over, when its weights at that depth are "
            "gone; instead of torch.utils.checkpoint inside a unit, use gradient='checkpoint' of the block"
        )

    def __contains__(self, key: object) -> bool:
        return self.refuse()

    def __getitem__(self, key: object) -> Any:
        return self.refuse()

    def __setitem__(self, key: object, value: object) -> None:
        self.refuse()

    def __iter__(self) -> Any:
        return self.refuse()


@cache
def _closed(name: str) -> _Closed:
    return _Closed(name)


def private(unit: nn.Module) -> nn.Module:
    """The same modules as new objects with the same tensors; hooks and buffers are its own from now on."""
    image = Image(unit)
    modules = image.made()
    clones = {id(buffer): buffer.detach().clone() for buffer in unit.buffers()}
    for part, made in zip(image.parts, modules, strict=True):
        own = vars(made)
        own["_parameters"] = dict(part.module._parameters)
        own["_buffers"] = {key: clones.get(id(buffer)) for key, buffer in part.module._buffers.items()}
        own.update({key: value.copy() for key, value in own.items() if key.endswith("_hooks")})
    return modules[0]


def check_own_tensors(unit: nn.Module) -> None:
    """Refuse a unit that keeps a tensor of its own in an attribute too, where no other tensor can take its place."""
    names = {id(t): name for name, t in [*unit.named_parameters(), *unit.named_buffers()]}
    modules = {id(module) for module in unit.modules()}
    for path, module in unit.named_modules():
        for key, value in vars(module).items():
            if key not in TABLES and leads_to(value, names, modules):
                raise UnitError(
                    f"unit {type(unit).__name__} keeps a parameter or buffer of its own in the attribute "
                    f"{f'{path}.{key}'.lstrip('.')!r} too, where it cannot become a function of depth; read it from "
                    "the module that owns it"
                )


def aliases_of(unit: nn.Module) -> dict[str, list[str]]:
    """For every tensor of the unit, all names under which it is used; the first is its own."""
    listed = [*unit.named_parameters(remove_duplicate=False), *unit.named_buffers(remove_duplicate=False)]
    own = {id(tensor): name for name, tensor in reversed(listed)}
    names: dict[str, list[str]] = {}
    for name, tensor in listed:
        names.setdefault(own[id(tensor)], []).append(name)
    return names
