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
    marks and before clitics ("do n't"). A mark within a chunk ("3.11", "www.example.org") ends no sentence.
    """
    return [sentence for line in text.splitlines() for sentence in _sentences(line, known)]


def _sentences(line: str, known: Container[str]) -> Iterator[tuple[str, ...]]:
    """A sentence ends with a chunk whose last pieces are a final mark and what closes behind it."""
    sentence: list[str] = []
    for chunk in line.split():
        pieces = list(_pieces(chunk, known))
        sentence += pieces
        last = next((piece for piece in reversed(pieces) if piece not in _CLOSING), "")
        if last and set(last) <= _END:
            yield tuple(sentence)
            sentence = []
    if sentence:
        yield tuple(sentence)


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
