"""Studies in a folder of evidence, with the claims of each paper judged together."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anydepth import artifact
from anydepth_papers.changes import CHANGES
from anydepth_papers.judge.experiment import PAPERS
from anydepth_papers.judge.rules import Judgement, corrected

RESULT = "result.json"
WORDS = ("holds", "does not hold", "undecided", "not run")


@dataclass(frozen=True)
class Entry:
    """A study in the ledger."""

    result: dict[str, Any]
    figure: Path | None = None

    @property
    def name(self) -> str:
        return self.result["name"]

    @property
    def is_earlier(self) -> bool:
        """Judged by rules that are no longer in force: its verdicts do not stand."""
        return any("kind" not in verdict for verdict in self.result["verdicts"])

    @property
    def verdicts(self) -> list[dict[str, Any]]:
        """By the present rules."""
        if not self.is_earlier:
            return self.result["verdicts"]
        return [v | {"family": _family(v["source"]), "verdict": "not run"} for v in self.result["verdicts"]]

    @property
    def home(self) -> str:
        """The paper that the study is about."""
        return next((letter for letter, name in PAPERS.items() if self.result["paper"].startswith(name)), "ours")

    @property
    def changes(self) -> list[dict[str, str]]:
        return [change.describe() for change in CHANGES.get(self.name, ())]


def _family(source: str) -> str:
    """Whose claim it is; sources of earlier results were not checked."""
    first = source.replace(",", " ").replace(";", " ").split()[0]
    return first if first in PAPERS else "ours"


def entries(evidence: Path) -> list[Entry]:
    """All results, with Holm's correction over the claims of each paper."""
    found = [
        Entry(artifact.read_json(path), next(path.parent.glob("figure.*"), None))
        for path in sorted(evidence.glob(f"*/{RESULT}"))
    ]
    for family in PAPERS:
        _correct([v for entry in found if not entry.is_earlier for v in entry.verdicts if v["family"] == family])
    return found


def _correct(verdicts: list[dict[str, Any]]) -> None:
    """In place: a verdict that does not survive the correction becomes undecided, and says so."""
    for verdict, judgement in zip(verdicts, corrected([_judgement(v) for v in verdicts]), strict=True):
        verdict |= {"verdict": judgement.word, "figures": judgement.text}


def _judgement(verdict: dict[str, Any]) -> Judgement:
    holds = {"holds": True, "does not hold": False}.get(verdict["verdict"])
    return Judgement(verdict["kind"], holds, verdict["figures"], verdict["p"], verdict["verdict"] != "not run")


def counts(verdicts: list[dict[str, Any]]) -> dict[str, int]:
    """How many hold, do not hold, are undecided and were not run."""
    words = [verdict["verdict"] for verdict in verdicts]
    return {word: words.count(word) for word in WORDS}


def counted(verdicts: list[dict[str, Any]]) -> str:
    """The same in words."""
    told = ", ".join(f"{number} {_many(word, number)}" for word, number in counts(verdicts).items() if number)
    return f"{len(verdicts)} claim{'s' * (len(verdicts) != 1)}{f': {told}' if told else ''}"


def _many(word: str, number: int) -> str:
    return word if number == 1 else {"holds": "hold", "does not hold": "do not hold"}.get(word, word)
