"""Residual units R(x): each keeps the shape of x. One file per unit, registered by name."""

from anydepth.nn.units.bottleneck import Bottleneck
from anydepth.nn.units.conv_field import ConvField
from anydepth.nn.units.encoder import Encoder
from anydepth.nn.units.grouped_conv import GroupedConv
from anydepth.nn.units.mlp import MLP
from anydepth.nn.units.postact_conv import PostactConv
from anydepth.nn.units.preact_conv import PreactConv
from anydepth.nn.units.skip_init_conv import SkipInitConv
from anydepth.nn.units.tanh_net import TanhNet
from anydepth.nn.units.vector_conv_field import VectorConvField

__all__ = [
    "MLP",
    "Bottleneck",
    "ConvField",
    "Encoder",
    "GroupedConv",
    "PostactConv",
    "PreactConv",
    "SkipInitConv",
    "TanhNet",
    "VectorConvField",
]
