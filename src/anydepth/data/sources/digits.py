"""scikit-learn's bundled digits: 1,797 grey images of 8 x 8 pixels, 10 classes."""

from typing import Any

import numpy as np

from anydepth.data.images import Images
from anydepth.data.source import SOURCES, Part, Source, no_such_part
from anydepth.extras import demand

_SPLIT_SEED = 2026
_TEST_SHARE = 0.3


@SOURCES.register("digits")
class Digits(Source):
    """Bundled: 1,797 handwritten digits of 8 x 8 pixels; 1,257 to train on, 540 to test on."""

    def read(self, part: Part) -> Images:
        """Always the same split, each class in proportion."""
        if part == "validation":
            raise no_such_part("digits", part)
        demand("the dataset 'digits'", "sklearn")
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split

        bunch: Any = load_digits()
        pixels = np.asarray(bunch.images).astype(np.uint8)[:, None]
        classes = np.asarray(bunch.target, dtype=np.int64)
        places = np.arange(len(classes))
        train, test = train_test_split(places, test_size=_TEST_SHARE, random_state=_SPLIT_SEED, stratify=classes)
        chosen = train if part == "train" else test
        return Images(pixels[chosen], classes[chosen], tuple(map(str, range(10))))
