"""A dataset as a run uses it: parts split by a fixed seed, the test part untouched until it is asked for."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from anydepth.data.facts import Facts
from anydepth.data.order import Draw, Indices, count_or_share, permutation, split
from anydepth.data.source import SOURCES, Part, data_directory
from anydepth.data.table import Table
from anydepth.errors import ConfigError, DataError
from anydepth.registry import check_options

OWN_SHARE = 0.1
"""Share of the training part held out when a dataset has no validation part and none is asked for."""


class Dataset:
    """The parts of a registered source.

    Args:
        validation: how many training examples to hold out: a whole number, or a share below 1. By default the
            source's own validation part, or a tenth of the training part.
        limit: train on so many examples only, chosen by the split seed.
    """

    def __init__(
        self,
        name: str,
        options: Mapping[str, object] | None = None,
        root: Path | None = None,
        validation: float | None = None,
        split_seed: int = 0,
        limit: int | None = None,
    ):
        make = SOURCES[name]
        check_options(f"dataset {name!r}", make, options or {}, given=1)
        self.name, self.root = name, data_directory(root)
        self.source = make(self.root, **(options or {}))
        self.split_seed, self.limit = split_seed, limit
        try:
            self.validation = None if validation is None else count_or_share(validation, float)
        except ValueError as error:
            raise ConfigError(f"validation: {error}, got {validation!r}") from None

    def demand(self) -> None:
        """Check that the files of every part are there, without opening one."""
        parts: tuple[Part, ...] = ("train", "validation", "test") if self._keeps_own else ("train", "test")
        for part in parts:
            self.source.demand(part)

    def part(self, part: Part) -> Table:
        """One part; nothing of another part's files is read for it."""
        if part == "test" or (part == "validation" and self._keeps_own):
            self.source.demand(part)
            return self.source.read(part)
        if part not in ("train", "validation"):
            raise ConfigError(f"unknown part {part!r}; expected one of train, validation, test")
        return self._whole.take(self._places[part == "validation"])

    def facts(self) -> Facts:
        """What a model must know, found in the training part; labels also from examples left out by the limit."""
        found = self.part("train").facts()
        return found.model_copy(update={"labels": self._whole.facts().labels}) if self.limit else found

    @property
    def _keeps_own(self) -> bool:
        return self.source.own_validation and self.validation is None

    @cached_property
    def _whole(self) -> Table:
        self.source.demand("train")
        return self.source.read("train")

    @cached_property
    def _places(self) -> tuple[Indices, Indices]:
        """Where in the training files the training and the validation examples are."""
        count = len(self._whole)
        share = 0 if self._keeps_own else OWN_SHARE if self.validation is None else self.validation
        held_out = round(share * count) if share < 1 else int(share)
        if held_out >= count:
            raise DataError(f"{self.name} has {count} training examples, so {held_out} cannot be held out")
        train, validation = split(self.split_seed, count, held_out)
        if self.limit is not None and self.limit < len(train):
            chosen = permutation(Draw(self.split_seed, 0), len(train), stream=3)[: self.limit]
            train = train[sorted(chosen)]
        return train, validation
