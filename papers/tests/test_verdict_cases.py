"""Models whose verdict is known beforehand are judged right."""

import pytest

import anydepth as ad
from anydepth_papers.cases.closed import CLOSED
from anydepth_papers.cases.trained import TRAINED

QUICK = ("intervals, Euler x 2", "intervals, ResNet of 4 layers", "intervals, a field outside, Euler x 3")


@pytest.mark.parametrize("case", [*CLOSED, *(c for c in TRAINED if c.name in QUICK)], ids=lambda case: case.name)
def test_known_models_are_judged_right(case):
    known = case.make(0)
    verdict = ad.check(known.model, known.batches, **known.settings)
    assert verdict.proper is case.proper, verdict.reason
    assert ("tied to its solver" in verdict.reason) is not case.proper


def test_there_are_enough_models_of_both_kinds():
    cases = (*CLOSED, *TRAINED)
    assert len({case.name for case in cases}) == len(cases)
    assert sum(case.proper for case in cases) >= 10
    assert sum(not case.proper for case in cases) >= 10


def test_predictions_that_survive_by_their_margins_are_called_so():
    case = next(case for case in CLOSED if "margins" in case.name)
    known = case.make(0)
    verdict = ad.check(known.model, known.batches, **known.settings)
    assert not verdict.settled
    assert verdict.critical_step is None
    assert "survive by their margins" in verdict.reason
    assert "still change" in verdict.reason


def test_numbers_that_do_not_settle_are_not_proper_without_classes():
    case = next(case for case in CLOSED if "margins" in case.name)
    known = case.make(0)
    assert not ad.check(known.model, known.batches, False, **known.settings).proper
