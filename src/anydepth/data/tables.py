"""Tables in text files: a header, then rows of as many fields; commas, semicolons, tabs or bars between them."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

import numpy as np

from anydepth.data.files import at_line, lines, shown
from anydepth.data.records import Fields, Real
from anydepth.errors import DataError, choices

SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
DELIMITERS = ",;\t|"
MOST_CELLS = 20_000_000
MOST_COLUMNS = 100_000
_MISSING = frozenset(("", "na", "n/a", "nan", "null", "none", "?", "-"))


@dataclass(frozen=True)
class TextTable:
    """The fields of a file by column, and the line that every row begins at."""

    path: Path
    columns: dict[str, list[str]]
    places: list[int]

    def __len__(self) -> int:
        return len(self.places)

    def column(self, name: str) -> list[str]:
        if name not in self.columns:
            raise at_line(self.path, 1, f"no column {shown(name)}; {choices(name, self.columns)}")
        return self.columns[name]

    def fault(self, name: str, row: int, what: str) -> DataError:
        return at_line(self.path, self.places[row], f"column {shown(name)} {what}")


def read_table(path: Path) -> TextTable:
    """A file, checked for its form: a header of different names, and as many fields in every row."""
    rows = _rows(path)
    first = next(rows, None)
    if first is None:
        raise DataError(f"{path}: empty; expected a header and rows")
    header = _header(path, first[1])
    cells: list[list[str]] = [[] for _ in header]
    places: list[int] = []
    for place, row in rows:
        if len(row) != len(header):
            raise at_line(path, place, f"{len(row)} fields, expected {len(header)} as in the header")
        places.append(place)
        if len(places) * len(header) > MOST_CELLS:
            raise at_line(path, place, f"more than {MOST_CELLS:,} fields; give the table as .npz, or in smaller pieces")
        for column, text in zip(cells, row, strict=True):
            column.append(text.strip())
    if not places:
        raise DataError(f"{path}: a header but no rows")
    return TextTable(path, dict(zip(header, cells, strict=True)), places)


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not blank, with the line they begin at."""
    source = lines(path)
    first = next(source, None)
    if first is None:
        return
    delimiter = max(DELIMITERS, key=lambda mark: (first[1].count(mark), -DELIMITERS.index(mark)))

    def text() -> Iterator[str]:
        yield first[1] + "\n"
        for _, line in source:
            yield line + "\n"

    reader = csv.reader(text(), delimiter=delimiter, strict=True)
    begin = 1
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise at_line(path, begin, f"not a row of a table: {error}") from None
        if row and row != [""]:
            yield begin, row
        begin = reader.line_num + 1


def _header(path: Path, row: list[str]) -> list[str]:
    names = [name.strip() for name in row]
    if len(names) < 2:
        raise at_line(path, 1, "one column only; expected names with commas, semicolons, tabs or bars between them")
    if len(names) > MOST_COLUMNS:
        raise at_line(path, 1, f"more than {MOST_COLUMNS:,} columns")
    if all(_number(name) is not None for name in names):
        raise at_line(path, 1, "only numbers; expected a header with the names of the columns")
    seen: set[str] = set()
    for place, name in enumerate(names):
        if not name:
            raise at_line(path, 1, f"column {place + 1} has no name")
        if name in seen:
            raise at_line(path, 1, f"two columns of the name {shown(name)}; rename one")
        seen.add(name)
    return names


def _number(text: str) -> float | None:
    """A finite number; underscores, which Python allows, are none."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if isfinite(value) and "_" not in text else None


def check_complete(table: TextTable, name: str, is_text: bool = False) -> None:
    """Refuse missing values; in a column that is said to be text, only empty fields are missing."""
    for row, text in enumerate(table.column(name)):
        if not text or (not is_text and text.lower() in _MISSING):
            raise table.fault(
                name,
                row,
                f"is missing ({shown(text)}); fill it in, or leave the column out with --set "
                f'data.options.drop=["{name}"], or, if this is a category, say data.options.categorical=["{name}"]',
            )


def share_of_numbers(table: TextTable, name: str) -> float:
    column = table.column(name)
    return sum(_number(text) is not None for text in column) / max(1, len(column))


def numbers_in(table: TextTable, name: str) -> Real:
    """A column of numbers; the first that is none is named."""
    found = np.empty(len(table))
    for row, text in enumerate(table.column(name)):
        value = _number(text)
        if value is None:
            raise table.fault(
                name,
                row,
                f"has {shown(text)}, not a number like the rest of the column; correct it, or say that they are "
                f'categories with --set data.options.categorical=["{name}"]',
            )
        found[row] = value
    return found


def fields_of(table: TextTable, numeric: Sequence[str], texts: Sequence[str]) -> Fields:
    """Columns that were checked, as inputs."""
    numbers = [numbers_in(table, name) for name in numeric]
    stacked = np.stack(numbers, axis=1) if numbers else np.empty((len(table), 0))
    return Fields(stacked, {name: tuple(table.column(name)) for name in texts})
