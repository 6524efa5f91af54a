"""Whole models made of stems, blocks and heads. One file per model, registered by name."""

from anydepth.zoo.models.flow import Flow
from anydepth.zoo.models.image_network import ImageNetwork
from anydepth.zoo.models.resnet import ResNet
from anydepth.zoo.models.series import SeriesNetwork
from anydepth.zoo.models.tabular import TabularNetwork
from anydepth.zoo.models.tagger import Tagger

__all__ = ["Flow", "ImageNetwork", "ResNet", "SeriesNetwork", "TabularNetwork", "Tagger"]
