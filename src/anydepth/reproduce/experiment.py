"""What an experiment is: settings for every scale, and a function from a study to findings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from anydepth.reproduce.study import Study

SCALES = ("smoke", "cpu", "paper")
"""Seconds, to see that it works; what two cores can do; the paper's own size."""


@dataclass(frozen=True)
class Claim:
    """What a paper says, where, and its figure."""

    sentence: str
    source: str
    paper: str = ""


@dataclass(frozen=True)
class Verdict:
    """A claim, what was found, and whether it holds; None: it could not be decided at this scale."""

    claim: Claim
    ours: str
    holds: bool | None

    @property
    def word(self) -> str:
        return {True: "holds", False: "does not hold", None: "undecided"}[self.holds]

    def describe(self) -> dict[str, Any]:
        claim = self.claim
        return {
            "claim": claim.sentence,
            "source": claim.source,
            "paper": claim.paper,
            "ours": self.ours,
            "verdict": self.word,
        }


@dataclass(frozen=True)
class Findings:
    """A table, verdicts, and a figure to be drawn."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    verdicts: tuple[Verdict, ...]
    draw: "Callable[[], Figure]"
    notes: str = ""


@dataclass(frozen=True)
class Experiment:
    """One reproduction."""

    title: str
    paper: str
    settings: Mapping[str, Any]
    """By scale."""
    run: "Callable[[Study], Findings]"
    seeds: int = 3
    """How many, by default."""

    @property
    def __doc__(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return f"{self.title} ({self.paper})."
