"""Studies of the papers' claims: one file per study, found by name."""

from anydepth.registry import Registry
from anydepth_papers.judge.experiment import Experiment

EXPERIMENTS: Registry[Experiment] = Registry("reproduction", package=__name__)
"""Studies by name."""
