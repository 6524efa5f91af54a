"""The rules of verdicts: on both sides of every rule, against independent computations, and on noise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from anydepth_papers.judge import rules
from anydepth_papers.judge.rules import Judgement

WORDS = {True: "holds", False: "does not hold", None: "undecided"}
SEEDS = st.lists(st.floats(-50, 50), min_size=3, max_size=8)


# Both sides


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize(
    ("a", "b", "holds"),
    [
        ((91.0, 91.2, 90.9), (88.0, 88.3, 87.8), True),
        ((88.0, 88.3, 87.8), (91.0, 91.2, 90.9), False),
        ((91.0, 85.0, 90.0), (88.0, 89.0, 84.0), None),
        ((91.0, 91.0), (88.0, 88.0), None),
        ((91.0, float("nan"), 92.0), (88.0, 88.0, 88.0), None),
    ],
)
def test_better(paired, a, b, holds):
    assert rules.better(a, b, paired).holds is holds


def test_pairing_finds_what_a_common_spread_hides():
    a, b = (70.1, 80.2, 90.05), (69.0, 79.1, 89.0)
    assert rules.better(a, b, paired=True).holds is True
    assert rules.better(a, b, paired=False).holds is None


@pytest.mark.parametrize(
    ("differences", "margin", "holds"),
    [
        ((-0.2, 0.1, 0.0, -0.1, 0.2), 1, True),
        ((-3.0, -3.2, -2.9, -3.1, -3.0), 1, False),
        ((-13.1, -2.8, 0.9, -3.5, -1.0), 1, None),  # -3.9 with a standard error of 2.5
        ((-13.1, -2.8, 0.9, -3.5, -1.0), 20, True),
    ],
)
def test_no_worse(differences, margin, holds):
    judged = rules.no_worse(differences, [0.0] * len(differences), margin, paired=True)
    assert judged.holds is holds


@pytest.mark.parametrize(
    ("values", "holds"), [((93.5, 93.6, 93.7), True), ((91.0, 91.2, 91.1), False), ((92.0, 94.9, 93.0), None)]
)
def test_near(values, holds):
    assert rules.near(values, 93.6, 0.5).holds is holds


@pytest.mark.parametrize(
    ("successes", "total", "at_least", "holds"),
    [
        (4, 5, 0.5, None),
        (5, 5, 0.5, None),
        (6, 6, 0.5, True),
        (0, 6, 0.5, False),
        (0, 0, 0.5, None),
        (96, 96, 0.9, True),
    ],
)
def test_proportion(successes, total, at_least, holds):
    assert rules.proportion(successes, total, at_least).holds is holds


def test_four_of_five_is_28_to_99_per_cent():
    assert np.round(100 * np.array(rules.clopper_pearson(4, 5))).tolist() == [28, 99]


@pytest.mark.parametrize(
    ("gained", "lost", "holds"), [(60, 20, True), (20, 60, False), (20, 22, None), (0, 0, None), (6, 0, True)]
)
def test_instance_better(gained, lost, holds):
    assert rules.instance_better(*_answers(gained, lost, 1000)).holds is holds


@pytest.mark.parametrize(
    ("gained", "lost", "margin", "holds"),
    [(20, 30, 1, True), (20, 500, 1, False), (100, 205, 1, None), (0, 0, 0.1, True), (0, 0, 0.01, None)],
)
def test_instance_no_worse(gained, lost, margin, holds):
    assert rules.instance_no_worse(*_answers(gained, lost, 10_000), margin).holds is holds


@pytest.mark.parametrize(
    ("gained", "lost", "better", "no_worse"),
    [(90, 30, True, True), (30, 90, False, None), (40, 42, None, True), (0, 400, False, False), (0, 0, None, True)],
)
def test_instance_in_groups(gained, lost, better, no_worse):
    mine, other = np.reshape(_answers(gained, lost, 5000), (2, 1000, 5)).sum(-1)
    sizes = [5] * 1000
    assert rules.instance_groups_better(mine, other, sizes).holds is better
    assert rules.instance_groups_no_worse(mine, other, sizes, 1.5).holds is no_worse


def test_groups_too_few_or_of_other_lengths():
    assert rules.instance_groups_better([3], [1], [5]).holds is None
    assert rules.instance_groups_no_worse([], [], [], 1).holds is None
    with pytest.raises(ValueError, match="sizes"):
        rules.instance_groups_better([1, 2], [1, 2], [3])


def test_medians_of_five_seeds_decide_nothing_and_of_eight_may():
    assert rules.better_median([1, 2, 3, 4, 5], [0] * 5).holds is None
    assert rules.better_median(list(range(1, 9)), [0] * 8).holds is True
    assert rules.better_median([-x for x in range(1, 9)], [0] * 8).holds is False
    assert rules.better_median([float("nan"), *range(1, 9)], [0] * 9).holds is None
    assert rules.better_median([], []).holds is None


@pytest.mark.parametrize(
    ("differences", "margin", "holds"),
    [
        ((-0.5, 0.2, 0.1, -0.3, 12.0), 1, True),  # one lucky seed does not matter
        ((-5.0, -3.0, -2.0, -4.0, -2.5), 1, False),
        ((-0.5, 0.2, 0.1, -0.3, -45.0), 1, None),  # one that failed does
        ((-0.5, 0.2, 0.1, -0.3), 1, None),
        ((), 1, None),
        ((-0.5, float("nan"), 0.1, -0.3, 0.4), 1, None),
    ],
)
def test_no_worse_in_the_median(differences, margin, holds):
    assert rules.no_worse_median(differences, [0.0] * len(differences), margin).holds is holds


def test_failures():
    assert rules.fewer_failures(0, 10, 9, 10).holds is True
    assert rules.fewer_failures(9, 10, 0, 10).holds is False
    assert rules.fewer_failures(0, 5, 2, 5).holds is None


def _answers(gained, lost, count):
    mine, other = np.zeros((2, count), bool)
    mine[:gained] = True
    other[gained : gained + lost] = True
    return mine.tolist(), other.tolist()


# Against independent computations


@given(SEEDS, st.integers(0, 2**32 - 1))
def test_p_of_better_is_the_t_test(values, seed):
    if np.std(values) < 0.02:
        return
    other = np.random.default_rng(seed).normal(size=len(values))
    for paired in (True, False):
        test = stats.ttest_rel(values, other) if paired else stats.ttest_ind(values, other, equal_var=False)
        if np.isfinite(test.pvalue):
            assert rules.better(values, other.tolist(), paired).p == pytest.approx(test.pvalue, rel=1e-6, abs=1e-12)


@given(SEEDS, st.floats(0.1, 10))
def test_the_interval_decides_near(values, margin):
    judged = rules.near(values, 1.0, margin)
    if np.std(values) < 0.02:
        return
    low, high = stats.t.interval(0.95, len(values) - 1, np.mean(values), stats.sem(values))
    inside, apart = 1 - margin <= low and high <= 1 + margin, high < 1 - margin or low > 1 + margin
    assert judged.holds is (True if inside else False if apart else None)


@given(st.integers(0, 30), st.integers(0, 30))
def test_mcnemar_is_the_binomial_test(gained, lost):
    p = rules.instance_better(*_answers(gained, lost, 100)).p
    assert p == pytest.approx(stats.binomtest(gained, gained + lost).pvalue if gained + lost else 1.0)


@given(st.lists(st.integers(-3, 3), min_size=3, max_size=30))
def test_groups_of_one_size_are_the_t_test(differences):
    if np.std(differences) < 1e-6:
        return
    zeros, sizes = [0] * len(differences), [7] * len(differences)
    p = rules.instance_groups_better(differences, zeros, sizes).p
    assert p == pytest.approx(stats.ttest_1samp(differences, 0).pvalue, rel=1e-6)


@given(st.integers(0, 12), st.integers(0, 12), st.integers(1, 12), st.integers(1, 12))
def test_fisher(a, b, m, n):
    failed, other = min(a, m), min(b, n)
    expected = stats.fisher_exact([[failed, m - failed], [other, n - other]]).pvalue
    assert rules.fewer_failures(failed, m, other, n).p == pytest.approx(expected, rel=1e-6)


@given(st.lists(st.integers(-9, 9).filter(bool), min_size=1, max_size=9, unique_by=abs))
def test_signed_ranks(differences):
    expected = stats.wilcoxon(differences, method="exact").pvalue
    assert rules.better_median(differences, [0] * len(differences)).p == pytest.approx(expected)
    either = [stats.wilcoxon(differences, method="exact", alternative=side).pvalue for side in ("greater", "less")]
    shifted = [difference - 1 for difference in differences]
    assert rules.no_worse_median(shifted, [0] * len(differences), 1).p == pytest.approx(min(either))


@given(st.integers(1, 40), st.data())
def test_clopper_pearson(total, data):
    successes = data.draw(st.integers(0, total))
    expected = stats.binomtest(successes, total).proportion_ci(method="exact")
    assert rules.clopper_pearson(successes, total) == pytest.approx((expected.low, expected.high))


@given(st.integers(0, 20), st.integers(1, 20), st.floats(0.01, 0.99))
def test_p_of_a_proportion_agrees_with_its_interval(successes, total, at_least):
    judged = rules.proportion(min(successes, total), total, at_least)
    assert (judged.holds is not None) == (judged.p <= 0.05) or judged.p == pytest.approx(0.05, abs=1e-6)


# Noise


TRIALS = 4000
MOST = 0.05 + 3 * (0.05 * 0.95 / TRIALS) ** 0.5
"""Three standard deviations of the simulation above 5 %."""


@pytest.mark.parametrize("count", [3, 5, 10])
@pytest.mark.parametrize("paired", [True, False])
def test_noise_is_undecided_at_least_95_times_of_100(count, paired):
    draws = np.random.default_rng(0).normal(80, 2.5, (TRIALS, 2, count))
    decided = [rules.better(a, b, paired).holds is not None for a, b in draws]
    assert np.mean(decided) <= MOST


@pytest.mark.parametrize("count", [3, 5])
def test_a_method_at_the_margin_is_wrongly_judged_at_most_5_times_of_100(count):
    draws = np.random.default_rng(1).normal(0, 2.5, (TRIALS, count))
    zeros = [0.0] * count
    judged = [rules.no_worse(draw - 1, zeros, 1, paired=True).holds for draw in draws]
    assert judged.count(True) / TRIALS <= MOST
    assert judged.count(False) / TRIALS <= MOST


@pytest.mark.parametrize("off", [0.0, 1.0])
def test_a_value_at_the_edge_is_wrongly_judged_at_most_5_times_of_100(off):
    draws = np.random.default_rng(2).normal(90 + off, 0.7, (TRIALS, 5))
    judged = [rules.near(draw, 90, 1).holds for draw in draws]
    wrong = judged.count(True) if off else judged.count(False)
    assert wrong / TRIALS <= MOST


def test_a_net_and_itself_with_noise_are_undecided():
    rng = np.random.default_rng(3)
    flips = rng.random((TRIALS, 2, 400)) < 0.05
    decided = [rules.instance_better(a, b).holds is not None for a, b in flips]
    assert np.mean(decided) <= MOST


def test_answers_that_stand_or_fall_together_are_undecided():
    """Words of one sentence are right or wrong together: by words, noise would be decided in half of the trials."""
    rng = np.random.default_rng(6)
    sizes = rng.integers(1, 30, 300)
    signs = rng.choice([-1, 0, 1], (TRIALS, 300), p=[0.1, 0.8, 0.1])
    decided = [rules.instance_groups_better(sign * sizes, 0 * sizes, sizes).holds is not None for sign in signs]
    assert np.mean(decided) <= MOST


def test_bimodal_noise_at_the_margin_is_wrongly_judged_at_most_5_times_of_100():
    rng = np.random.default_rng(6)
    draws = rng.normal(0, 1, (TRIALS, 8)) + 40 * (rng.random((TRIALS, 8)) < 0.2) * rng.choice([-1, 1], (TRIALS, 8))
    judged = [rules.no_worse_median(draw - 1, [0.0] * 8, 1).holds for draw in draws]
    assert judged.count(True) / TRIALS <= MOST
    assert judged.count(False) / TRIALS <= MOST


def test_a_fair_coin_is_undecided():
    draws = np.random.default_rng(4).binomial(10, 0.5, TRIALS)
    assert np.mean([rules.proportion(int(k), 10, 0.5).holds is not None for k in draws]) <= MOST


def test_noise_in_a_whole_paper_decides_nothing_95_times_of_100():
    rng = np.random.default_rng(5)
    wrong = 0
    for _ in range(600):
        claims = [rules.better(rng.normal(size=3), rng.normal(size=3), paired=True) for _ in range(20)]
        wrong += any(judgement.holds is not None for judgement in rules.corrected(claims))
    assert wrong / 600 <= 0.05 + 3 * (0.05 * 0.95 / 600) ** 0.5


def test_equal_rounded_differences_are_not_certainty():
    a, b = (90.1, 85.1, 80.1), (90.0, 85.0, 80.0)
    assert rules.better(a, b, paired=True).holds is True
    assert rules.better(a, b, paired=True, resolution=0.1).holds is True
    assert rules.better(a, b, paired=True, resolution=0.2).holds is None


# Correction and claims with several parts


def test_holm_keeps_what_is_sure_and_what_no_chance_is_involved_in():
    judged = [Judgement("better", True, "", p) for p in (0.001, 0.02, 0.04)] + [rules.computed(False, "a count")]
    kept = rules.corrected(judged)
    assert [judgement.word for judgement in kept] == ["holds", "holds", "holds", "does not hold"]
    more = [*judged, *(Judgement("better", None, "", 0.5) for _ in range(3))]
    kept = rules.corrected(more)
    assert [judgement.word for judgement in kept[:4]] == ["holds", "undecided", "undecided", "does not hold"]
    assert "holds by itself" in kept[1].text


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_is_between_none_and_bonferroni(chances):
    judged = [Judgement("better", True if p <= 0.05 else None, "", p) for p in chances]
    for p, judgement in zip(chances, rules.corrected(judged), strict=True):
        assert judgement.holds is None or p <= 0.05
        assert judgement.holds or p * len(chances) > 0.05


def test_all_of():
    yes, no, open_ = (Judgement("better", holds, "", 0.01) for holds in (True, False, None))
    assert rules.all_of(yes, yes).holds is True
    assert rules.all_of(yes, no, open_).holds is False
    assert rules.all_of(yes, open_).holds is None
    assert rules.all_of(yes, rules.not_run("cost")).word == "not run"
    assert rules.all_of(yes, rules.computed(True, "")).p == 0.01
    assert rules.all_of(yes, rules.computed(False, "")).p is None


def test_words():
    for holds, word in WORDS.items():
        assert Judgement("better", holds, "").word == word
    assert rules.not_run("cost").describe() == {"kind": "not run", "verdict": "not run", "figures": "cost", "p": None}
    assert rules.undecided("why").word == "undecided"
