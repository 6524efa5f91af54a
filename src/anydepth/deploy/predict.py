"""Predictions for files, by whatever answers: a run, its frozen network, or an exported file."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from anydepth.deploy.input_files import read_inputs
from anydepth.deploy.predictor import Predictor
from anydepth.deploy.tags import read_text, tag
from anydepth.errors import DataError, NumericalError

_BATCH = 500

Entries = list[dict[str, Any]]


def predict(predictor: Predictor, paths: Sequence[Path]) -> dict[str, Entries]:
    """For every file one entry per example: label and probability, the output vector, or tagged words.

    Examples of different files share batches.
    """
    if predictor.facts.kind == "sentences":
        return _tagged(predictor, paths)
    found: dict[str, Entries] = {}
    for group in _groups(predictor, paths):
        inputs = torch.cat([examples for _, examples in group])
        outputs = torch.cat([predictor((part,)) for part in inputs.split(_BATCH)])
        for (path, _), part in zip(group, outputs.split([len(examples) for _, examples in group]), strict=True):
            if not torch.isfinite(part).all():
                raise NumericalError(f"the model's outputs for {path} are not finite; run it with a finer solver")
            found[str(path)] = _entries(part, predictor.facts.labels)
    return found


def _groups(predictor: Predictor, paths: Sequence[Path]) -> Iterator[list[tuple[Path, Tensor]]]:
    """Files with their examples, together at least a batch."""
    group: list[tuple[Path, Tensor]] = []
    for path in paths:
        inputs = read_inputs(path, predictor.facts).to(predictor.dtype)
        if not torch.isfinite(inputs).all():
            kind = str(predictor.dtype).removeprefix("torch.")
            raise DataError(f"{path} has numbers that are too large for {kind}")
        group.append((path, inputs))
        if sum(len(examples) for _, examples in group) >= _BATCH:
            yield group
            group = []
    if group:
        yield group


def _tagged(predictor: Predictor, paths: Sequence[Path]) -> dict[str, Entries]:
    texts = {str(path): read_text(path, predictor.facts) for path in paths}
    entries = iter(tag(predictor, [sentence for text in texts.values() for sentence in text]))
    return {name: [next(entries) for _ in text] for name, text in texts.items()}


def _entries(outputs: Tensor, labels: tuple[str, ...]) -> Entries:
    if not labels:
        return [{"output": row} for row in outputs.tolist()]
    probabilities, classes = outputs.float().softmax(-1).max(-1)
    pairs = zip(classes.tolist(), probabilities.tolist(), strict=True)
    return [{"label": labels[index], "probability": round(p, 6)} for index, p in pairs]
