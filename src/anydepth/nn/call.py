"""Calling a unit with other tensors in the place of its own."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from threading import RLock
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.func import functional_call

Slot = tuple[dict[str, Any], str]

_LOCKS: WeakKeyDictionary[nn.Module, Any] = WeakKeyDictionary()
"""One lock per unit: threads that share a model take turns at its units."""


class UnitCall:
    """Runs a unit with given tensors under given names, and gives back what became of them.

    In eager mode the tensors are put straight into the modules' tables and taken out again, which
    costs a fraction of `functional_call`; a compiler gets `functional_call`, which it understands.
    """

    def __init__(self, unit: nn.Module, names: Sequence[str], aliases: dict[str, list[str]]):
        self.unit, self.names = unit, names
        self.lock = lock_of(unit)
        self.own = [_slot(unit, name) for name in names]
        pairs = [(i, _slot(unit, alias)) for i, name in enumerate(names) for alias in aliases[name][1:]]
        self.others = [(i, table, key) for i, (table, key) in pairs]

    def __call__(
        self, tensors: Sequence[Tensor], args: tuple, kwargs: dict[str, Any], watched: Sequence[int]
    ) -> tuple[Any, list[Tensor]]:
        """The unit's result, and the tensors that are in the watched places afterwards."""
        if torch.compiler.is_compiling():
            placed = dict(zip(self.names, tensors, strict=True))
            out = functional_call(self.unit, placed, args, kwargs)
            return out, [placed[self.names[i]] for i in watched]
        with self.lock:
            own = [table[key] for table, key in self.own]
            try:
                self._place(tensors)
                out = self.unit(*args, **kwargs)
                return out, [self.own[i][0][self.own[i][1]] for i in watched]
            finally:
                self._place(own)

    def _place(self, tensors: Sequence[Tensor]) -> None:
        for (table, key), tensor in zip(self.own, tensors, strict=True):
            table[key] = tensor
        for i, table, key in self.others:
            table[key] = tensors[i]


def lock_of(unit: nn.Module) -> AbstractContextManager:
    """Held while other tensors are in the places of the unit's own; compiled code needs none."""
    return nullcontext() if torch.compiler.is_compiling() else _LOCKS.setdefault(unit, RLock())


def _slot(unit: nn.Module, name: str) -> Slot:
    path, _, key = name.rpartition(".")
    module = unit.get_submodule(path)
    return (module._parameters if key in module._parameters else module._buffers), key


def aliases_of(unit: nn.Module) -> dict[str, list[str]]:
    """For every tensor of the unit, all names under which it is used; the first is its own."""
    listed = [*unit.named_parameters(remove_duplicate=False), *unit.named_buffers(remove_duplicate=False)]
    own = {id(tensor): name for name, tensor in reversed(listed)}
    names: dict[str, list[str]] = {}
    for name, tensor in listed:
        names.setdefault(own[id(tensor)], []).append(name)
    return names
