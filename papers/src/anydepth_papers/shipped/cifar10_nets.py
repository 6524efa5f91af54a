"""Nets of the campaign on CIFAR-10."""

from pathlib import Path

from anydepth.runs.shipped import NETS, ShippedNet

NETS.add(
    "cifar10-continuous",
    ShippedNet(
        "CIFAR-10: five hats, 16-32-64 channels, grown with the midpoint rule to 8 steps; test accuracy 88.5 %.",
        Path(__file__).parent / "cifar10-continuous",
        "4b9c695b4f55b2ab81ad4a85ff42a1bcb35a02b227ef0d987e05c63009ef7948",
    ),
)
