"""The tagger to beat: every word gets its most frequent tag."""

import pytest

from anydepth.data.sentences import Sentences
from anydepth_papers.studies.frequent_tags import frequent_tag_accuracy


def test_the_tagger_to_beat():
    train = Sentences((("a", "a", "b", "c"), ("a", "d")), (("X", "Y", "Z", "Z"), ("Y", "X")))
    test = Sentences((("a", "b", "new"), ("d", "other")), (("Y", "X", "Z"), ("X", "X")))
    assert frequent_tag_accuracy(train, test) == pytest.approx(100 * 3 / 5)
