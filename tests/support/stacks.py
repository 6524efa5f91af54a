"""Stacks of layers as people have them, written for the tests, and what is compared of two ways to run one."""

import torch
from torch import nn


class ResidualConv(nn.Module):
    """relu(x + f(x)), with a convolution on the skip connection where the shape changes."""

    def __init__(self, inside, outside, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        changes = stride != 1 or inside != outside
        self.shortcut = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))
        self.shortcut = self.shortcut if changes else None

    def forward(self, x):
        skip = x if self.shortcut is None else self.shortcut(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += skip
        return self.relu(out)


def stage(inside, outside, count, stride=2):
    return nn.Sequential(
        ResidualConv(inside, outside, stride), *(ResidualConv(outside, outside) for _ in range(count - 1))
    )


class SmallResNet(nn.Module):
    def __init__(self, counts=(3, 4)):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.layer1 = stage(4, 4, counts[0], stride=1)
        self.layer2 = stage(4, 6, counts[1])
        self.head = nn.Linear(6, 2)

    def forward(self, x):
        return self.head(self.layer2(self.layer1(self.stem(x))).mean((2, 3)))


class Telling(nn.Module):
    """A layer for sequences that returns a tuple, knows its place, and hands a bias on."""

    def __init__(self, place, drop=0.0):
        super().__init__()
        self.layer_idx, self.drop_prob = place, drop
        self.norm, self.linear = nn.LayerNorm(5), nn.Linear(5, 5)

    def forward(self, hidden, mask=None, *, bias=None, use_cache=False, telling=False):
        out = self.linear(self.norm(hidden))
        out = out if mask is None else out * mask
        out = hidden + (out if bias is None else out + bias)
        return (out, None, bias, out.mean()) if telling else (out, None, bias)


class Loop(nn.Module):
    """A model around such layers that loops over them."""

    def __init__(self, count=4):
        super().__init__()
        self.first = nn.Linear(5, 5)
        self.layers = nn.ModuleList([Telling(i) for i in range(count)])

    def forward(self, x, mask=None, bias=None):
        x = self.first(x)
        for layer in self.layers:
            x, _, bias = layer(hidden=x, mask=mask, bias=bias)
        return x


class Pair(nn.Module):
    """A layer with two states."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, state):
        x, v = state
        v = v - self.linear(x).tanh()
        return x + v, v


def spread(model, std=0.3):
    """The same model in float64 with weights and statistics that tell layers apart."""
    model.double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, std)
        for name, buffer in model.named_buffers():
            if name.endswith("running_mean"):
                buffer.normal_()
            elif name.endswith("running_var"):
                buffer.uniform_(0.5, 2)
    return model


def seen(model, *args, train=False, **kwargs):
    """A model's output, the gradient of its first argument, those of its parameters, and its buffers afterwards."""
    model.train(train)
    x, *rest = args
    x = x.detach().clone().requires_grad_()
    torch.manual_seed(3)
    out = model(x, *rest, **kwargs)
    out = out[0] if isinstance(out, tuple) else out
    names, parameters = zip(*model.named_parameters(), strict=True)
    gradients = torch.autograd.grad(out.sin().sum(), (x, *parameters), allow_unused=True)
    return out.detach(), gradients[0], dict(zip(names, gradients[1:], strict=True))
