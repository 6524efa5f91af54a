"""A unit's modules as they are at one moment, without their tensors: what executors are made from."""

from collections.abc import Mapping, Sequence
from operator import is_

from torch import Tensor, nn

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
