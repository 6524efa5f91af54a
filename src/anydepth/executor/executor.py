"""What is executed in a pass: a private image of the unit's modules, which the block's own modules never notice.

What is stored (tensors with a leading axis) and what runs (the same modules with the tensors of one depth) are
different objects. An `Image` is the unit's modules as they are at one moment, without tensors; an `Executor` is made
from it for one pass, and is closed and thrown away when the pass is over. Nothing is ever put into the unit: no thread,
interrupt or fork can meet it half changed, and there is nothing to lock, to save or to copy.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from operator import is_
from threading import local
from typing import Any, NoReturn, Protocol, Self

import torch
from torch import Tensor, nn
from torch.func import functional_call

from anydepth.errors import UnitError
from anydepth.executor.follow import MUTABLE, followed, is_plain

TABLES = ("_parameters", "_buffers", "_modules")
Aliases = Mapping[str, Sequence[str]]
"""By the name of a tensor: all names under which it is used, its own first."""
Place = tuple[int, str, str]
"""Where a tensor is: the number of a module, the name of a table of it, and the key there."""


class Part:
    """One module: its class, attributes, and the names of its tensors and children."""

    def __init__(self, module: nn.Module):
        own = vars(module)
        self.module, self.kind = module, type(module)
        self.keys, self.values = tuple(own), tuple(own.values())
        self.attributes = {key: value for key, value in own.items() if key not in TABLES}
        self.given = tuple(self.attributes.values())
        self.parameters, self.buffers = names_in(module._parameters), names_in(module._buffers)
        self.children = dict(module._modules)
        self.open = tuple(value for value in self.given if type(value) in MUTABLE)
        self.is_plain = all(map(is_plain, self.given))
        """Whether no attribute leads to another module, so that all can be shared."""

    def is_current(self) -> bool:
        """Whether the module is still as it was."""
        own, module = vars(self.module), self.module
        return (
            self.is_plain
            and type(module) is self.kind
            and tuple(own) == self.keys
            and all(map(is_, own.values(), self.values))
            and module._modules == self.children
            and names_in(module._parameters) == self.parameters
            and names_in(module._buffers) == self.buffers
            and (not any(self.open) or all(map(is_plain, self.open)))
        )


class Image:
    """All modules of a unit, in order; the first is the unit itself."""

    def __init__(self, unit: nn.Module):
        self.paths = dict(unit.named_modules(remove_duplicate=False))
        self.parts = tuple(Part(module) for module in dict.fromkeys(self.paths.values()))
        self.number = {id(part.module): i for i, part in enumerate(self.parts)}
        self.is_plain = all(part.is_plain for part in self.parts)
        self.is_training = any(part.attributes["training"] for part in self.parts)
        """Whether any module may update its state."""
        self.looked_at: set[str] = set()
        """What needs to be looked at once, and has been."""
        self.refusals: dict[str | tuple[str, torch.Size], str] = {}
        """Why faster paths cannot run such a unit, by their names; or cannot run it on an x of some shape."""
        self.chains: dict[str, Any] = {}
        """What faster paths know such a unit to be, by their names."""
        self.memory: dict[str, dict[Any, Any]] = {}
        """What faster paths keep about the unit, by their names; every image of it that a block makes has the same."""
        self._children = [
            {key: None if child is None else self.number[id(child)] for key, child in part.children.items()}
            for part in self.parts
        ]
        self._blank = [(dict.fromkeys(part.parameters), dict.fromkeys(part.buffers)) for part in self.parts]
        self._places: dict[tuple[str, ...], tuple[list[Place], list[tuple[int, Place]]]] = {}

    @property
    def name(self) -> str:
        return self.parts[0].kind.__name__

    def is_current(self, unit: nn.Module) -> bool:
        """Whether this is still what the unit looks like."""
        return self.is_plain and self.parts[0].module is unit and all(part.is_current() for part in self.parts)

    def made(self) -> list[nn.Module]:
        """New modules, one for each; their tensors are yet to be put in."""
        modules: list[nn.Module] = [object.__new__(part.kind) for part in self.parts]
        homes = {} if self.is_plain else {id(p.module): made for p, made in zip(self.parts, modules, strict=True)}
        for part, made, (parameters, buffers), children in zip(
            self.parts, modules, self._blank, self._children, strict=True
        ):
            own = vars(made)
            own.update(part.attributes)
            if not part.is_plain:
                own.update({key: followed(value, homes) for key, value in part.attributes.items()})
            own["_parameters"], own["_buffers"] = parameters.copy(), buffers.copy()
            own["_modules"] = {key: None if i is None else modules[i] for key, i in children.items()}
        return modules

    def places(self, names: tuple[str, ...], aliases: Aliases) -> tuple[list[Place], list[tuple[int, Place]]]:
        """Where tensors of these names are: under their own name, and, by their number, under others."""
        if names not in self._places:
            own = [self._place(name) for name in names]
            others = [(i, self._place(alias)) for i, name in enumerate(names) for alias in aliases[name][1:]]
            self._check_known({*own, *(place for _, place in others)})
            self._places[names] = own, others
        return self._places[names]

    def _place(self, name: str) -> Place:
        path, _, key = name.rpartition(".")
        number = self.number[id(self.paths[path])]
        return number, "_parameters" if key in self.parts[number].parameters else "_buffers", key

    def _check_known(self, known: set[Place]) -> None:
        """Refuse tensors that have come to the unit since its block was made: nobody would give them a value."""
        for i, part in enumerate(self.parts):
            for table, names in (("_parameters", part.parameters), ("_buffers", part.buffers)):
                new = [key for key, is_there in names.items() if is_there and (i, table, key) not in known]
                if new:
                    raise UnitError(
                        f"the block of {self.name} was made for other tensors than its unit has now: "
                        f"{new[0]!r} of a {part.kind.__name__} is new; change the unit in the function that makes it"
                    )


def names_in(table: Mapping[str, Tensor | None]) -> dict[str, bool]:
    """The names in a table of tensors, and whether there is one."""
    return {name: tensor is not None for name, tensor in table.items()}


class Images(local):
    """The image of a unit that a thread used last; never saved, never copied, and made anew without harm."""

    def __init__(self, memory: dict[str, dict[Any, Any]] | None = None) -> None:
        self._image: Image | None = None
        self._memory = {} if memory is None else memory  # the same for all threads, as arguments of a `local` are

    def image(self, unit: nn.Module) -> Image | None:
        """What the unit looks like now; nothing under a compiler, which calls the unit itself."""
        if torch.compiler.is_compiling():
            return None
        if self._image is None or not self._image.is_current(unit):
            self._image = Image(unit)
            self._image.memory = self._memory
        return self._image

    def __deepcopy__(self, memo: dict) -> Self:
        return type(self)({})

    def __reduce__(self) -> tuple:
        return type(self), ({},)


class UnitCall(Protocol):
    """Runs a unit with given tensors under given names."""

    def __call__(
        self, tensors: Sequence[Tensor], args: tuple, kwargs: dict[str, object], watched: Sequence[int]
    ) -> tuple[Any, list[Tensor]]:
        """The unit's result, and the tensors that are in the watched places afterwards."""
        ...

    def close(self) -> None:
        """The pass is over."""
        ...

    def written(self) -> list[tuple[nn.Module, str, object]]:
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
        self, tensors: Sequence[Tensor], args: tuple, kwargs: dict[str, object], watched: Sequence[int]
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

    def written(self) -> list[tuple[nn.Module, str, object]]:
        found: list[tuple[nn.Module, str, object]] = []
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

    def _changed(
        self, part: Part, own: dict[str, object], given: dict[str, object]
    ) -> list[tuple[nn.Module, str, object]]:
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
        self, tensors: Sequence[Tensor], args: tuple, kwargs: dict[str, object], watched: Sequence[int]
    ) -> tuple[Any, list[Tensor]]:
        placed = dict(zip(self.names, tensors, strict=True))
        out = functional_call(self.unit, placed, args, kwargs)
        return out, [placed[self.names[i]] for i in watched]

    def close(self) -> None:
        """Nothing was put in."""

    def written(self) -> list[tuple[nn.Module, str, object]]:
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

    def refuse(self, *_args: object, **_kwargs: object) -> NoReturn:
        raise UnitError(
            f"a module of unit {self.name} is used after its evaluation is over, when its weights at that depth are "
            "gone; instead of torch.utils.checkpoint inside a unit, use gradient='checkpoint' of the block"
        )

    def __contains__(self, key: object) -> bool:
        return self.refuse()

    def __getitem__(self, key: object) -> object:
        return self.refuse()

    def __setitem__(self, key: object, value: object) -> None:
        self.refuse()

    def __iter__(self) -> NoReturn:
        return self.refuse()


@cache
def _closed(name: str) -> _Closed:
    return _Closed(name)
