"""Residual units R(x): each keeps the shape of x. One file per unit, registered by name."""

from anydepth.zoo.units.bottleneck import Bottleneck
from anydepth.zoo.units.conv_field import ConvField
from anydepth.zoo.units.encoder import Encoder
from anydepth.zoo.units.grouped_conv import GroupedConv
from anydepth.zoo.units.mlp import MLP
from anydepth.zoo.units.postact_conv import PostactConv
from anydepth.zoo.units.preact_conv import PreactConv
from anydepth.zoo.units.series_conv import SeriesConv
from anydepth.zoo.units.skip_init_conv import SkipInitConv
from anydepth.zoo.units.tanh_net import TanhNet
from anydepth.zoo.units.vector_conv_field import VectorConvField

__all__ = [
    "MLP",
    "Bottleneck",
    "ConvField",
    "Encoder",
    "GroupedConv",
    "PostactConv",
    "PreactConv",
    "SeriesConv",
    "SkipInitConv",
    "TanhNet",
    "VectorConvField",
]
