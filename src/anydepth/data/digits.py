"""scikit-learn's bundled digits: 1,797 grey images of 8 x 8 pixels, 10 classes."""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

_SPLIT_SEED = 2026
_TEST_SHARE = 0.3


class Labelled(NamedTuple):
    """Images (count, channels, height, width) in float32, and their classes."""

    x: Tensor
    y: Tensor


class Split(NamedTuple):
    train: Labelled
    test: Labelled


def digits() -> Split:
    """1,257 images to train on and 540 to test on, each class in proportion; always the same split."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    bunch: Any = load_digits()
    images = (np.asarray(bunch.images, dtype=np.float32) / 16.0)[:, None]
    labels = np.asarray(bunch.target, dtype=np.int64)
    parts = train_test_split(images, labels, test_size=_TEST_SHARE, random_state=_SPLIT_SEED, stratify=labels)
    train_x, test_x, train_y, test_y = (torch.from_numpy(np.ascontiguousarray(part)) for part in parts)
    mean, spread = train_x.mean(), train_x.std()
    return Split(Labelled((train_x - mean) / spread, train_y), Labelled((test_x - mean) / spread, test_y))
