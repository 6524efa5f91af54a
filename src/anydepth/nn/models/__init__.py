"""Whole models made of stems, blocks and heads. One file per model, registered by name."""

from anydepth.nn.models.flow import Flow
from anydepth.nn.models.image import ImageNetwork
from anydepth.nn.models.tagger import Tagger

__all__ = ["Flow", "ImageNetwork", "Tagger"]
