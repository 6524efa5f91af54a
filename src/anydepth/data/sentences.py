"""Sentences: words with one tag each, padded to the longest of a batch."""

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import NamedTuple, Self

import numpy as np
import torch

from anydepth.data.facts import Facts
from anydepth.data.order import Draw, Indices, uniform
from anydepth.data.table import IGNORED, Augment, Batch, Table, hash_of
from anydepth.errors import DataError

PADDING, UNKNOWN = "<pad>", "<unknown>"
_UNKNOWN = 1
_HIDE = 4
"""Stream of random numbers for hidden words."""
_SPECIAL = (PADDING, UNKNOWN)

Text = tuple[tuple[str, ...], ...]


class Encoded(NamedTuple):
    """All words and tags as numbers, one sentence after the other."""

    facts: Facts
    words: Indices
    tags: Indices
    counts: Indices
    """How often each word of the vocabulary comes up."""


@dataclass(frozen=True, eq=False)
class Sentences(Table):
    """The words of each sentence, and as many tags."""

    words: Text
    tags: Text
    _last: list[Encoded] = field(default_factory=list, init=False, repr=False)
    """The latest encoding, with the facts it was made by: every batch of a run needs the same."""

    def __len__(self) -> int:
        return len(self.words)

    def take(self, indices: Indices) -> Self:
        return type(self)(tuple(self.words[i] for i in indices), tuple(self.tags[i] for i in indices))

    @property
    def lengths(self) -> Indices:
        """Words per sentence."""
        return self._lengths

    @cached_property
    def _lengths(self) -> Indices:
        return np.fromiter(map(len, self.words), np.int64, len(self))

    @cached_property
    def _starts(self) -> Indices:
        return np.cumsum(self.lengths) - self.lengths

    def digest(self) -> str:
        return hash_of(repr((self.words, self.tags)).encode())

    def facts(self) -> Facts:
        """Words by falling frequency, those of one frequency by the alphabet."""
        if not len(self):
            raise DataError("the training part holds no sentences")
        counts = Counter(chain.from_iterable(self.words))
        words = sorted(counts.keys() - set(_SPECIAL), key=lambda word: (-counts[word], word))
        labels = sorted(set(chain.from_iterable(self.tags)))
        return Facts(task="tag", kind="sentences", shape=(), labels=tuple(labels), words=(*_SPECIAL, *words))

    def batch(self, indices: Indices, facts: Facts, augment: Augment | None = None, draw: Draw | None = None) -> Batch:
        """Inputs (tokens, mask), each (B, T), and targets (B, T); the mask is True where there is a word."""
        encoded = self._encoded(facts)
        lengths = self.lengths[indices]
        steps = np.arange(lengths.max(initial=0))
        mask = steps < lengths[:, None]
        places = (self._starts[indices][:, None] + steps)[mask]
        tokens, targets = np.zeros(mask.shape, np.int64), np.full(mask.shape, IGNORED, np.int64)
        tokens[mask], targets[mask] = encoded.words[places], encoded.tags[places]
        if augment is not None and draw is not None and augment.hide:
            chance = augment.hide / (augment.hide + encoded.counts[encoded.words[places]])
            tokens[mask] = np.where(uniform(draw, places, _HIDE) < chance, _UNKNOWN, tokens[mask])
        return Batch((torch.from_numpy(tokens), torch.from_numpy(mask)), torch.from_numpy(targets))

    def _encoded(self, facts: Facts) -> Encoded:
        if not self._last or self._last[0].facts is not facts:
            self._last[:] = [self._encode(facts)]
        return self._last[0]

    def _encode(self, facts: Facts) -> Encoded:
        # a word spelt like a special one is an unknown word, never padding
        words = {word: i for i, word in enumerate(facts.words) if i > _UNKNOWN}
        tags = {tag: i for i, tag in enumerate(facts.labels)}
        for number, sentence in enumerate(self.tags):
            for tag in sentence:
                if tag not in tags:
                    raise _unknown_tag(tag, number, facts.labels)
        count = int(self.lengths.sum())
        places = np.fromiter((words.get(word, _UNKNOWN) for word in chain.from_iterable(self.words)), np.int64, count)
        return Encoded(
            facts,
            places,
            np.fromiter((tags[tag] for tag in chain.from_iterable(self.tags)), np.int64, count),
            np.bincount(places, minlength=len(facts.words)),
        )


def _unknown_tag(tag: str, number: int, labels: tuple[str, ...]) -> DataError:
    return DataError(
        f"tag {tag!r} of sentence {number + 1} is not one of the {len(labels)} tags of the training part "
        f"({', '.join(labels)}); correct the tag, have a sentence with it in the training part, or read the other "
        "column of the treebank"
    )
