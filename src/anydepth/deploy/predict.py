"""Predictions for files, by whatever answers: a run, its frozen network, or an exported file."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from anydepth.deploy.input_files import read_inputs
from anydepth.deploy.predictor import Predictor
from anydepth.deploy.tags import read_text, tag
from anydepth.errors import DataError, NumericalError, StorageError
from anydepth.json_values import JsonObject

_BATCH = 500

Entries = list[JsonObject]
"""One for every example of a file."""


class Predictions(NamedTuple):
    """What a model says about files, and what is wrong with those that could not be read."""

    found: dict[str, Entries]
    failed: dict[str, str]


def predict(predictor: Predictor, paths: Sequence[Path], resize: bool = False, top: int = 1) -> Predictions:
    """For every file one entry per example: label and probability, the output vector, or tagged words.

    Files that cannot be read are left out and told; if there is no other, the first fault is an error. Examples of
    different files share batches.

    Args:
        resize: fit images of any size to the model's, as is done anyway where training images were fitted.
        top: of classes, tell so many of the likeliest.
    """
    failed: dict[str, str] = {}
    if predictor.facts.kind == "sentences":
        found = _tagged(predictor, paths, failed)
    else:
        found = {}
        for group in _groups(predictor, paths, resize, failed):
            inputs = torch.cat([examples for _, examples in group])
            outputs = torch.cat([predictor((part,)) for part in inputs.split(_BATCH)])
            for (path, _), part in zip(group, outputs.split([len(examples) for _, examples in group]), strict=True):
                if not torch.isfinite(part).all():
                    raise NumericalError(f"the model's outputs for {path} are not finite; run it with a finer solver")
                found[str(path)] = entries_of(part, predictor.facts.labels, top)
    if failed and not found:
        raise DataError(next(iter(failed.values())) + (f"; and {len(failed) - 1} more" if len(failed) > 1 else ""))
    return Predictions(found, failed)


def _groups(
    predictor: Predictor, paths: Sequence[Path], resize: bool, failed: dict[str, str]
) -> Iterator[list[tuple[Path, Tensor]]]:
    """Files with their examples, together at least a batch."""
    group: list[tuple[Path, Tensor]] = []
    for path in paths:
        try:
            group.append((path, _inputs(predictor, path, resize)))
        except (DataError, StorageError) as error:
            failed[str(path)] = str(error)
        if sum(len(examples) for _, examples in group) >= _BATCH:
            yield group
            group = []
    if group:
        yield group


def _inputs(predictor: Predictor, path: Path, resize: bool) -> Tensor:
    inputs = read_inputs(path, predictor.facts, resize).to(predictor.dtype)
    if not torch.isfinite(inputs).all():
        kind = str(predictor.dtype).removeprefix("torch.")
        raise DataError(f"{path} has numbers that are too large for {kind}")
    return inputs


def _tagged(predictor: Predictor, paths: Sequence[Path], failed: dict[str, str]) -> dict[str, Entries]:
    texts = {}
    for path in paths:
        try:
            texts[str(path)] = read_text(path, predictor.facts)
        except (DataError, StorageError) as error:
            failed[str(path)] = str(error)
    entries = iter(tag(predictor, [sentence for text in texts.values() for sentence in text]) if texts else ())
    return {name: [next(entries) for _ in text] for name, text in texts.items()}


def entries_of(outputs: Tensor, labels: tuple[str, ...], top: int) -> Entries:
    """What is told of every row of outputs."""
    if not labels:
        return [{"output": row} for row in outputs.tolist()]
    probabilities, classes = outputs.float().softmax(-1).topk(min(top, len(labels)))
    found: Entries = []
    for row, places in zip(probabilities.tolist(), classes.tolist(), strict=True):
        ranked = [{"label": labels[place], "probability": round(p, 6)} for place, p in zip(places, row, strict=True)]
        found.append(ranked[0] | ({"top": ranked} if top > 1 else {}))
    return found
