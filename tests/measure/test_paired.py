"""How sure a drop is: bounds from examples that a form and its source both answer."""

from math import inf, sqrt
from statistics import NormalDist

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anydepth.data.table import IGNORED, Batch
from anydepth.measure.form_meter import FormMeter
from anydepth.measure.paired import Answers, Errors, errors_of

CONFIDENCES = st.sampled_from([0.6, 0.9, 0.95, 0.975, 0.999])


@st.composite
def answers(draw):
    lost, gained = draw(st.integers(0, 300)), draw(st.integers(0, 300))
    return Answers(lost + gained + draw(st.integers(1, 10_000)), lost, gained)


@given(answers(), CONFIDENCES)
def test_bound_is_above_the_measured_drop_and_no_more_than_everything(found, confidence):
    bound = found.upper(confidence)
    assert 100 * (found.lost - found.gained) / found.count < bound <= 100
    assert bound <= found.upper((1 + confidence) / 2)


@given(answers(), CONFIDENCES)
def test_bound_rises_with_what_is_lost_and_with_what_is_exchanged(found, confidence):
    bound = found.upper(confidence)
    assert Answers(found.count, found.lost + 1, found.gained).upper(confidence) > bound
    if found.lost >= found.gained:
        more = Answers(found.count + 2, found.lost + 1, found.gained + 1)
        assert more.upper(confidence) > Answers(found.count + 2, found.lost, found.gained).upper(confidence)


@given(st.integers(1, 100_000), CONFIDENCES)
def test_same_answers_have_the_least_bound_which_is_wilsons(count, confidence):
    square = NormalDist().inv_cdf(confidence) ** 2
    bound = Answers(count, 0, 0).upper(confidence)
    assert bound == pytest.approx(100 * square / (count + square), abs=1e-12)
    assert bound < Answers(count + 1, 1, 1).upper(confidence)


def test_few_examples_make_nothing_sure():
    assert Answers(0, 0, 0).upper(0.95) == 100
    assert Answers(1, 0, 0).upper(0.95) > 70
    assert Answers(20, 0, 0).upper(0.95) > 10
    assert Errors(1, 1.0, 0.0).upper(0.95) == inf


@pytest.mark.parametrize("kind", ["answers", "errors"])
def test_margin_shrinks_with_the_root_of_the_examples(kind):
    def margin(times):
        if kind == "answers":
            return Answers(4000 * times, 100 * times, 60 * times).upper(0.95) - 1
        source, form = [1.0, 2.0, 3.0, 4.0] * 100 * times, [1.5, 1.5, 3.5, 4.0] * 100 * times
        found = errors_of(source, form)
        return found.upper(0.95) - 100 * (sqrt(found.ratio) - 1)

    assert margin(1) / margin(4) == pytest.approx(2, rel=0.05)  # the rest is of the order of 1 / examples
    assert margin(16) / margin(64) == pytest.approx(2, rel=0.02)


@pytest.mark.parametrize("count", [20, 100, 400, 2000])
@pytest.mark.parametrize("shares", [(0.01, 0.0), (0.01, 0.01), (0.03, 0.02), (0.1, 0.05), (0.3, 0.1), (0.02, 0.06)])
@pytest.mark.parametrize("confidence", [0.95, 0.975])
def test_bound_covers_the_true_drop(count, shares, confidence):
    draws = 4000
    lost, gained, _ = np.random.default_rng(0).multinomial(count, [*shares, 1 - sum(shares)], draws).T
    pairs, times = np.unique(np.stack([lost, gained]), axis=1, return_counts=True)
    bounds = np.array([Answers(count, *pair).upper(confidence) for pair in pairs.T.tolist()])
    covered = times[bounds >= 100 * (shares[0] - shares[1])].sum() / draws
    assert covered >= confidence - 0.02  # counts are whole numbers, so that no bound is exact


@pytest.mark.parametrize("count", [20, 200])
def test_bound_of_errors_covers_the_true_ratio(count):
    draw = np.random.default_rng(0)
    covered = 0
    for _ in range(1000):
        shared, own = draw.normal(size=(2, count))
        found = errors_of((shared**2).tolist(), ((shared + 0.5 * own) ** 2).tolist())
        covered += found.upper(0.95) >= 100 * (sqrt(1.25) - 1)
    assert covered >= 920  # ratios of squares are skewed


@given(st.lists(st.tuples(st.floats(0, 9), st.floats(0, 9)), min_size=2, max_size=20))
def test_errors_are_those_of_the_sums(pairs):
    source, form = ([pair[side] for pair in pairs] for side in (0, 1))
    found = errors_of(source, form)
    if found is None:
        assert sum(source) == 0
        return
    assert found.ratio == pytest.approx(sum(form) / sum(source))
    assert found.deviation >= 0
    assert found.upper(0.95) >= 100 * (sqrt(found.ratio) - 1) - 1e-9
    same = errors_of(source, source)
    assert (same.ratio, same.deviation, same.upper(0.95)) == (1, 0, 0)


# What a bench counts


class Said(torch.nn.Module):
    """Says what it is given, whatever comes in."""

    def __init__(self, outputs):
        super().__init__()
        self.outputs, self.weight = outputs, torch.nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return self.outputs


def bench(source, targets, classes=True):
    return FormMeter(Said(source), (torch.zeros(1, 1),), [Batch((torch.zeros(len(source), 1),), targets)], classes)


def test_answers_are_counted_where_labels_count():
    source, form = torch.eye(3)[[0, 1, 2, 0, 1]], torch.eye(3)[[0, 2, 1, 1, 2]]
    labels = torch.tensor([0, 1, 1, 2, IGNORED])
    assert bench(source, labels).paired([form]) == Answers(4, 1, 1)
    assert bench(source, torch.empty(0)).paired([form]) == Answers(5, 4, 0)


def test_words_of_a_sentence_count_as_one_together():
    source, form = (torch.eye(3)[torch.tensor(said)] for said in ([[0, 1, 2], [0, 0, 0]], [[0, 1, 1], [1, 1, 0]]))
    labels = torch.tensor([[0, 1, 2], [0, 1, IGNORED]])
    assert bench(source, labels).paired([form]) == Answers(2, 2 * 2 / 5, 2 * 1 / 5)
    nothing = torch.full((2, 3), IGNORED)
    assert bench(source, nothing).paired([form]) is None


def test_numbers_are_compared_by_their_squares_and_outputs_without_truth_not_at_all():
    source, form, truth = torch.ones(4, 2), torch.tensor([[2.0, 1], [1, 0], [0, 0], [1, 1]]), torch.zeros(4, 2)
    assert bench(source, truth, False).paired([form]) == errors_of([2.0, 2, 2, 2], [5.0, 1, 0, 2])
    assert bench(source, torch.empty(0), False).paired([form]) is None
