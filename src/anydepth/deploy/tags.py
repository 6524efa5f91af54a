"""Tags for the words of plain text or of a treebank, by a trained tagger."""

import sys
from pathlib import Path

import numpy as np
import torch

from anydepth.data.facts import Facts
from anydepth.data.files import lines
from anydepth.data.sentences import Sentences
from anydepth.data.sources.treebank import read_conllu
from anydepth.data.text import sentences_of
from anydepth.deploy.predictor import Predictor
from anydepth.errors import DataError, NumericalError
from anydepth.json_values import JsonObject
from anydepth.measure.evaluation import batches_of

_BATCH = 64
_LONGEST = 2000
"""Words of a sentence; attention costs the square of them."""


def read_text(path: Path, facts: Facts) -> list[tuple[str, ...]]:
    """The sentences of a text file, of standard input (-), or of a treebank (.conllu, .conllu.gz)."""
    known = frozenset(facts.words)
    if str(path) == "-":
        found = sentences_of(_standard_input(), known)
    elif not path.is_file():
        raise DataError(f"no file {path}; name a text file, a treebank (.conllu), or - for standard input")
    elif path.name.removesuffix(".gz").endswith(".conllu"):
        found = [words for words, _ in read_conllu(path, None)]
    else:
        found = sentences_of("\n".join(line for _, line in lines(path)), known)
    if not found:
        raise DataError(f"{path} holds no words; give at least one")
    for number, sentence in enumerate(found, 1):
        if len(sentence) > _LONGEST:
            raise DataError(
                f"{path}: sentence {number} has {len(sentence):,} words, more than {_LONGEST:,}; break it up"
            )
    return found


def _standard_input() -> str:
    try:
        return sys.stdin.read().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise DataError(f"standard input is not UTF-8: {error.reason} at byte {error.start}") from None


def tag(predictor: Predictor, sentences: list[tuple[str, ...]]) -> list[JsonObject]:
    """For every sentence its words, each with tag, probability, and whether it was seen in training."""
    facts = predictor.facts
    known = frozenset(facts.words[2:])
    table = Sentences(tuple(sentences), tuple((facts.labels[0],) * len(words) for words in sentences))
    order = np.argsort(table.lengths, kind="stable")
    found: list[list[tuple[int, float]]] = []
    for batch in batches_of(table, facts, _BATCH):
        outputs = predictor(batch.inputs)
        if not bool(torch.isfinite(outputs).all()):
            raise NumericalError("the model's outputs are not finite; run it with a finer solver")
        chances, tags = outputs.float().softmax(-1).max(-1)
        found += [list(zip(t, p, strict=True)) for t, p in zip(tags.tolist(), chances.tolist(), strict=True)]
    entries: list[JsonObject] = [{}] * len(sentences)
    for place, chosen in zip(order.tolist(), found, strict=True):
        entries[place] = {
            "words": [
                {"word": word, "label": facts.labels[index], "probability": round(chance, 6), "known": word in known}
                for word, (index, chance) in zip(sentences[place], chosen, strict=False)
            ]
        }
    return entries
