"""Plain text as sentences of words, cut the way treebanks cut it."""

import re
from collections.abc import Container, Iterator

_CLITIC = re.compile("(.+?)(n['\u2019]t|['\u2019](?:s|m|re|ve|ll|d))$", re.IGNORECASE)
_PIECE = re.compile(r"\.{2,}|-{2,}|\d+(?:[.,:/]\d+)*|\w+(?:['\u2019]\w+)*|[^\w\s]")
_END = frozenset(".!?\u2026")
_CLOSING = frozenset("\"'\u201d\u2019)]}\u00bb")


def sentences_of(text: str, known: Container[str]) -> list[tuple[str, ...]]:
    """The sentences of a text: every line begins a new one, and so does what follows a full stop or the like.

    Between blanks, what is in the vocabulary `known` stays whole ("Mr.", "e-mail"); all else is cut at punctuation
    marks and before clitics ("do n't").
    """
    return [sentence for line in text.splitlines() for sentence in _cut(_words(line, known))]


def _words(line: str, known: Container[str]) -> Iterator[str]:
    for chunk in line.split():
        yield from _pieces(chunk, known)


def _pieces(chunk: str, known: Container[str]) -> Iterator[str]:
    opening = 0
    while chunk[opening:] not in known and opening < len(chunk) - 1 and not chunk[opening].isalnum():
        opening += 1
    rest = chunk[opening:]
    yield from _PIECE.findall(chunk[:opening])
    if rest in known:
        yield rest
        return
    has_mark = not rest[-1].isalnum() and rest[:-1] in known
    for piece in (rest[:-1], rest[-1]) if has_mark else _PIECE.findall(rest):
        clitic = None if piece in known else _CLITIC.match(piece)
        yield from clitic.groups() if clitic else (piece,)


def _cut(words: Iterator[str]) -> Iterator[tuple[str, ...]]:
    """Sentences end after a final mark and the quotes and brackets that close behind it."""
    sentence: list[str] = []
    is_over = False
    for word in words:
        if is_over and word not in _END and word not in _CLOSING:
            yield tuple(sentence)
            sentence, is_over = [], False
        sentence.append(word)
        is_over = is_over or set(word) <= _END
    if sentence:
        yield tuple(sentence)
