"""The ledger: pages that are up to date, one correction per paper, earlier results, and all figures of the papers."""

import json
import re
from pathlib import Path

import pytest

from anydepth.artifact import write_json
from anydepth_papers.changes import CHANGES
from anydepth_papers.judge.experiment import Claim, ClaimVerdict
from anydepth_papers.judge.rules import Judgement, computed, not_run
from anydepth_papers.pages.changed import changed_page
from anydepth_papers.pages.coverage import COVERAGE, FIGURES, REQUIREMENTS, TABLES
from anydepth_papers.pages.entries import counted, counts, entries
from anydepth_papers.pages.figure_files import MOST_BYTES
from anydepth_papers.pages.front_page import HEADLINES, PAGES
from anydepth_papers.pages.ledger import pages
from anydepth_papers.pages.renamed import RENAMED

ROOT = Path(__file__).parent.parent
EVIDENCE, DOCS = ROOT / "evidence", ROOT / "docs"


def test_the_pages_in_the_docs_are_those_of_the_evidence():
    made = pages(EVIDENCE, DOCS)
    assert {path.name for path in DOCS.iterdir()} == set(made)
    for name, text in made.items():
        assert (DOCS / name).read_text() == text, f"{name}: run make evidence"


def test_links_on_the_pages_lead_somewhere():
    for page in DOCS.iterdir():
        for target, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", page.read_text()):
            path = (DOCS / target) if target else page
            assert path.exists(), f"{page.name}: {target}"
            headings = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE) if anchor else []
            assert not anchor or anchor in {heading.lower().replace(" ", "-") for heading in headings}


def test_figures_in_the_repository_are_small():
    assert all(path.stat().st_size <= MOST_BYTES for path in EVIDENCE.glob("*/figure.*"))


def _result(name, *verdicts, paper="ContinuousNet, Fig 1"):
    return {
        "name": name,
        "title": "a | title",
        "paper": paper,
        "scale": "cpu",
        "seeds": [0, 1],
        "command": f"anydepth reproduce {name}",
        "date": "2026-11-18",
        "seconds": 60.0,
        "machine": "m",
        "versions": {"torch": "2"},
        "code": {"commit": "0123456789abcdef", "is_changed": False},
        "columns": ["a", "b"],
        "rows": [["x", 1.23456], [None, 1]],
        "verdicts": list(verdicts),
        "notes": ["First note."],
        "changes": [],
    }


def _verdict(sentence, judgement, source="C Fig 1"):
    return ClaimVerdict(Claim(sentence, source, "1 %"), "2 %", judgement).describe()


def _better(p: float, holds: bool | None = True):
    return Judgement("better", holds, "+1 points", p)


def _kept(folder, *results):
    for result in results:
        write_json(folder / result["name"] / "result.json", result)
    return folder


def test_a_page_has_every_study_with_verdicts_data_notes_and_figure(tmp_path):
    _kept(tmp_path, _result("one", _verdict("it | grows", _better(0.01)), _verdict("so", not_run("waiting"))))
    (tmp_path / "one" / "figure.svg").write_text("<svg/>")
    text = pages(tmp_path, tmp_path / "docs")["continuousnet.md"]
    assert "![a | title](../one/figure.svg)" in text
    assert r"| 1 | it \| grows | C Fig 1 | better | **holds** |" in text
    assert "1. Paper: 1 %. Ours: 2 %. Rule: +1 points. p = 0.01." in text
    assert "| x | 1.235 |\n| - | 1 |" in text
    assert "- First note." in text
    assert "commit 0123456789" in text
    assert "2 claims: 1 holds, 1 not run" in text
    assert "2. Paper: 1 %. Ours: 2 %. Rule: waiting.\n" in text


def test_tiny_chances_are_not_told_apart(tmp_path):
    text = pages(_kept(tmp_path, _result("one", _verdict("so", _better(0.0)))), tmp_path)["continuousnet.md"]
    assert "p < 1e-06." in text


def test_changes_are_printed_with_their_study(tmp_path):
    text = pages(_kept(tmp_path, _result("crossings", paper="Proper ODEs, Fig 1")), tmp_path)["proper-odes.md"]
    assert all(change.before in text for change in CHANGES["crossings"])
    assert "ratio 60" in text
    assert "ratio 93" in text
    assert "ratio 189" in text


def test_claims_of_one_paper_are_corrected_together(tmp_path):
    """Of p = 0.001, 0.02 and 0.04 the first survives alone: 3 x 0.001, then 2 x 0.02 does, then 0.04 does."""
    fine = [_verdict(str(p), _better(p)) for p in (0.001, 0.02, 0.04)]
    found = entries(_kept(tmp_path / "fine", _result("one", *fine[:2]), _result("two", fine[2])))
    assert [v["verdict"] for entry in found for v in entry.verdicts] == ["holds"] * 3
    crowd = [_verdict(str(p), _better(p)) for p in (0.001, 0.02, 0.04)]
    others = [_verdict(f"noise {i}", _better(0.5, None)) for i in range(3)]
    found = entries(_kept(tmp_path / "crowd", _result("one", *crowd, *others)))
    assert [v["verdict"] for v in found[0].verdicts[:3]] == ["holds", "undecided", "undecided"]
    assert "holds by itself, not after the correction for 6 claims" in found[0].verdicts[1]["figures"]


