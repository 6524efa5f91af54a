"""The papers' nets of full size: sizes, costs, and rules."""

from functools import cache

import pytest

from anydepth.recipes import RECIPES
from anydepth.surgery.resize import compress, refine
from anydepth.surgery.summary import summary
from anydepth.zoo.models.image_network import ImageNetwork
from anydepth_papers.experiments.full_scale import evaluations_of, hours_of, judged, parameters_of
from anydepth_papers.studies.printed import ROWS, Above, Below, Form, Keeps, LosesMore, Near, PrintedRow

FORMS = [row.form for row in ROWS if row.form.recipe in ("stateful-mnist", "stateful-cifar10-deep-fixed")]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_parameters_are_counted_without_growing_the_net(form):
    options = {"image": (1, 28, 28)} if form.config.data.name == "mnist" else {}
    model = ImageNetwork(**options, **form.config.model.options)
    for _ in form.config.refine.at:
        refine(model)
    assert parameters_of(form) == summary(compress(model, **form.options) if form.options else model).parameters


@pytest.mark.parametrize(
    ("form", "count"),
    [
        (Form("continuousnet-cifar10"), 3 * 32 * 4),
        (Form("continuousnet-cifar10", scheme="euler"), 3 * 32),
        (Form("continuousnet-cifar10", scheme="rk4_38", steps=11), 3 * 11 * 4),
        (Form("stateful-cifar10-shallow", size=4, steps=4), 2 * 4 * 4),
        (Form("continuousnet-tiny-imagenet"), 3 * 8 * 2),
    ],
)
def test_evaluations_are_those_of_the_form(form, count):
    assert evaluations_of(form) == count


@cache
def hours(trained):
    """Of one training, whatever is made of the net afterwards."""
    return hours_of(trained.config)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.what)
def test_every_printed_row_names_recipes_and_a_rule(row):
    assert row.form.recipe in RECIPES
    assert row.other is None or row.other.recipe in RECIPES
    assert row.claim.family in "CS"
    assert hours(row.form.trained) > 1


def test_table_1a_and_the_compressed_c2_rows_are_there():
    printed = {(row.source, row.rule.value) for row in ROWS if isinstance(row.rule, Near)}
    assert {("C Table 1a", value) for value in (93.57, 93.84, 93.55, 93.44, 92.28)} <= printed
    assert {("S Table 4", 60.5), ("S Table 5", 48.9)} <= printed


JUDGED = [
    (Near(90, 89.5, 90.5), {"net": [90.0, 90.1, 89.9]}, True),
    (Near(90, 89.5, 90.5), {"net": [92.0, 92.1, 91.9]}, False),
    (Near(90, 89.5, 90.5), {"net": [89.5, 90.6, 90.0]}, None),
    (Below("other"), {"net": [90.0, 90.1, 89.9], "other": [92.0, 92.1, 92.1]}, True),
    (Above("other"), {"net": [90.0, 90.1, 89.9], "other": [92.0, 92.1, 92.1]}, False),
    (Keeps(2.0), {"net": [90.0, 90.1, 89.9]}, True),
    (LosesMore("other"), {"net": [90.0, 90.1, 89.9], "other": [92.0, 92.1, 92.1]}, None),
]


@pytest.mark.parametrize(("rule", "accuracies", "holds"), JUDGED)
def test_printed_rows_are_judged_by_their_rule(rule, accuracies, holds):
    assert (
        judged(PrintedRow("net", "C", Form("net", steps=4), rule), lambda form: accuracies[form.recipe]).holds is holds
    )
