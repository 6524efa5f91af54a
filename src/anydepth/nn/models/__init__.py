"""Whole models made of stems, blocks and heads. One file per model, registered by name."""

from anydepth.nn.models.image import ImageNetwork

__all__ = ["ImageNetwork"]
