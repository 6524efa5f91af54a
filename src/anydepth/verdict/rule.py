"""The rule: from a table of solvers to proper or not, with a sentence."""

from collections.abc import Sequence
from dataclasses import dataclass

from anydepth.errors import ConfigError
from anydepth.verdict.row import SolverRow

THIN = 30
"""With fewer predictions, or fewer examples of numbers, a verdict calls its evidence thin."""
FAR = 0.2
"""Outputs that change by more of their size have not stayed, whatever the predictions do."""
MOST = 50.0
"""Per cent of predictions that must be safe by their margins where counting them does not decide."""


@dataclass(frozen=True)
class Limits:
    """Per cent of predictions that must stay the same, and how much outputs that are no classes may change."""

    agreement: float = 95.0
    distance: float = 0.05

    def __post_init__(self) -> None:
        if not 1 < self.agreement <= 100:
            hint = f"did you mean {100 * self.agreement:g}?" if 0 < self.agreement <= 1 else "the default is 95"
            raise ConfigError(f"agreement is in per cent, above 1 and at most 100, got {self.agreement:g}; {hint}")
        if not self.distance > 0:
            raise ConfigError(
                f"distance is a share of the outputs, above 0, got {self.distance:g}; the default is 0.05"
            )


def judged(rows: Sequence[SolverRow], limits: Limits, classes: bool) -> tuple[bool, str]:
    """Whether the first row's solver can be replaced by all others that count, and the reason."""
    trained, *others = rows
    broken = next((row for row in others if row.distance is None), None)
    if broken is not None:
        why = broken.failure or "the change is not finite"
        return False, f"with {broken.solver} instead of {trained.solver}, {why}; {_TIED}"
    others = [row for row in others if row.counts]
    return _by_predictions(trained, others, limits) if classes else _by_outputs(trained, others, limits)


_TIED = "the model is tied to its solver"


def _by_outputs(trained: SolverRow, others: Sequence[SolverRow], limits: Limits) -> tuple[bool, str]:
    worst = max(others, key=lambda row: row.distance or 0.0)
    change = worst.distance or 0.0
    proper = change <= limits.distance
    said = f"the outputs change by {100 * change:.2g} % of their size (limit {100 * limits.distance:g} %)"
    return proper, f"with {worst.solver} instead of {trained.solver}, {said}{'' if proper else f'; {_TIED}'}"


def _by_predictions(trained: SolverRow, others: Sequence[SolverRow], limits: Limits) -> tuple[bool, str]:
    worst = min(others, key=lambda row: (row.agreement or 0.0, -(row.distance or 0.0)))
    proper, why = _counted(worst, limits.agreement)
    said = f"{worst.agreement:.1f} % of the predictions stay the same (limit {limits.agreement:g} %)"
    if worst.accuracy is not None:
        said += f", accuracy goes from {trained.accuracy:.1f} % to {worst.accuracy:.1f} %"
    tied = "" if proper else f"; {_TIED}"
    return proper, f"with {worst.solver} instead of {trained.solver}, {said}{why}{tied}"


def _counted(row: SolverRow, limit: float) -> tuple[bool, str]:
    """By the interval of the share of predictions that stay; where the limit lies within it, by the margins."""
    low, high, safe = row.agreement_low or 0.0, row.agreement_high or 0.0, row.safe or 0.0
    if low >= limit or high < limit:
        return low >= limit, ""
    proper = safe >= MOST
    by = f"{safe:.0f} % of the predictions are safe by their margins (at least {MOST:g} % must be)"
    return (
        proper,
        f"; with so few predictions the 95 % interval ({low:.1f} to {high:.1f} %) is wide, so margins decide: {by}",
    )
