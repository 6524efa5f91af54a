"""Datasets that are made, not read: fixed by their options, the parts independent of each other."""

from pathlib import Path
from typing import ClassVar

import numpy as np

from anydepth.data.option_checks import whole
from anydepth.data.source import Part, Source, no_such_part

_STREAMS: dict[Part, int] = {"train": 0, "test": 1}


class Made(Source):
    """Base of datasets with so many examples per part, drawn by a generator seeded with (seed, part)."""

    name: ClassVar[str]

    def __init__(self, root: Path, train: int, test: int, seed: int):
        super().__init__(root)
        self.counts: dict[Part, int] = {
            "train": whole(self.name, "train", train),
            "test": whole(self.name, "test", test),
        }
        self.seed = whole(self.name, "seed", seed, least=0, most=2**63 - 1)

    def draw(self, part: Part) -> tuple[int, np.random.Generator]:
        """How many examples to make, and the randomness to make them with."""
        if part not in self.counts:
            raise no_such_part(self.name, part)
        return self.counts[part], np.random.default_rng([self.seed, _STREAMS[part]])
