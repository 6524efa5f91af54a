"""The lines of metrics of a run, as curves over training."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError

from anydepth.errors import ModelFileError
from anydepth.json_values import JsonObject
from anydepth.runs.folder import METRICS, Run

Points = tuple[tuple[float, float], ...]
"""(epoch, value) pairs."""


@dataclass(frozen=True)
class Curves:
    """What changed while a model trained, over epochs (parts of one, for what was logged between)."""

    metric: str
    train_loss: Points
    validation_loss: Points
    train_metric: Points
    validation_metric: Points
    nfe: Points
    parameters: Points
    marks: tuple[tuple[float, str], ...]
    """Where the model grew, and what it became; the first is what it was at the start."""

    @property
    def end(self) -> float:
        return self.nfe[-1][0]


class _Line(BaseModel):
    kind: str


class _Epoch(BaseModel):
    """A line at the end of an epoch; whatever else is in it is a number."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, float] = Field(init=False)  # pyright: ignore[reportIncompatibleVariableOverride]
    kind: str
    epoch: PositiveInt
    step: PositiveInt
    nfe: float
    parameters: float
    weights: str
    solver: str


class _Change(BaseModel):
    before: str = Field(alias="from")
    after: str = Field(alias="to")


class _Refinement(BaseModel):
    step: int
    weights: _Change
    solver: _Change


_KINDS: dict[str, type[BaseModel]] = {"epoch": _Epoch, "refine": _Refinement}


def logged(run: Run) -> list[JsonObject]:
    """The lines of metrics of a run, once they are fit to be drawn."""
    lines = run.metrics()
    for number, line in enumerate(lines, 1):
        try:
            _KINDS.get(_Line.model_validate(line).kind, _Line).model_validate(line)
        except ValidationError as error:
            first = error.errors()[0]
            cause = f"{'.'.join(map(str, first['loc']))}: {first['msg']}".removeprefix(": ")
            raise ModelFileError(f"{run.folder / METRICS} line {number} is damaged: {cause}") from None
    return lines


def read_curves(metrics: Sequence[JsonObject], metric: str) -> Curves | None:
    """The curves in the lines of metrics, if there is an epoch in them."""
    epochs = [line for line in metrics if line.get("kind") == "epoch"]
    if not epochs:
        return None
    per_epoch = epochs[0]["step"] / epochs[0]["epoch"]
    refinements = [line for line in metrics if line.get("kind") == "refine"]
    start = [(0.0, shape_label(epochs[0]["weights"], epochs[0]["solver"]))]
    if refinements and refinements[0]["step"] < epochs[0]["step"]:
        start = [(0.0, shape_label(refinements[0]["weights"]["from"], refinements[0]["solver"]["from"]))]
    grown = [
        (line["step"] / per_epoch, shape_label(line["weights"]["to"], line["solver"]["to"])) for line in refinements
    ]

    def points(key: str) -> Points:
        return tuple((line["step"] / per_epoch, line[key]) for line in epochs if line.get(key) is not None)

    return Curves(
        metric,
        points("train_loss"),
        points("validation_loss"),
        points(f"train_{metric}"),
        points(f"validation_{metric}"),
        points("nfe"),
        points("parameters"),
        (*start, *grown),
    )


def shape_label(weights: str, solver: str) -> str:
    """ "linear:3", "rk4 x 4" in words; anything less simple as it is."""
    functions, steps = re.fullmatch(r"\w+:(\d+)", weights), re.fullmatch(r"\w+ x (\d+)", solver)
    told = (_count(functions, "function") or _cut(weights), _count(steps, "step") or _cut(solver))
    return "\n".join(told)


def _count(found: re.Match[str] | None, noun: str) -> str:
    if found is None:
        return ""
    return f"{found[1]} {noun}" + ("" if found[1] == "1" else "s")


def _cut(text: str) -> str:
    return text if len(text) <= 16 else text[:15] + "…"


def last_value(metrics: Sequence[JsonObject], name: str) -> Any:
    """The last value logged under a name, if any was."""
    return next((line[name] for line in reversed(metrics) if line.get(name) is not None), None)
