"""Treebanks of Universal Dependencies: sentences with a part of speech for every word, from CoNLL-U files."""

import re
from collections.abc import Iterator
from pathlib import Path
from sys import intern
from typing import ClassVar

from anydepth.data.files import at_line, lines, shown
from anydepth.data.option_checks import folder_name, one_of
from anydepth.data.sentences import Sentences
from anydepth.data.source import SOURCES, Part, Remote, Source
from anydepth.errors import DataError

_COLUMNS = 10
_COLUMN = {"upos": 3, "xpos": 4}
_NOT_A_WORD = re.compile(r"[0-9]+[-.][0-9]+")
"""Ids of multiword tokens (1-2) and of empty nodes (8.1)."""
_INFIX: dict[Part, str] = {"train": "train", "validation": "dev", "test": "test"}
_RAW = "https://raw.githubusercontent.com/UniversalDependencies"

Sentence = tuple[tuple[str, ...], tuple[str, ...]]


def read_conllu(path: Path, column: str | None) -> Iterator[Sentence]:
    """The words and the tags of each sentence; tags from column "upos" or "xpos", or none asked for."""
    words: list[str] = []
    tags: list[str] = []
    is_empty = True
    for number, line in lines(path):
        if line and not line.startswith("#"):
            word = _word(path, number, line, len(words) + 1, column)
            if word:
                words.append(word[0])
                tags.append(word[1])
        elif not line and words:
            yield tuple(words), tuple(tags)
            words, tags, is_empty = [], [], False
    if words:
        yield tuple(words), tuple(tags)
    elif is_empty:
        raise DataError(f"{path}: no sentences in it; download the file again")


def _word(path: Path, number: int, line: str, place: int, column: str | None) -> tuple[str, str] | None:
    """Form and tag of the line of the sentence's `place`-th word; nothing for lines that are no words."""
    cells = line.split("\t")
    if len(cells) != _COLUMNS:
        raise at_line(path, number, f"{len(cells)} columns, expected {_COLUMNS} with tabs between: {shown(line)}")
    if _NOT_A_WORD.fullmatch(cells[0]):
        return None
    if cells[0] != str(place):
        raise at_line(path, number, f"id {shown(cells[0])}, expected {place}: ids count the words of a sentence from 1")
    form = cells[1]
    if not form:
        raise at_line(path, number, f"word {place} has an empty form in column 2")
    if column is None:
        return intern(form), ""
    tag = cells[_COLUMN[column]]
    if tag in ("", "_"):
        fault = f"word {place}, {shown(form)}, has no tag in column {_COLUMN[column] + 1} ({column})"
        raise at_line(path, number, f"{fault}; add it, or read the other of {' and '.join(_COLUMN)}")
    return intern(form), intern(tag)


class TreebankSource(Source):
    """Base: every file `*-ud-{train,dev,test}*.conllu`, plain or .gz, of one folder."""

    own_validation = True

    def __init__(self, root: Path, dataset: str, folder: str, column: str):
        super().__init__(root)
        self.folder = root / folder_name(dataset, folder)
        self.column = one_of(dataset, "column", column, _COLUMN)

    def files(self, part: Part) -> tuple[Path, ...]:
        """Sorted; of a plain and a compressed file of one name, the plain one."""
        pattern = f"*-ud-{_INFIX[part]}*.conllu"
        plain = {path.name: path for path in self.folder.glob(pattern)}
        compressed = {path.name.removesuffix(".gz"): path for path in self.folder.glob(pattern + ".gz")}
        found = compressed | plain
        # so that what is missing can be told
        return tuple(found[name] for name in sorted(found)) or (self.folder / pattern,)

    def read(self, part: Part) -> Sentences:
        self.demand(part)
        found = [sentence for path in self.files(part) for sentence in read_conllu(path, self.column)]
        words, tags = zip(*found, strict=True)
        return Sentences(words, tags)


@SOURCES.register("treebank")
class Treebank(TreebankSource):
    """Your own treebank in CoNLL-U files `*-ud-{train,dev,test}*.conllu[.gz]` of a folder."""

    def __init__(self, root: Path, folder: str = "treebank", column: str = "xpos"):
        super().__init__(root, "treebank", folder, column)


def _remotes(folder: str, names: dict[str, str | None]) -> tuple[Remote, ...]:
    return tuple(
        Remote(f"{_RAW}/{folder}/r2.16/{name}.conllu", f"{folder}/{name}.conllu", md5) for name, md5 in names.items()
    )


@SOURCES.register("ud-english-gum")
class EnglishGum(TreebankSource):
    """UD English-GUM 2.16: 10,224 + 1,575 + 1,464 English sentences of many genres (CC BY-NC-SA 4.0)."""

    remotes: ClassVar = _remotes(
        "UD_English-GUM",
        {
            "en_gum-ud-train": None,
            "en_gum-ud-dev": "be8234131a72c239704357f2a32f9739",
            "en_gum-ud-test": "857b6fda21ece3a1703a2f6f5b0e764c",
        },
    )

    def __init__(self, root: Path, column: str = "xpos"):
        super().__init__(root, "ud-english-gum", "UD_English-GUM", column)


@SOURCES.register("ud-german-hdt")
class GermanHdt(TreebankSource):
    """UD German-HDT 2.16: German news of computing, one of the largest treebanks (CC BY-SA 4.0)."""

    remotes: ClassVar = _remotes(
        "UD_German-HDT",
        dict.fromkeys(
            f"de_hdt-ud-{part}" for part in ("train-a-1", "train-a-2", "train-b-1", "train-b-2", "dev", "test")
        ),
    )

    def __init__(self, root: Path, column: str = "xpos"):
        super().__init__(root, "ud-german-hdt", "UD_German-HDT", column)
