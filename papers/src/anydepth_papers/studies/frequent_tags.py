"""The tagger to beat: every word gets the tag that it has most often."""

from collections import Counter, defaultdict
from itertools import chain

from anydepth.data.sentences import Sentences


def frequent_tag_accuracy(train: Sentences, test: Sentences) -> float:
    """Per cent of test words that get their tag from counting the training part alone."""
    return 100 * sum(frequent_tag_answers(train, test)) / int(test.lengths.sum())


def frequent_tag_answers(train: Sentences, test: Sentences) -> list[int]:
    """How many words of each test sentence get their tag from counting the training part alone.

    A word that was seen gets its most frequent tag, one that was not the commonest tag of words that were seen once;
    of equally frequent tags the first by the alphabet.
    """
    seen: dict[str, Counter[str]] = defaultdict(Counter)
    for word, tag in _pairs(train):
        seen[word][tag] += 1
    once = Counter(tag for tags in seen.values() if tags.total() == 1 for tag in tags)
    unknown = _commonest(once or Counter(chain.from_iterable(train.tags)))
    known = {word: _commonest(tags) for word, tags in seen.items()}
    sentences = zip(test.words, test.tags, strict=True)
    return [sum(known.get(w, unknown) == tag for w, tag in zip(*pair, strict=True)) for pair in sentences]


def _pairs(table: Sentences):
    return zip(chain.from_iterable(table.words), chain.from_iterable(table.tags), strict=True)


def _commonest(tags: Counter[str]) -> str:
    return min(tags, key=lambda tag: (-tags[tag], tag))
