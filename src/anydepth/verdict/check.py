"""Check: run a trained model with solvers of smaller error; a proper ODE hardly notices."""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from anydepth.data.table import IGNORED, Batch
from anydepth.errors import ConfigError, DataError, NumericalError
from anydepth.surgery.blocks import blocks_of
from anydepth.train.evaluate import evaluating, fitting, nfe_of
from anydepth.verdict.swap import finer_models

Report = Callable[[str, float], None]

AGREEMENT = 95.0
"""Per cent of predictions that must survive a more accurate solver."""
DISTANCE = 0.05
"""Largest relative change of outputs, where there are no classes."""


@dataclass(frozen=True)
class Row:
    """One solver: how its outputs compare with those of the solver the model was trained with."""

    solver: str
    nfe: int
    agreement: float | None
    """Per cent of predictions that are the same; None without classes."""
    distance: float | None
    """Root mean square of the change, relative to that of the outputs; None if the outputs are not finite."""
    accuracy: float | None
    """Per cent right, where labels are given."""


@dataclass(frozen=True)
class Verdict:
    """Whether a model is proper: its outputs belong to an ODE and not to one solver."""

    proper: bool
    reason: str
    table: tuple[Row, ...]

    def describe(self) -> dict[str, Any]:
        return {"proper": self.proper, "reason": self.reason, "table": [asdict(row) for row in self.table]}


def check(
    model: nn.Module,
    batches: Iterable[Any],
    classes: bool = True,
    agreement: float = AGREEMENT,
    distance: float = DISTANCE,
    report: Report | None = None,
) -> Verdict:
    """Judge a model by running it with more steps, a higher order, or a tighter tolerance.

    Args:
        batches: inputs; or pairs of inputs and labels, which add accuracies to the table.
        classes: outputs are scores of classes along the last axis; else they are compared as numbers.
        agreement: per cent of predictions that must stay the same.
        distance: largest relative change of outputs, if they are no classes.
    """
    examples = [_example(batch) for batch in batches]
    if not examples:
        raise DataError("no batches were given; a verdict needs some inputs")
    trained = ", ".join(dict.fromkeys(str(block.solver) for block in blocks_of(model).values()))
    candidates = [(trained, model), *finer_models(model)]
    rows, reference = [], None
    for done, (name, candidate) in enumerate(candidates):
        if report is not None:
            report(f"running {name}", done / len(candidates))
        outputs = _outputs(candidate, examples)
        reference = outputs if reference is None else reference
        rows.append(_row(name, nfe_of(candidate), reference, outputs, examples, classes))
    return _judged(tuple(rows), agreement if classes else None, distance)


def _judged(rows: tuple[Row, ...], agreement: float | None, distance: float) -> Verdict:
    trained, *others = rows
    if trained.distance is None:
        raise NumericalError(f"the outputs with {trained.solver}, as the model is, are not finite; there is no verdict")
    broken = next((row for row in others if row.distance is None), None)
    if broken is not None:
        reason = f"with {broken.solver} instead of {trained.solver}, the outputs are not finite"
        return Verdict(False, f"{reason}; the model is tied to its solver", rows)
    if agreement is None:
        gap, worst = max(((row.distance or 0.0, row) for row in others), key=lambda pair: pair[0])
        kept = f"change by {gap:.2g} of their size (limit {distance:g})"
        return Verdict(gap <= distance, f"with {worst.solver} instead of {trained.solver}, the outputs {kept}", rows)
    worst = min(others, key=lambda row: row.agreement or 0.0)
    proper = (worst.agreement or 0.0) >= agreement
    kept = f"{worst.agreement:.1f} % of the predictions stay the same (limit {agreement:g} %)"
    lost = "" if worst.accuracy is None else f", accuracy goes from {trained.accuracy:.1f} % to {worst.accuracy:.1f} %"
    tied = "" if proper else "; the model is tied to its solver"
    return Verdict(proper, f"with {worst.solver} instead of {trained.solver}, {kept}{lost}{tied}", rows)


def _example(batch: Any) -> Batch:
    if isinstance(batch, Batch):
        return batch
    if isinstance(batch, Tensor):
        return Batch((batch,), torch.empty(0))
    if isinstance(batch, (tuple, list)) and len(batch) == 2:
        inputs, labels = batch
        return Batch(inputs if isinstance(inputs, tuple) else (inputs,), labels)
    raise ConfigError(f"a batch must be inputs or a pair of inputs and labels, got {type(batch).__name__}")


def _outputs(model: nn.Module, examples: list[Batch]) -> list[Tensor]:
    with evaluating(model):
        return [model(*fitting(model, example).inputs).cpu() for example in examples]


def _row(
    name: str, nfe: int, reference: list[Tensor], outputs: list[Tensor], examples: list[Batch], classes: bool
) -> Row:
    same = right = counted = labelled = 0
    gap = size = 0.0
    for before, after, (_, labels) in zip(reference, outputs, examples, strict=True):
        if not bool(after.isfinite().all()):
            return Row(name, nfe, 0.0 if classes else None, None, None)
        gap += (after.double() - before.double()).square().sum().item()
        size += before.double().square().sum().item()
        if classes:
            chosen = after.argmax(-1)
            real = labels != IGNORED if labels.numel() else torch.ones_like(chosen, dtype=torch.bool)
            same += int(((chosen == before.argmax(-1)) & real).sum())
            counted += int(real.sum())
            right += int(((chosen == labels) & real).sum()) if labels.numel() else 0
            labelled += int(real.sum()) if labels.numel() else 0
    return Row(
        name,
        nfe,
        100 * same / counted if counted else None,
        (gap / size) ** 0.5 if size else gap**0.5,
        100 * right / labelled if labelled else None,
    )
