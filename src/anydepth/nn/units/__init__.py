"""Residual units R(x): each keeps the shape of x. One file per unit, registered by name."""

from anydepth.nn.units.bottleneck import Bottleneck
from anydepth.nn.units.grouped_conv import GroupedConv
from anydepth.nn.units.mlp import MLP
from anydepth.nn.units.postact_conv import PostactConv
from anydepth.nn.units.preact_conv import PreactConv
from anydepth.nn.units.skip_init_conv import SkipInitConv
from anydepth.nn.units.tanh_net import TanhNet

__all__ = ["MLP", "Bottleneck", "GroupedConv", "PostactConv", "PreactConv", "SkipInitConv", "TanhNet"]
