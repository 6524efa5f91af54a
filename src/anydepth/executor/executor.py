"""What is executed in a pass: a private image of the unit's modules, which the block's own modules never notice.

What is stored (tensors with a leading axis) and what runs (the same modules with the tensors of one depth) are
different objects. An `Image` is the unit's modules as they are at one moment, without tensors; an `Executor` is made of
it for one pass, and is closed and thrown away when the pass is over. Nothing is ever put into the unit: no thread,
interrupt or fork can meet it half changed, and there is nothing to lock, to save or to copy.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

import torch
from torch import Tensor, nn
from torch.func import functional_call

from anydepth.errors import UnitError
from anydepth.executor.follow import followed, is_plain, leads_to

_TABLES = ("_parameters", "_buffers", "_modules")
Aliases = Mapping[str, Sequence[str]]
"""By the name of a tensor: all names under which it is used, its own first."""


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


@dataclass(frozen=True)
class Image:
    """A unit's modules at one moment: class, attributes, names of tensors and children of each; no tensors."""

    modules: tuple[nn.Module, ...]
    attributes: tuple[dict[str, Any], ...]
    tensors: tuple[tuple[dict[str, bool], dict[str, bool]], ...]
    """Of each module: names of parameters and of buffers, and whether there is one."""
    children: tuple[dict[str, nn.Module | None], ...]
    paths: dict[str, nn.Module]

    @classmethod
    def of(cls, unit: nn.Module) -> "Image":
        paths = dict(unit.named_modules(remove_duplicate=False))
        modules = tuple(dict.fromkeys(paths.values()))
        attributes = tuple({k: v for k, v in vars(m).items() if k not in _TABLES} for m in modules)
        tensors = tuple((_names(m._parameters), _names(m._buffers)) for m in modules)
        return cls(modules, attributes, tensors, tuple(dict(m._modules) for m in modules), paths)

    def made(self) -> "dict[int, nn.Module]":
        """New modules by the identity of those they stand for; their tensors are yet to be put in."""
        images: dict[int, nn.Module] = {id(module): object.__new__(type(module)) for module in self.modules}
        for i, module in enumerate(self.modules):
            own, (parameters, buffers) = vars(images[id(module)]), self.tensors[i]
            own.update({k: v if is_plain(v) else followed(v, images) for k, v in self.attributes[i].items()})
            own["_parameters"], own["_buffers"] = dict.fromkeys(parameters), dict.fromkeys(buffers)
            own["_modules"] = {k: c if c is None else images[id(c)] for k, c in self.children[i].items()}
        return images

    def call(self, names: Sequence[str], aliases: Aliases) -> UnitCall:
        """The unit, ready to be called with tensors in the place of those names."""
        unit = self.modules[0]
        return Traced(unit, names) if torch.compiler.is_compiling() else Executor(self, names, aliases)


class Executor:
    """An image of a unit that is called with other tensors time and again, in one pass."""

    def __init__(self, image: Image, names: Sequence[str], aliases: Aliases):
        self.image, self.images = image, image.made()
        self.root = self.images[id(image.modules[0])]
        self.given = [dict(vars(self.images[id(module)])) for module in image.modules]
        self.own = [self._slot(name) for name in names]
        self.others = [(i, *self._slot(alias)) for i, name in enumerate(names) for alias in aliases[name][1:]]
        self._check_known()

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
        refuse = _refusing(type(self.root).__name__)
        for image in self.images.values():
            vars(image).update(_parameters=_Closed(refuse), _buffers=_Closed(refuse), _compiled_call_impl=refuse)

    def written(self) -> list[tuple[nn.Module, str, Any]]:
        homes = {id(self.images[id(module)]): module for module in self.image.modules}
        found = []
        for module, given, children in zip(self.image.modules, self.given, self.image.children, strict=True):
            image = self.images[id(module)]
            if list(image._modules) != list(children):
                raise UnitError(
                    f"unit {type(self.root).__name__} makes or replaces modules in its forward pass, whose weights "
                    "would be lost; make them at construction"
                )
            changed = [key for key, value in vars(image).items() if given.get(key, self) is not value]
            found += [(module, key, followed(vars(image)[key], homes)) for key in changed if key not in _TABLES]
        return found

    def buffers(self) -> list[str]:
        """The names of all buffers that there are now."""
        return [name for name, _ in self.root.named_buffers(remove_duplicate=False)]

    def _check_known(self) -> None:
        """Refuse tensors that have come to the unit since its block was made: nobody would give them a value."""
        known = {(id(table), key) for table, key in (*self.own, *(other[1:] for other in self.others))}
        for module, tensors in zip(self.image.modules, self.image.tensors, strict=True):
            image = self.images[id(module)]
            for table, names in zip((image._parameters, image._buffers), tensors, strict=True):
                new = [key for key, is_there in names.items() if is_there and (id(table), key) not in known]
                if new:
                    raise UnitError(
                        f"the block of {type(self.root).__name__} was made for other tensors than its unit has now: "
                        f"{new[0]!r} of a {type(module).__name__} is new; change the unit in the function that makes it"
                    )

    def _slot(self, name: str) -> tuple[dict[str, Any], str]:
        path, _, key = name.rpartition(".")
        image = self.images[id(self.image.paths[path])]
        return (image._parameters if key in image._parameters else image._buffers), key


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


def _names(table: Mapping[str, Tensor | None]) -> dict[str, bool]:
    return {name: tensor is not None for name, tensor in table.items()}


class _Closed(dict):
    """A table of tensors after the pass; every look into it is refused."""

    def __init__(self, refuse: Callable[..., NoReturn]):
        super().__init__()
        for name in ("get", "items", "keys", "values"):
            setattr(self, name, refuse)
        self._refuse = refuse

    def __contains__(self, key: object) -> bool:
        return self._refuse()

    def __getitem__(self, key: object) -> Any:
        return self._refuse()

    def __iter__(self) -> Any:
        return self._refuse()


def _refusing(name: str) -> Callable[..., NoReturn]:
    def refuse(*_args: Any, **_kwargs: Any) -> NoReturn:
        raise UnitError(
            f"a module of unit {name} is used after its evaluation is over, when its weights at that depth are gone; "
            "instead of torch.utils.checkpoint inside a unit, use gradient='checkpoint' of the block"
        )

    return refuse


def private(unit: nn.Module) -> nn.Module:
    """The same modules as new objects with the same tensors; hooks and buffers are its own from now on."""
    image = Image.of(unit)
    made = image.made()
    clones = {id(buffer): buffer.detach().clone() for buffer in unit.buffers()}
    for module in image.modules:
        own = vars(made[id(module)])
        own["_parameters"] = dict(module._parameters)
        own["_buffers"] = {key: clones.get(id(buffer)) for key, buffer in module._buffers.items()}
        own.update({key: value.copy() for key, value in own.items() if key.endswith("_hooks")})
    return made[id(unit)]


def check_own_tensors(unit: nn.Module) -> None:
    """Refuse a unit that keeps a tensor of its own in an attribute too, where no other tensor can take its place."""
    names = {id(t): name for name, t in [*unit.named_parameters(), *unit.named_buffers()]}
    modules = {id(module) for module in unit.modules()}
    for path, module in unit.named_modules():
        for key, value in vars(module).items():
            if key not in _TABLES and leads_to(value, names, modules):
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
