"""Bad input: one line that says what, got, expected and the way out."""

import pytest
import torch
from torch import nn

import anydepth as ad
from anydepth.errors import AnydepthError, ConfigError, NumericalError, ShapeError, UnitError
from small_units import Dense, Smooth


class Widens(nn.Module):
    def forward(self, x):
        return torch.cat([x, x], dim=-1)


class Rounds(nn.Module):
    def forward(self, x):
        return x.long()


class Wraps(nn.Module):
    def forward(self, x):
        return (x,)


class Collects(nn.Module):
    """Changes a buffer that nobody declared."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x):
        self.seen.add_(x.detach().mean(0))
        return x


def block(**options):
    return ad.ContinuousBlock(Smooth, **options)


def varying():
    """A function that makes another unit every time."""
    widths = iter((3, 4, 5))
    return lambda: Smooth(next(widths))


NAN = torch.tensor([[0.0, float("nan"), 1.0]])
CASES = {
    "unknown basis": (lambda: block(basis="hats"), ConfigError, ["'hats'", "linear", "legendre"]),
    "near basis": (lambda: block(basis="liner"), ConfigError, ["did you mean 'linear'"]),
    "basis no name": (lambda: block(basis=7), ConfigError, ["weight function"]),
    "size zero": (lambda: block(size=0), ConfigError, ["size", "got 0", "1 to"]),
    "size fraction": (lambda: block(size=2.5), ConfigError, ["size", "got 2.5"]),
    "odd size": (lambda: block(basis="discontinuous", size=5), ConfigError, ["got 5", "try 6"]),
    "unknown scheme": (lambda: block(scheme="rk5"), ConfigError, ["'rk5'", "rk4", "euler"]),
    "adaptive with steps": (
        lambda: block(scheme="dopri54", steps=3),
        ConfigError,
        ["dopri54", "adaptive", "rk4"],
    ),
    "steps zero": (lambda: block(steps=0), ConfigError, ["steps", "got 0"]),
    "steps text": (lambda: block(steps="many"), ConfigError, ["steps", "'many'"]),
    "times not rising": (lambda: block(steps=[0, 0.5, 0.4, 1]), ConfigError, ["increase", "1/2, 2/5"]),
    "times outside": (lambda: block(steps=[0, 2]), ConfigError, ["from 0 to 1", "to 2"]),
    "time not finite": (lambda: block(steps=[0, float("inf")]), ConfigError, ["finite", "inf"]),
    "scale": (lambda: block(scale=float("nan")), ConfigError, ["scale", "finite", "nan"]),
    "init": (lambda: block(init="zeros"), ConfigError, ["'zeros'", "independent", "shared"]),
    "module for factory": (lambda: ad.ContinuousBlock(Smooth()), ConfigError, ["lambda: Smooth(...)"]),
    "no factory": (lambda: ad.ContinuousBlock(3), ConfigError, ["function", "got 3"]),
    "factory of nothing": (lambda: ad.ContinuousBlock(lambda: None), ConfigError, ["nn.Module", "NoneType"]),
    "factory varies": (lambda: ad.ContinuousBlock(varying(), size=3), UnitError, ["differ", "linear.weight"]),
    "lazy unit": (lambda: ad.ContinuousBlock(lambda: nn.LazyLinear(3)), UnitError, ["lazy"]),
    "nested": (lambda: ad.ContinuousBlock(lambda: nn.Sequential(block())), UnitError, ["one after another"]),
    "both forms": (lambda: block(size=3, weights={"*": ("linear", 2)}), ConfigError, ["either", "both"]),
    "no pattern": (lambda: block(weights={"*bias": ("linear", 2)}), ConfigError, ["linear.weight", "'*'"]),
    "idle pattern": (
        lambda: block(weights={"conv*": ("linear", 2), "*": ("linear", 2)}),
        ConfigError,
        ["'conv*'", "linear.bias"],
    ),
    "odd choice": (lambda: block(weights={"*": 4}), ConfigError, ["got 4"]),
    "state unknown": (
        lambda: ad.ContinuousBlock(Dense, state=("bn.mean",)),
        ConfigError,
        ["'bn.mean'", "bn.running_mean"],
    ),
    "state integer": (
        lambda: ad.ContinuousBlock(Dense, state="bn.num_batches_tracked"),
        ConfigError,
        ["floating point", "int64"],
    ),
    "x not finite": (lambda: block()(NAN), NumericalError, ["1 non-finite of 3", "check_finite=False"]),
    "x of integers": (
        lambda: block()(torch.ones(2, 3, dtype=torch.int64)),
        ShapeError,
        ["floating-point", "int64"],
    ),
    "x no tensor": (lambda: block()([1.0, 2.0]), ShapeError, ["tensor", "list"]),
    "x empty tuple": (lambda: block()(()), ShapeError, ["empty tuple"]),
    "x of wrong shape": (lambda: block()(torch.randn(2, 5)), UnitError, ["Smooth", "(2, 5)", "t = 0"]),
    "missing argument": (
        lambda: ad.ContinuousBlock(lambda: nn.Bilinear(3, 3, 3))(torch.ones(2, 3)),
        UnitError,
        ["Bilinear", "input2"],
    ),
    "unit widens": (
        lambda: ad.ContinuousBlock(Widens)(torch.ones(2, 3)),
        ShapeError,
        ["(2, 6)", "(2, 3)", "Stitch"],
    ),
    "unit wraps": (lambda: ad.ContinuousBlock(Wraps)(torch.ones(2, 3)), ShapeError, ["Wraps", "(2, 3)"]),
    "unknown buffer": (
        lambda: ad.ContinuousBlock(Collects)(torch.ones(2, 3)),
        UnitError,
        ["'seen'", "state=('seen',)"],
    ),
    "model without blocks": (
        lambda: ad.refine(nn.Linear(2, 2)),
        ConfigError,
        ["Linear", "no ContinuousBlock"],
    ),
    "no model": (lambda: ad.summary("model"), ConfigError, ["nn.Module", "str"]),
    "unknown block": (lambda: ad.set_solver(block(), steps={"blok": 3}), ConfigError, ["'blok'"]),
    "unknown where": (lambda: ad.compress(nn.Sequential(block()), size=1, where="9"), ConfigError, ["'9'"]),
    "unknown method": (
        lambda: ad.compress(block(), method="projekt"),
        ConfigError,
        ["did you mean 'project'"],
    ),
    "unknown tensor": (
        lambda: ad.refine(block(), size={"": {"conv*": 3}}),
        ConfigError,
        ["'conv*'", "linear.weight"],
    ),
    "bad optimizer": (lambda: ad.refine(block(), optimizer=[3]), ConfigError, ["Optimizer", "int"]),
    "unknown model": (lambda: ad.build("imagenet"), ConfigError, ["'imagenet'", "image"]),
    "unknown setting": (lambda: ad.build("image", chanels=[3]), ConfigError, ["image", "chanels"]),
    "image without size": (lambda: ad.build("image", image=[1]), ConfigError, ["channels, height, width"]),
    "no pool": (lambda: ad.build("image", pool=0), ConfigError, ["pool", "above 0"]),
    "no channels": (lambda: ad.build("image", channels=[]), ConfigError, ["channels"]),
    "scale too large": (lambda: block(scale=10**400), ConfigError, ["scale", "finite"]),
    "scale no number": (lambda: block(scale=True), ConfigError, ["scale", "True"]),
    "unit of integers": (lambda: ad.ContinuousBlock(Rounds)(torch.ones(2, 3)), ShapeError, ["int64", "float32"]),
    "image too small": (lambda: ad.build("image", image=[1, 8, 8]), ConfigError, ["(1, 8, 8)"]),
    "stride": (lambda: ad.Stitch(3, 3, stride=3), ConfigError, ["1 or 2", "got 3"]),
    "trajectory outside": (
        lambda: block().trajectory(torch.ones(1, 3), [0, 1.5]),
        ConfigError,
        ["from 0 to 1"],
    ),
    "theta outside": (lambda: block().theta(1.5), ConfigError, ["0 to 1", "3/2"]),
    "no file": (lambda: ad.load("/nowhere"), AnydepthError, ["model.json", "anydepth.save"]),
}


@pytest.mark.parametrize("case", CASES)
def test_one_line_that_helps(case):
    run, kind, words = CASES[case]
    with pytest.raises(kind) as caught:
        run()
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 400
    for word in words:
        assert word in message


def test_check_finite_can_be_switched_off():
    assert torch.isnan(block(check_finite=False)(NAN)).any()
