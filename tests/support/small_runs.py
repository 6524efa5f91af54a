"""Runs that train in a moment."""

import numpy as np

from anydepth.runs.config import read_config
from anydepth.runs.override import override

TINY = {
    "data": {"name": "digits", "limit": 48, "validation": 20},
    "model": {"name": "image", "options": {"channels": [4], "pool": 4, "first_stitch": False, "scheme": "midpoint"}},
    "optimizer": {"name": "sgd", "lr": 0.05},
    "training": {"epochs": 2, "batch": 16},
    "log_every": 2,
}


def tiny(*settings):
    """A config for a net of 4 channels on 48 digits, 6 steps."""
    return override(read_config(TINY), settings)


def write_treebank(folder, tags="ABCD", words=30, counts=(40, 10, 10)):
    """A made-up language in CoNLL-U files: the ending of a word gives its tag."""
    random = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    for part, count in zip(("train", "dev", "test"), counts, strict=True):
        lines = []
        for _ in range(count):
            for place in range(int(random.integers(2, 9))):
                kind = int(random.integers(len(tags)))
                form = f"{random.integers(words)}{chr(97 + kind)}"
                lines.append("\t".join((str(place + 1), form, "_", "X", tags[kind], *"_____")))
            lines.append("")
        (folder / f"made-ud-{part}.conllu").write_text("\n".join(lines) + "\n")
    return folder


def tiny_tagger(*settings):
    """A config for a tagger of width 8 on the made-up language, 5 steps."""
    words = {"data": {"name": "treebank"}, "model": {"name": "tagger", "options": {"width": 8}}}
    adam = {"optimizer": {"name": "adamw", "lr": 0.01}, "training": {"steps": 5, "batch": 8}}
    return override(read_config(TINY | words | adam), settings)
