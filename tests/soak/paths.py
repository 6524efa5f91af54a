"""Every way a pass can run against one that is written down plainly: random blocks, outputs and gradients compared."""

import random

import torch
from torch.func import functional_call

import anydepth as ad
from anydepth.depth.bases import BASES
from anydepth.depth.schemes import SCHEMES, fixed_schemes
from anydepth.depth.times import Side


class Gated(torch.nn.Module):
    """A class of a user's own, which the native path knows by tracing."""

    def __init__(self):
        super().__init__()
        self.inner, self.out, self.gate = (
            torch.nn.Linear(3, 7),
            torch.nn.Linear(7, 3),
            torch.nn.Parameter(torch.ones(3)),
        )

    def forward(self, x):
        return torch.sigmoid(self.gate * x) * self.out(torch.nn.functional.gelu(self.inner(x))) - x


UNITS = {
    "own": (Gated, (5, 3)),
    "linear": (lambda: torch.nn.Linear(3, 3), (4, 3)),
    "mlp": (lambda: ad.units.MLP(3, 5, 1), (4, 3)),
    "relu": (lambda: torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3)), (2, 3, 3)),
    "conv": (lambda: ad.units.PostactConv(2, bias=True, normalise=False), (2, 2, 4, 4)),
    "preact, eval": (lambda: ad.units.PreactConv(2), (2, 2, 4, 4)),
    "bottleneck, eval": (lambda: ad.units.Bottleneck(4), (2, 4, 4, 4)),
}
MODES = ("backprop", "backprop", "checkpoint")


def plainly(block, unit, x, steps):
    """The pass as a textbook writes it: every stage in turn, weights read at its time from its own side."""
    scheme, h = SCHEMES[block.scheme.name], 1 / steps
    y = x
    for n in range(steps):
        slopes = []
        for a, c in zip(scheme.a, scheme.c, strict=True):
            stage = y + sum((h * float(block.scale) * float(w) * k for w, k in zip(a, slopes, strict=False)), 0 * y)
            theta = block.theta((n + c) / steps, Side.LEFT if c == 1 else Side.RIGHT)
            slopes.append(functional_call(unit, theta, (stage,)))
        y = y + sum((h * float(block.scale) * float(b) * k for b, k in zip(scheme.b, slopes, strict=True)), 0 * y)
    return y


def case(number):
    chance = random.Random(number)
    torch.manual_seed(number)
    kind = chance.choice(list(UNITS))
    make, shape = UNITS[kind]
    basis, steps = chance.choice(BASES.names()), chance.randint(1, 4)
    size = chance.choice((1, 2, 4) if basis == "discontinuous" else (1, 2, 3, 4, 5))
    options = {"scheme": chance.choice(fixed_schemes()), "steps": steps, "gradient": chance.choice(MODES)}
    scale = chance.choice((1, 0.5, 2, -1))
    block = ad.ContinuousBlock(make, basis=basis, size=size, scale=scale, **options).double()
    block.eval() if "eval" in kind else block.train()
    unit = make().double().train(block.training)
    x = torch.randn(shape, dtype=torch.float64)
    if chance.random() < 0.3 and x.dim() == 4:
        x = x.contiguous(memory_format=torch.channels_last)
    told = {"unit": kind, "basis": basis, "size": size, "scale": scale, **options}
    with ad.fast_paths(chance.random() < 0.8):
        found = gradients(block, block, x)
    wanted = gradients(block, lambda y: plainly(block, unit, y, steps), x)
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value, rtol=1e-9, atol=1e-9, msg=lambda m: f"{told} {name}: {m}")  # noqa: B023


def gradients(block, function, x):
    block.zero_grad()
    x = x.detach().clone().requires_grad_()
    out = function(x)
    (out * torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)).sum().backward()
    found = {name: p.grad.clone() for name, p in block.named_parameters() if p.grad is not None}
    return {"output": out.detach(), "input": x.grad, **found}


def differences(number, tries, _work):
    for place in range(number * 100, number * 100 + tries):
        case(place)
