"""A test part taken from data that has none: a share of every class, the same every time."""

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from anydepth.data.order import Draw, Indices, words

_SEED, _STREAM = 2026, 20
_HASH = 8

Keys = NDArray[np.uint64]


def keys_of_rows(count: int) -> Keys:
    """One random word for every row."""
    return words(Draw(_SEED, 0), np.arange(count), _STREAM)


def keys_of_names(names: Iterable[str]) -> Keys:
    """One random word for every name, whatever other names there are: new files move few of the old ones."""
    digests = (blake2b(name.encode("utf-8", "surrogateescape"), digest_size=_HASH).digest() for name in names)
    return np.array([int.from_bytes(digest, "little") for digest in digests], np.uint64)


def is_held_out(keys: Keys, classes: Indices | None, share: float) -> NDArray[np.bool_]:
    """Which examples the test part has: of every class its share, at least one, and never all."""
    groups = np.zeros(len(keys), np.int64) if classes is None else classes
    found = np.zeros(len(keys), bool)
    for group in np.unique(groups):
        places = np.flatnonzero(groups == group)
        count = min(max(1, round(share * len(places))), len(places) - 1)
        found[places[np.argsort(keys[places], kind="stable")[:count]]] = True
    return found
