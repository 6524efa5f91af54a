"""Records: rows of numbers and words, with classes or with numbers to be found from them; standardised by column."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray

from anydepth.data.facts import Column, Facts
from anydepth.data.order import Draw, Indices
from anydepth.data.table import Augment, Batch, Table, hash_of
from anydepth.data.vectors import TargetStatistics, target_statistics
from anydepth.errors import DataError

MOST_FEATURES = 100_000

Real = NDArray[np.float64]
Words = dict[str, tuple[str, ...]]
"""The texts of every categorical column."""


class Fields(NamedTuple):
    """Inputs before they are encoded: numbers (count, numeric columns), and the texts of categorical columns."""

    numbers: Real
    words: Words

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, indices: Indices) -> "Fields":
        return Fields(self.numbers[indices], {name: tuple(row[i] for i in indices) for name, row in self.words.items()})


@dataclass(frozen=True, eq=False)
class Records(Table):
    """Inputs by column; targets are classes if there are labels, else (count, targets).

    `columns` names all of them in order, () where the inputs are one array of numbers.
    """

    fields: Fields
    targets: NDArray[np.float32] | Indices
    labels: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    target: str = ""
    _last: list[tuple[Facts, NDArray[np.float32]]] = field(default_factory=list, init=False, repr=False)

    def __len__(self) -> int:
        return len(self.fields)

    def take(self, indices: Indices) -> Self:
        return type(self)(self.fields.take(indices), self.targets[indices], self.labels, self.columns, self.target)

    def digest(self) -> str:
        return hash_of(self.fields.numbers, repr(sorted(self.fields.words.items())).encode(), self.targets)

    def facts(self) -> Facts:
        """Categories, means and spreads of this part; numbers of one value are left where they are."""
        if not len(self):
            raise DataError("the training part holds no rows")
        columns = tuple(Column(name=name, categories=self._categories(name)) for name in self.columns)
        encoded = encode(self.fields, columns)
        mean, std = _statistics(encoded, columns)
        about: TargetStatistics = {} if self.labels else target_statistics(self.targets)
        return Facts(
            task="classify" if self.labels else "regress",
            kind="vectors",
            shape=encoded.shape[1:],
            labels=self.labels,
            mean=mean,
            std=std,
            columns=columns,
            target=self.target,
            **about,
        )

    def batch(self, indices: Indices, facts: Facts, augment: Augment | None = None, draw: Draw | None = None) -> Batch:
        if not self._last or self._last[0][0] is not facts:
            self._last[:] = [(facts, prepared(self.fields, facts).astype(np.float32))]
        return Batch((torch.from_numpy(self._last[0][1][indices]),), torch.from_numpy(self.targets[indices]))

    def _categories(self, name: str) -> tuple[str, ...]:
        return tuple(sorted(set(self.fields.words.get(name, ()))))


def encode(fields: Fields, columns: Sequence[Column]) -> Real:
    """All columns as numbers: a categorical one has a column of 0 and 1 for every category; all 0 for a new text."""
    if not columns:
        return fields.numbers
    count = sum(max(1, len(column.categories)) for column in columns)
    if count > MOST_FEATURES:
        raise DataError(f"the columns make {count:,} features, more than {MOST_FEATURES:,}; leave some out")
    parts: list[Real] = []
    numbers = iter(fields.numbers.T)
    for column in columns:
        if not column.categories:
            parts.append(next(numbers)[:, None])
            continue
        places = {text: place for place, text in enumerate(column.categories)}
        rows = [places.get(text, len(places)) for text in fields.words[column.name]]
        parts.append(np.eye(len(places) + 1, len(places))[rows])
    return np.concatenate(parts, axis=1)


def prepared(fields: Fields, facts: Facts) -> Real:
    """Encoded and standardised, as the model takes them."""
    return (encode(fields, facts.columns) - np.array(facts.mean)) / np.array(facts.std)


def _statistics(encoded: Real, columns: Sequence[Column]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and spread of every feature; those of categories stay 0 and 1."""
    mean, std = encoded.mean(0), encoded.std(0)
    sizes = [len(column.categories) for column in columns] or [0] * encoded.shape[1]
    is_number = np.concatenate([np.full(max(1, size), size == 0) for size in sizes])
    # a column of one value may have a spread that is only rounding
    is_flat = std <= 1e-12 * np.abs(mean)
    spread = np.where(is_number & ~is_flat, std, 1.0)
    return tuple(np.where(is_number, mean, 0.0).tolist()), tuple(spread.tolist())
