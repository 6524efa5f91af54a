"""Reproductions: the papers' claims, each run by one command and judged."""

from anydepth.registry import Registry
from anydepth.reproduce.experiment import Experiment

EXPERIMENTS: Registry[Experiment] = Registry("reproduction", package="anydepth.reproduce.experiments")
"""Experiments by name."""
