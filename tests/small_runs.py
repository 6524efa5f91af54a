"""Runs that train in a moment."""

from anydepth.train.config import read_config
from anydepth.train.override import override

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
