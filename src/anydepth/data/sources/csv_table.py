"""Your own table: columns of numbers and categories, one of which is to be found from the others."""

from functools import cached_property
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anydepth.data.files import shown
from anydepth.data.option_checks import one_of
from anydepth.data.order import Indices
from anydepth.data.own_source import SHARE, Own, located, names
from anydepth.data.records import Records
from anydepth.data.shares import is_held_out, keys_of_rows
from anydepth.data.source import SOURCES, Part, no_such_part
from anydepth.data.tables import TextTable, check_complete, fields_of, numbers_in, read_table, share_of_numbers
from anydepth.errors import ConfigError, DataError, choices

TARGETS = ("target", "label", "class", "y")
"""Names of the column that is learnt, where none is given; else it is the last one."""
MOST_CLASSES = 20
"""Whole numbers of at most so many different values are classes."""
MOST_CATEGORIES = 1000
_NEARLY = 0.8
"""A column with at least this share of numbers is meant to be numbers."""


class Schema(NamedTuple):
    """What the columns are, as the training file shows."""

    columns: tuple[str, ...]
    texts: tuple[str, ...]
    target: str
    labels: tuple[str, ...]


@SOURCES.register("csv")
class CsvTable(Own):
    """Your own table in a text file with a header (.csv, .tsv, also .gz): numbers and categories, one target column.

    Args:
        file: where it is.
        target: the column to learn; by default one named target, label, class or y, else the last.
        columns: those to learn from; by default all others.
        drop: columns to leave out.
        categorical: columns of numbers that are names of categories.
        task: classify or regress; by default, texts and whole numbers of up to 20 values are classes.
        test: share of every class, or of the rows, that is the test part.
        test_file: instead, a file of its own for the test part.
    """

    name: ClassVar = "csv"
    place: ClassVar = "file"
    recipe: ClassVar = "tabular"

    def __init__(
        self,
        root: Path,
        file: str = "table.csv",
        target: str | None = None,
        columns: list[str] | None = None,
        drop: list[str] | None = None,
        categorical: list[str] | None = None,
        task: str = "auto",
        test: float = SHARE,
        test_file: str | None = None,
    ):
        super().__init__(root, file, test)
        self.target = target
        self.columns, self.drop = names(self.name, "columns", columns), names(self.name, "drop", drop)
        self.categorical = names(self.name, "categorical", categorical)
        self.task = one_of(self.name, "task", task, ("auto", "classify", "regress"))
        self.test_path = None if test_file is None else located(self.name, "file", test_file, root)

    def files(self, part: Part) -> tuple[Path, ...]:
        return (self.path,) if self.test_path is None or part != "test" else (self.path, self.test_path)

    def demand(self, part: Part) -> None:
        super().demand(part)
        for path in self.files(part)[1:]:
            if not path.is_file():
                raise DataError(f"no file {path}, which data.options.test_file names")

    def read(self, part: Part) -> Records:
        if part not in ("train", "test"):
            raise no_such_part(self.name, part)
        self.demand(part)
        if part == "test" and self.test_path is not None:
            return self._records(read_table(self.test_path))
        whole = self._records(self._table)
        if self.test_path is not None:
            return whole
        is_test = is_held_out(keys_of_rows(len(whole)), whole.targets if whole.labels else None, self.share)  # pyright: ignore[reportArgumentType]
        if not is_test.any():
            raise DataError(f"{self.path}: every class has one row, so that none is left to test on; add rows")
        return whole.take(np.flatnonzero(is_test == (part == "test")))

    @cached_property
    def _table(self) -> TextTable:
        return read_table(self.path)

    @cached_property
    def _schema(self) -> Schema:
        table = self._table
        target = self._target(table)
        chosen = self.columns or tuple(name for name in table.columns if name != target)
        for name in (*self.columns, *self.drop, *self.categorical):
            table.column(name)
        chosen = tuple(dict.fromkeys(name for name in chosen if name not in self.drop))
        if target in chosen:
            raise ConfigError(f"dataset 'csv': column {target!r} is the target, so it cannot be an input too")
        if not chosen:
            raise DataError(f"{self.path}: no column is left beside the target {shown(target)}")
        texts = tuple(name for name in chosen if self._is_text(table, name))
        return Schema(chosen, texts, target, self._labels(table, target))

    def _target(self, table: TextTable) -> str:
        if self.target is not None:
            table.column(self.target)
            return self.target
        named = [name for name in table.columns if name.lower() in TARGETS]
        return named[0] if named else list(table.columns)[-1]

    def _is_text(self, table: TextTable, name: str) -> bool:
        """Whether a column is of categories; one that is nearly all numbers is meant to be numbers."""
        is_said = name in self.categorical
        check_complete(table, name, is_said)
        if not is_said and share_of_numbers(table, name) >= _NEARLY:
            return False
        count = len(set(table.column(name)))
        if count > MOST_CATEGORIES:
            raise table.fault(
                name,
                0,
                f"has {count:,} different texts, more than {MOST_CATEGORIES:,} categories; leave it out with --set "
                f'data.options.drop=["{name}"]',
            )
        return True

    def _labels(self, table: TextTable, target: str) -> tuple[str, ...]:
        """The classes in order, whole numbers by value; none for a number to be found."""
        is_said = self.task == "classify"
        check_complete(table, target, is_said)
        if self.task == "regress":
            return ()
        values = set(table.column(target))
        if share_of_numbers(table, target) >= _NEARLY and not is_said:
            numbers_in(table, target)
            if len(values) > MOST_CLASSES or not all(float(value).is_integer() for value in values):
                return ()
        if len(values) < 2:
            raise DataError(f"{self.path}: the target {shown(target)} has one value only, so there is nothing to learn")
        if len(values) > min(MOST_CATEGORIES, max(2, len(table) // 2)):
            raise DataError(
                f"{self.path}: the target {shown(target)} has {len(values):,} different texts in {len(table):,} rows; "
                "name another column with --set data.options.target=NAME"
            )
        return tuple(sorted(values, key=_order))

    def _records(self, table: TextTable) -> Records:
        schema = self._schema
        for name in schema.columns:
            check_complete(table, name, name in schema.texts)
        fields = fields_of(table, [n for n in schema.columns if n not in schema.texts], schema.texts)
        return Records(fields, self._targets(table, schema), schema.labels, schema.columns, schema.target)

    def _targets(self, table: TextTable, schema: Schema) -> NDArray[np.float32] | Indices:
        check_complete(table, schema.target, bool(schema.labels))
        if not schema.labels:
            return numbers_in(table, schema.target).astype(np.float32)[:, None]
        places = {label: place for place, label in enumerate(schema.labels)}
        for row, text in enumerate(table.column(schema.target)):
            if text not in places:
                raise table.fault(
                    schema.target,
                    row,
                    f"has {shown(text)}, which is not a class of {self.path}; {choices(text, places)}",
                )
        return np.array([places[text] for text in table.column(schema.target)], np.int64)


def _order(label: str) -> tuple[int, float, str]:
    """Numbers by value, then texts by the alphabet."""
    try:
        return 0, float(label), label
    except ValueError:
        return 1, 0.0, label
