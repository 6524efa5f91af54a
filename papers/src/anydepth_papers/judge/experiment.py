"""What an experiment is: settings for every scale, and a function from a study to findings."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from anydepth_papers.judge.rules import Judgement

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from anydepth_papers.judge.study import Study

SCALES = ("smoke", "cpu", "paper")
"""Seconds, to see that it works; what two cores can do; the paper's own size."""
PAPERS = {"C": "ContinuousNet", "P": "Proper ODEs", "S": "Stateful ODE-Nets", "A": "ANODEV2", "ours": "anydepth"}
"""Whose claims there are; those of one paper are corrected together."""


@dataclass(frozen=True)
class Claim:
    """What a paper says, where, and its figure."""

    sentence: str
    source: str
    """Begins with the letter of the paper, or with "ours"."""
    paper: str = ""

    def __post_init__(self) -> None:
        if self.family not in PAPERS:
            raise ValueError(f"the source of a claim begins with one of {', '.join(PAPERS)}, got {self.source!r}")

    @property
    def family(self) -> str:
        """Whose claim it is."""
        return self.source.replace(",", " ").split()[0]


@dataclass(frozen=True)
class ClaimVerdict:
    """A claim, what was found in words, and what the rule says of it."""

    claim: Claim
    ours: str
    judgement: Judgement

    def describe(self) -> dict[str, Any]:
        claim = self.claim
        told = {"claim": claim.sentence, "source": claim.source, "family": claim.family, "paper": claim.paper}
        return told | {"ours": self.ours} | self.judgement.describe()


@dataclass(frozen=True)
class Change:
    """A setting or a rule that was changed after figures had been seen."""

    date: str
    what: str
    why: str
    before: str
    """The figures and the verdict before it."""

    def describe(self) -> dict[str, str]:
        return asdict(self)


@dataclass(frozen=True)
class Findings:
    """A table, verdicts, and a figure to be drawn."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    verdicts: tuple[ClaimVerdict, ...]
    draw: "Callable[[], Figure] | None"
    """None: there is nothing to draw yet."""
    notes: tuple[str, ...] = ()
    """Short sentences; printed as a list."""


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