def test_the_correction_leaves_other_papers_and_claims_without_chance_alone(tmp_path):
    crowd = [_verdict(f"noise {i}", _better(0.5, None)) for i in range(9)]
    alone = _verdict("alone", _better(0.04, False), "P Fig 1")
    sure = _verdict("sure", computed(True, "equal"))
    verdicts = entries(_kept(tmp_path, _result("one", *crowd, alone, sure)))[0].verdicts
    assert [v["verdict"] for v in verdicts[-2:]] == ["does not hold", "holds"]


def _earlier(name, verdict="holds"):
    claim = {"claim": "it grows", "source": "anydepth", "paper": "", "ours": "by 7.25 points", "verdict": verdict}
    return _result(name, claim) | {"notes": "old notes"}


def test_a_result_of_earlier_rules_has_no_verdict_now(tmp_path):
    made = pages(_kept(tmp_path, _earlier("old")), tmp_path)
    text = made["continuousnet.md"]
    assert "**holds**" not in text
    assert "**Not run under the current rules.**" in text
    assert "earlier: holds" in text
    assert "Earlier figures: by 7.25 points." in text
    assert "| [our own claims](ours.md) | 1 | 0 | 0 | 0 | 1 |" in made["README.md"]


def test_counts():
    verdicts = [_verdict("a", _better(0.01)), _verdict("b", not_run("cost")), _verdict("c", _better(0.5, None))]
    assert counts(verdicts) == {"holds": 1, "does not hold": 0, "undecided": 1, "not run": 1}
    assert counted(verdicts) == "3 claims: 1 holds, 1 undecided, 1 not run"
    assert counted([]) == "0 claims"
    assert counted(verdicts[:1] * 2) == "2 claims: 2 hold"


def test_changed_verdicts_are_listed_and_others_are_not(tmp_path):
    claims = ("same", "changed", "gone")
    before = {name: {"verdicts": [{"claim": claim, "verdict": "holds"} for claim in claims]} for name in ("new", "old")}
    judged = _result("new", _verdict("same", _better(0.01)), _verdict("changed", _better(0.5, None)))
    text = changed_page(entries(_kept(tmp_path, judged, _earlier("old"))), before)
    assert "5 of 6 verdicts changed, 3 of them because their study has not been run again yet." in text
    assert "| changed | holds | undecided | better: +1 points |" in text
    assert "| gone | holds | - | restated" in text
    assert text.count("| holds | not run |") == 3
    assert "| same | holds | undecided" not in text


def test_the_verdicts_before_are_all_157():
    before = json.loads((EVIDENCE / "before.json").read_text())
    words = [verdict["verdict"] for study in before.values() for verdict in study["verdicts"]]
    assert [words.count(word) for word in ("holds", "does not hold", "undecided")] == [94, 19, 44]


def test_renamed_claims_were_there_before_and_are_there_now():
    before = json.loads((EVIDENCE / "before.json").read_text())
    for study, sentences in RENAMED.items():
        assert set(sentences) <= {verdict["claim"] for verdict in before[study]["verdicts"]}
    for entry in entries(EVIDENCE):
        if not entry.is_earlier:
            now = {verdict["claim"] for verdict in entry.verdicts} | {""}
            assert set(RENAMED.get(entry.name, {}).values()) <= now, entry.name


@pytest.mark.parametrize("paper", FIGURES)
def test_every_figure_and_table_of_the_papers_has_a_row(paper):
    names = {item.name for item in COVERAGE[paper]}
    numbers = {f"Fig {n}" for n in range(1, FIGURES[paper] + 1)} | {f"Table {n}" for n in range(1, TABLES[paper] + 1)}
    assert numbers == {name for name in names if name.startswith(("Fig", "Table"))}


@pytest.mark.parametrize("paper", REQUIREMENTS)
def test_every_requirement_of_the_papers_has_a_row(paper):
    names = {item.name for item in COVERAGE[paper]}
    numbers = {f"{paper}.{n}" for n in range(1, REQUIREMENTS[paper] + 1)}
    assert numbers == {name for name in names if name.startswith(f"{paper}.")}


@pytest.mark.parametrize("item", [item for items in COVERAGE.values() for item in items], ids=lambda i: i.name)
def test_every_item_has_a_study_a_test_or_a_reason(item):
    assert item.studies or item.tests or item.reason
    places = (ROOT / "tests", ROOT.parent / "tests")
    assert all(any(found for place in places for found in place.rglob(name)) for name in item.tests)


def test_ten_claims_matter_most_and_come_first(tmp_path):
    assert len(HEADLINES) == 10
    front = pages(_kept(tmp_path, _result("solvers", _verdict("it grows", _better(0.01)))), tmp_path)["README.md"]
    titles = re.findall("^## (.*)$", front, re.MULTILINE)
    assert titles[:3] == ["The ten claims that matter most", "All claims", "Verdicts on the ten"]
    assert "   - **holds**: it grows ([solvers](continuousnet.md#solvers))" in front
    assert set(PAGES) == set(COVERAGE)
