"""Does an exported model say what the model says? The same inputs through both, and through the frozen one between."""

from collections.abc import Sequence

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from anydepth.data.facts import Facts
from anydepth.deploy.export.ports import Call, drawn
from anydepth.errors import NumericalError
from anydepth.measure.answers import margins, scores

BATCHES = (1, 7, 256)
FROZEN, EXPORTED = 1e-5, 1e-4
"""How far outputs may be from the model's, in units of its largest output or of 1, whichever is larger."""
_TIE = 1e-6
"""Scores that are so near to each other, in the same units, are equal in float32."""


class Gap(BaseModel):
    """How far one side is from the model, for one batch."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    side: str
    batch: int
    largest_difference: float | None
    """Absolute; None where it is not finite."""
    largest_output: float
    limit: float
    other_argmax: int | None
    """Predictions that differ, but for ties; None where outputs are no scores of classes."""

    @property
    def holds(self) -> bool:
        return self.largest_difference is not None and self.largest_difference <= self.limit and not self.other_argmax

    def __str__(self) -> str:
        found = "not finite" if self.largest_difference is None else f"{self.largest_difference:.1e}"
        other = f", {self.other_argmax} other predictions" if self.other_argmax else ""
        return f"{self.side}, batch {self.batch}: off by {found}, allowed {self.limit:.1e}{other}"


class Parity(BaseModel):
    """All comparisons of one export."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    holds: bool
    gaps: tuple[Gap, ...]

    @property
    def largest(self) -> float | None:
        """The largest difference of the exported model; None where one is not finite."""
        found = [gap.largest_difference for gap in self.gaps if gap.side == "exported"]
        return None if None in found else max((d for d in found if d is not None), default=None)

    @property
    def reason(self) -> str:
        """What does not hold, in one line."""
        return "; ".join(str(gap) for gap in self.gaps if not gap.holds)


def compare(model: Call, frozen: Call, exported: Call, facts: Facts, dtypes: Sequence[torch.dtype]) -> Parity:
    """The three on made-up inputs of every batch size; `dtypes` are the model's and the exported one's."""
    gaps = []
    for batch in BATCHES:
        inputs = drawn(facts, dtypes[0], batch, seed=batch)
        cast = tuple(x.to(dtypes[1]) if x.is_floating_point() else x for x in inputs)
        words = inputs[1] if facts.kind == "sentences" else slice(None)
        with torch.inference_mode():
            wanted = model(inputs)[words]
            if not torch.isfinite(wanted).all():
                raise NumericalError("the model's own outputs are not finite; export it with a finer solver")
            for side, found, limit in (("frozen", frozen(cast), FROZEN), ("exported", exported(cast), EXPORTED)):
                gaps.append(gap(side, batch, wanted, found[words], limit, bool(facts.labels)))
    return Parity(holds=all(gap.holds for gap in gaps), gaps=tuple(gaps))


def gap(side: str, batch: int, wanted: Tensor, found: Tensor, limit: float, classes: bool) -> Gap:
    wanted, found = wanted.double(), found.double()
    size = float(wanted.abs().max())
    unit = max(1.0, size)
    difference = float((found - wanted).abs().max())
    other = None
    if classes:
        differs = scores(found).argmax(-1) != scores(wanted).argmax(-1)
        other = int((differs & (margins(wanted) > _TIE * unit)).sum())
    return Gap(
        side=side,
        batch=batch,
        largest_difference=difference if difference < float("inf") else None,
        largest_output=size,
        limit=limit * unit,
        other_argmax=other,
    )
