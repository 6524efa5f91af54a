"""The soak itself: it counts failures, goes on where it was stopped, and its fuzzer finds what is there to be found."""

import pytest

from soak.fuzz import fuzz
from soak.ledger import Ledger, Part, attempt, put_table, table


def soaked(part, path, share=1.0, again=False, most=100):
    """Run the chunks that are missing, at most so many; which ones were run."""
    ledger, ran = Ledger(path), []
    for number, tries in part.chunks(share):
        if not ledger.is_done(part, number, tries, again) and len(ran) < most:
            ledger.add(attempt(part, number, tries, path.parent))
            ran.append((number, tries))
    return ran


def test_a_stopped_soak_goes_on_and_repeats_what_failed_if_asked(tmp_path):
    broken = {2}

    def run(number, _tries, _work):
        assert number not in broken, "on purpose"

    part, path = Part("made up", "F0", 25, 10, run), tmp_path / "ledger.jsonl"
    assert soaked(part, path, most=1) == [(0, 10)]
    assert soaked(part, path) == [(1, 10), (2, 5)]
    assert soaked(part, path) == []
    assert "| F0 | made up | 25 tries | 1 |" in table([part], Ledger(path))
    assert "on purpose" in Ledger(path).of(part)[2]["failure"]
    broken.clear()
    assert soaked(part, path, again=True) == [(2, 5)]
    assert "| F0 | made up | 25 tries | 0 |" in table([part], Ledger(path))


def test_a_share_is_not_taken_for_the_whole(tmp_path):
    part, path = Part("made up", "F0", 100, 10, lambda *_: None), tmp_path / "ledger.jsonl"
    assert soaked(part, path, share=0.05) == [(0, 5)]
    assert "5 of 100 tries" in table([part], Ledger(path))
    assert len(soaked(part, path)) == 10


def test_the_table_is_put_between_the_marks(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- soak: begin -->\nold\n<!-- soak: end -->\nafter\n")
    put_table(page, "new")
    assert page.read_text() == "before\n<!-- soak: begin -->\n\nnew\n\n<!-- soak: end -->\nafter\n"


def test_the_fuzzer_finds_an_error_that_is_not_declared():
    from anydepth.artifact.reading import parse_json
    from anydepth.errors import ModelFileError

    def reader(content):
        values = parse_json(content, "file")
        if values.get("size") == -1:
            raise ZeroDivisionError

    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        fuzz(0, [b'{"size": 3, "name": "a"}'], reader, (ModelFileError,), 20.0)
