"""Predictions of a trained run for files."""

from pathlib import Path
from typing import Any

import torch

from anydepth.deploy.inputs import read_inputs
from anydepth.deploy.tags import read_text, tag
from anydepth.errors import DataError, NumericalError
from anydepth.train.evaluate import evaluating
from anydepth.train.runs import Run

_BATCH = 500


def predict(run: Run, path: Path) -> list[dict[str, Any]]:
    """One entry for every example in the file: label and probability, the output vector, or tagged words."""
    facts = run.facts
    if facts.kind == "sentences":
        return tag(run.model(), facts, read_text(path, facts))
    inputs = read_inputs(path, facts)
    model = run.model()
    first = next(model.parameters())
    found: list[dict[str, Any]] = []
    inputs = inputs.to(first.device, first.dtype)
    if not torch.isfinite(inputs).all():
        raise DataError(f"{path} has numbers that are too large for {str(first.dtype).removeprefix('torch.')}")
    with evaluating(model):
        for part in inputs.split(_BATCH):
            outputs = model(part)
            if not torch.isfinite(outputs).all():
                raise NumericalError(f"the model's outputs for {path} are not finite; run it with a finer solver")
            found += _labelled(outputs, facts.labels) if facts.labels else [{"output": row} for row in outputs.tolist()]
    return found


def _labelled(outputs: torch.Tensor, labels: tuple[str, ...]) -> list[dict[str, Any]]:
    probabilities, classes = outputs.float().softmax(-1).max(-1)
    pairs = zip(classes.tolist(), probabilities.tolist(), strict=True)
    return [{"label": labels[index], "probability": round(p, 6)} for index, p in pairs]
