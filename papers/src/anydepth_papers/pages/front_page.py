"""The overview of the evidence: counts per paper, the ten claims that matter most, and how claims are judged."""

from dataclasses import dataclass
from typing import Any

from anydepth_papers.judge.experiment import PAPERS
from anydepth_papers.judge.wording import RULES
from anydepth_papers.pages.entries import WORDS, Entry, counted, counts
from anydepth_papers.pages.section import row, table_head

PAGES = {"C": "continuousnet.md", "P": "proper-odes.md", "S": "stateful.md", "A": "anodev2.md", "ours": "ours.md"}

_HEAD = """# Evidence

What four papers claim, and what experiments with this code show. Every section names the command that produced its
figures, with seeds, machine and date. `make evidence` writes these pages from `papers/evidence/`.

The rules for verdicts changed on 18 November 2026. A study that has not been run since counts as not run: its earlier
figures are shown, but they support no verdict. Verdicts that changed are [listed with the reason](changed-verdicts.md).

C, P, S and A stand for the four papers: ContinuousNet, Proper ODEs, Stateful ODE-Nets and ANODEV2. Words such as hats,
size and step are in the glossary of the documentation.
"""
_JUDGED = """## How claims are judged

Every claim has one kind, which decides the statistical test. Kind and margin are fixed before the study runs. The code
is `papers/src/anydepth_papers/judge/rules.py`.
"""
_MORE = """- Intervals over seeds are Student's t intervals: paired if the runs of one seed share initial weights or the
  order of their data, else Welch's.
- The claims of one paper are corrected together by Holm's method at 5 %. A verdict that does not survive the correction
  becomes undecided, and says so. The p shown is the one before the correction. Claims of the kind *computed* have no p
  and are not counted. As all judged claims count, a verdict may become undecided when more studies run.
- A difference within noise is undecided; so is one with too few seeds. Smoke runs decide nothing.
- A verdict holds for the data, networks and scale of its study, which its section names. It says nothing about the
  paper's own size, unless the study ran at that size.
- Results at other depths, sizes and solvers are shown twice: as they are, and with batch statistics estimated again.
  Networks without batch statistics have the first only.
- A claim about other depths of an image network or a tagger decides something only if the network is more than 5
  points above one of depth 1 trained from scratch, where the study has that control: else it does not use its depth.
- Changes of settings or rules that were made after figures had been seen are listed with every study.
"""


@dataclass(frozen=True)
class Headline:
    """A claim that matters, and where it is judged: claims of these studies that have one of these words."""

    claim: str
    studies: tuple[str, ...]
    words: tuple[str, ...] = ()

    def picks(self, entry: Entry, verdict: dict[str, Any]) -> bool:
        sentence = verdict["claim"].lower()
        return entry.name in self.studies and (not self.words or any(word in sentence for word in self.words))


HEADLINES = (
    Headline("One net, run at every depth, against a net for each budget and elastic ResNets (ours)", ("one-net",)),
    Headline("Other solvers and fewer steps after training (C Table 1a, Fig 9)", ("solvers",)),
    Headline("Refinement saves time at no loss of accuracy (C Fig 7)", ("refinement",)),
    Headline("RK4 and refinement give smooth weights (C Fig 8, S Fig 3)", ("weights", "schemes-compress")),
    Headline(
        "Half the functions, half the steps without data (S Tables 2-4, Fig 4)",
        ("compression", "mnist", "basis-schedule"),
        ("half", "halved", "basis"),
    ),
    Headline(
        "Projection helps shortening (S section 7.3)",
        ("compression", "mnist", "tagging"),
        ("shorten", "fewer steps", "k = n"),
    ),
    Headline("Evolving weights help (A Tables 1, 2)", ("coupled",), ("evolve", "evolving", "configuration")),
    Headline(
        "Exact gradients against the reverse-time adjoint (A Table 4; C: N >= 3M)",
        ("coupled", "adjoint-steps"),
        ("adjoint", "gradients"),
    ),
    Headline("Where a net becomes an ODE (P Figs 3, 4, 17, 18)", ("proper-grid", "spheres")),
    Headline("Step control while training (P Table 1)", ("adaption", "adaption-full")),
)


def link(entry: Entry) -> str:
    return f"[{entry.name}]({PAGES[entry.home]}#{entry.name})"


def overview(found: list[Entry]) -> str:
    every = [verdict for entry in found for verdict in entry.verdicts]
    lines = [
        _HEAD,
        "## The ten claims that matter most",
        "",
        *table_head("", "claim", "studies", "hold", "do not hold", "undecided", "not run"),
        *(_headline_row(number, headline, found) for number, headline in enumerate(HEADLINES, 1)),
        "",
        "## All claims",
        "",
        *table_head("paper", "claims", "hold", "do not hold", "undecided", "not run"),
        *(_paper_row(paper, [v for v in every if v["family"] == paper]) for paper in PAPERS),
        row("all", str(len(every)), *(str(counts(every)[word]) for word in WORDS)),
        "",
        *_headline_details(found),
        _JUDGED,
        *(f"- *{kind}*: {rule}" for kind, rule in RULES.items() if kind not in ("undecided", "not run")),
        _MORE,
        *_studies(found),
    ]
    return "\n".join(lines)


def _paper_row(paper: str, verdicts: list[dict[str, Any]]) -> str:
    told = f"[{PAPERS[paper]}]({PAGES[paper]})" if paper != "ours" else f"[our own claims]({PAGES[paper]})"
    return row(told, str(len(verdicts)), *(str(counts(verdicts)[word]) for word in WORDS))


def _picked(headline: Headline, found: list[Entry]) -> list[tuple[Entry, dict[str, Any]]]:
    return [(entry, v) for entry in found for v in entry.verdicts if headline.picks(entry, v)]


def _headline_row(number: int, headline: Headline, found: list[Entry]) -> str:
    """Studies without any result are named without a link."""
    verdicts = [verdict for _, verdict in _picked(headline, found)]
    known = {entry.name: entry for entry in found}
    studies = ", ".join(link(known[name]) if name in known else f"{name} (no result yet)" for name in headline.studies)
    return row(str(number), headline.claim, studies, *(str(counts(verdicts)[word]) for word in WORDS))


def _headline_details(found: list[Entry]) -> list[str]:
    """The verdicts behind the ten, where any was made."""
    lines = []
    for number, headline in enumerate(HEADLINES, 1):
        judged = [(entry, v) for entry, v in _picked(headline, found) if v["verdict"] != "not run"]
        lines += [f"{number}. {headline.claim}:" for _ in judged[:1]]
        lines += [f"   - **{v['verdict']}**: {v['claim']} ({link(entry)})" for entry, v in judged]
    return ["## Verdicts on the ten", "", *lines, ""] if lines else []


def _studies(found: list[Entry]) -> list[str]:
    """All studies, with what became of their claims."""
    rows = []
    for entry in sorted(found, key=lambda e: (list(PAPERS).index(e.home), e.name)):
        state = "not run under the current rules" if entry.is_earlier else counted(entry.verdicts)
        rows.append(f"- {link(entry)}: {entry.result['title']}; {state}.")
    return ["## Studies", "", *rows, ""]
