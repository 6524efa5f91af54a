"""What people see when they print a summary, a verdict or a sweep."""

import torch

import anydepth as ad
from anydepth.printing import html_table, text_table


def net():
    return ad.build("flow", features=2, classes=2, basis="linear", size=3, steps=2, scheme="midpoint")


def test_columns_are_aligned():
    lines = text_table(("name", "count"), [("a", "1"), ("long name", "1,000")]).splitlines()
    assert lines == ["name       count", "a              1", "long name  1,000"]


def test_html_is_escaped():
    found = html_table(("<b>",), [("a & b",)], above="<script>")
    assert "<b>" not in found
    assert "<script>" not in found
    assert "a &amp; b" in found


def test_a_summary_prints_its_blocks():
    found = ad.summary(net())
    assert "linear:3" in str(found)
    assert "<table>" in found._repr_html_()
    assert len(str(found).splitlines()) == 4


def test_a_verdict_prints_its_word_first():
    verdict = ad.check(net(), [torch.randn(8, 2)])
    text = str(verdict)
    assert text.startswith(("proper: ", "not proper: "))
    assert len(text.splitlines()) == 2 + len(verdict.table) + len(verdict.coarser)
    assert verdict._repr_html_().count("<tr>") == 1 + len(verdict.table) + len(verdict.coarser)


def test_a_sweep_prints_its_front_and_the_source():
    found = ad.sweep(net(), [torch.randn(8, 2)], rounds=1, sizes=[1], schemes=["euler"])
    lines = str(found).splitlines()
    assert lines[1].split()[:2] == ["form", found.metric]
    assert any(line.startswith("linear:3, midpoint x 2 *") for line in lines)
    assert "<table>" in found._repr_html_()
