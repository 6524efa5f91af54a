"""Layers that several units and models share."""

from torch import Tensor, nn


def conv3x3(inputs: int, outputs: int, stride: int = 1, bias: bool = False, groups: int = 1) -> nn.Conv2d:
    """3 x 3 convolution that keeps the image size, with He initialisation and zero bias."""
    return he_initialised(nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=bias, groups=groups))


def conv1x1(inputs: int, outputs: int, stride: int = 1, bias: bool = False) -> nn.Conv2d:
    return he_initialised(nn.Conv2d(inputs, outputs, 1, stride, bias=bias))


def he_initialised(conv: nn.Conv2d) -> nn.Conv2d:
    nn.init.kaiming_normal_(conv.weight, nonlinearity="relu")
    if conv.bias is not None:
        nn.init.zeros_(conv.bias)
    return conv


def norm(channels: int, enabled: bool = True) -> nn.Module:
    """Batch norm, or nothing for the ablations without normalisation."""
    return nn.BatchNorm2d(channels) if enabled else nn.Identity()


def norm_relu(norm: nn.Module, x: Tensor) -> Tensor:
    """ReLU of a norm's result: written over it where that is batch norm's, whose gradient does not need it, and nobody
    looks at it. On large images fresh memory costs more than the ReLU."""
    normed = norm(x)
    is_free = type(norm) is nn.BatchNorm2d and not norm._forward_hooks
    return normed.relu_() if is_free else normed.relu()
