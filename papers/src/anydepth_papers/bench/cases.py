"""What is compared, by name: the same network, ours and others'."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor, nn

from anydepth.block.block import ContinuousBlock
from anydepth.recipes import RECIPES
from anydepth.runs.folder import dataset_of
from anydepth.runs.override import override
from anydepth.solve.odeint import odeint
from anydepth.surgery.compiling import compile as compile_model
from anydepth.train.prepare import prepare
from anydepth.zoo.units import MLP, Encoder, PreactConv
from anydepth_papers.bench.diffrax_side import DiffraxSide
from anydepth_papers.bench.peers import adaptive_solver, missing, solvers
from anydepth_papers.bench.sides import Chain, Loop, Sides, Stack, ThreeEighths, answer, answers, training_step
from anydepth_papers.nets.ensemble import Ensemble

SHAPES = {"16ch-32px": (16, 32), "32ch-16px": (32, 16), "64ch-8px": (64, 8)}
BATCH, DEPTH = 128, 8
_WORDS, _WIDTH, _LAYERS = 32, 128, 4


@dataclass(frozen=True)
class Comparison:
    """make(compiled) gives the sides; the others are compared with the fastest whose name begins with `base`."""

    make: Callable[[bool], Sides]
    base: str
    has_memory: bool = False
    more_rounds: int = 1
    """Short runs need more of them."""


def _images(shape: str, batch: int, last: bool) -> Tensor:
    channels, pixels = SHAPES[shape]
    x = torch.randn(batch, channels, pixels, pixels)
    return x.to(memory_format=torch.channels_last) if last else x


def _block(shape: str) -> ContinuousBlock:
    make = partial(PreactConv, SHAPES[shape][0])
    return ContinuousBlock(make, "constant", DEPTH, scheme="euler", steps=DEPTH, scale=DEPTH)


def _stack(shape: str, last: bool) -> Stack:
    stack = Stack(partial(PreactConv, SHAPES[shape][0]), DEPTH)
    return stack.to(memory_format=torch.channels_last) if last else stack  # pyright: ignore[reportCallIssue]


def resnet(shape: str, batch: int, compiled: bool) -> Sides:
    """Training of eight residual units by hand, in both memory formats, against the equivalent block."""
    sides: Sides = {}
    for last in (False, True):
        kind, x = "channels-last" if last else "contiguous", _images(shape, batch, last)
        stack, block = _stack(shape, last), _block(shape)
        sides[f"resnet {kind}"] = training_step(stack, stack.parameters(), x)
        sides[f"anydepth {kind}"] = training_step(block, block.parameters(), x)
        if compiled:
            for name, module in (("resnet", _stack(shape, last)), ("anydepth", _block(shape))):
                sides[f"{name} {kind}, compiled"] = training_step(torch.compile(module), module.parameters(), x)
    return sides


def resnet_answers(shape: str, batch: int, compiled: bool) -> Sides:
    """Inference with the same."""
    sides: Sides = {}
    for last in (False, True):
        kind, x = "channels-last" if last else "contiguous", _images(shape, batch, last)
        stack = _stack(shape, last).eval()
        sides[f"resnet {kind}"] = answer(stack, x)
        if compiled:
            sides[f"resnet {kind}, compiled"] = answer(torch.compile(stack), x)
    return sides | answers(_block(shape), compiled, _images(shape, batch, True))


def rk4(shape: str, _compiled: bool) -> Sides:
    """Training with eight RK4 steps of one convolutional unit: the 3/8 rule, torchdyn's the classic one, which costs as
    much."""
    channels, x = SHAPES[shape][0], _images(shape, BATCH, True)
    sides: Sides = {}
    for name, solver in (solvers("rk4_38", DEPTH) | solvers("rk4", DEPTH)).items():
        unit = PreactConv(channels).to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
        sides[name] = training_step(solver(unit), unit.parameters(), x)
    block = ContinuousBlock(partial(PreactConv, channels), scheme="rk4_38", steps=DEPTH)
    loop = ThreeEighths(PreactConv(channels), DEPTH)
    sides["plain loop"] = training_step(loop, loop.parameters(), x)
    chain = Chain(PreactConv(channels), block.scheme.stages * DEPTH)
    sides["units alone"] = training_step(chain, chain.parameters(), x)
    return sides | {"anydepth": training_step(block, block.parameters(), x)}


class OwnField(nn.Module):
    """The MLP 2-48-48-2 as a class that we do not know."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.inner, self.leave = nn.Linear(2, 48), nn.Linear(48, 48), nn.Linear(48, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.leave(torch.relu(self.inner(torch.relu(self.enter(x)))))


class GatedField(OwnField):
    """A field with layer norm, GELU and a gate."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.gate = nn.LayerNorm(48), nn.Linear(2, 48)

    def opened(self, x: Tensor) -> Tensor:
        return torch.sigmoid(self.gate(x))

    def forward(self, x: Tensor) -> Tensor:
        inner = torch.nn.functional.gelu(self.norm(self.enter(x))) * self.opened(x)
        return self.leave(torch.nn.functional.gelu(self.inner(inner)))


class OtherField(GatedField):
    """The same with a gate that the native kernels do not know."""

    def opened(self, x: Tensor) -> Tensor:
        return torch.softmax(self.gate(x), -1)


_KINDS: dict[str, Callable[[], nn.Module]] = {"anydepth": partial(MLP, 2, 48, 2), "anydepth, own class": OwnField}


def small(batch: int, _compiled: bool) -> Sides:
    """Training with 64 Euler steps of an MLP 2-48-48-2: overhead decides."""
    x, sides = torch.randn(batch, 2), Sides()
    for name, solver in solvers("euler", 64).items():
        unit = MLP(2, 48, 2)
        sides[name] = training_step(solver(unit), unit.parameters(), x)
    loop = Loop(MLP(2, 48, 2), 64)
    sides["plain loop"] = training_step(loop, loop.parameters(), x)
    for name, kind in _KINDS.items():
        block = ContinuousBlock(kind, scheme="euler", steps=64)
        sides[name] = training_step(block, block.parameters(), x)
    return sides | DiffraxSide.where_installed("train", batch)


def small_answers(batch: int, compiled: bool) -> Sides:
    """Inference with the same."""
    x = torch.randn(batch, 2)
    sides = {name: answer(solver(MLP(2, 48, 2)), x) for name, solver in solvers("euler", 64).items()}
    loop = Loop(MLP(2, 48, 2), 64).eval()
    sides["plain loop"] = answer(loop, x)
    if compiled:
        sides["plain loop, compiled"] = answer(torch.compile(loop), x)
    own = ContinuousBlock(OwnField, scheme="euler", steps=64)
    sides["anydepth, own class"] = answer(own, x)
    block = ContinuousBlock(partial(MLP, 2, 48, 2), scheme="euler", steps=64)
    return sides | answers(block, compiled, x) | DiffraxSide.where_installed("answer", batch)


_TOLERANCE = 1e-5


def adaptive(_compiled: bool) -> Sides:
    """Training with dopri5 and the same field, from the same weights: they decide how many steps there are."""
    x, sides, first = torch.randn(BATCH, 2), Sides(), MLP(2, 48, 2)
    tolerances = {"rtol": _TOLERANCE, "atol": _TOLERANCE}
    if missing("torchdiffeq") is None:
        unit = _like(first, MLP(2, 48, 2))
        sides["torchdiffeq"] = training_step(adaptive_solver(_TOLERANCE)(unit), unit.parameters(), x)
    field, ends = _like(first, MLP(2, 48, 2)), torch.tensor([0.0, 1.0])

    def solved(x: Tensor) -> Tensor:
        return odeint(lambda t, y: field(y), x, ends, method="dopri54", **tolerances)[-1]  # pyright: ignore

    sides["anydepth, odeint"] = training_step(solved, field.parameters(), x)
    for name, kind in _KINDS.items():
        block = _like(first, ContinuousBlock(kind, scheme="dopri54", **tolerances))  # pyright: ignore[reportArgumentType]
        sides[name] = training_step(block, block.parameters(), x)
    return sides


Module = TypeVar("Module", bound=nn.Module)


def _like(first: nn.Module, other: Module) -> Module:
    """The other module with the weights of the first, whose parameters are the same in the same order."""
    with torch.no_grad():
        for mine, its in zip(other.parameters(), first.parameters(), strict=True):
            mine.copy_(its.view_as(mine))
    return other


def gated(training: bool, _compiled: bool) -> Sides:
    """64 Euler steps of a field with layer norm, GELU and a gate."""
    x, sides = torch.randn(BATCH, 2), Sides()
    block = ContinuousBlock(GatedField, scheme="euler", steps=64)
    peers: dict[str, nn.Module] = {"plain loop": Loop(GatedField(), 64), "anydepth": block}
    for name, solver in solvers("euler", 64).items():
        unit = GatedField()
        sides[name] = training_step(solver(unit), unit.parameters(), x) if training else answer(solver(unit), x)
    for name, model in peers.items():
        sides[name] = training_step(model, model.parameters(), x) if training else answer(model, x)
    return sides


def other(training: bool, _compiled: bool) -> Sides:
    """64 Euler steps of a field that the native kernels do not know, on the general path and by `ad.compile`."""
    x, sides = torch.randn(BATCH, 2), Sides()

    def add(name: str, model: Callable[..., Tensor], parameters: Iterable[nn.Parameter]) -> None:
        sides[name] = training_step(model, parameters, x) if training else answer(model, x)

    for name, solver in solvers("euler", 64).items():
        unit = OtherField()
        add(name, solver(unit), unit.parameters())
    loop = Loop(OtherField(), 64)
    add("plain loop", loop, loop.parameters())
    for name in ("anydepth", "anydepth, ad.compile"):
        block = ContinuousBlock(OtherField, scheme="euler", steps=64)
        compile_model(block, enabled=name != "anydepth")
        add(name, block, block.parameters())
    return sides


def seeds(_compiled: bool) -> Sides:
    """A training step of `proper-landscape` as published, for several seeds at once."""
    base = RECIPES["proper-landscape"]()
    data, sides = dataset_of(base, None), Sides()
    for count in (1, 5, 20):
        nets = Ensemble([prepare(override(base, [f"seed={seed}"]), data) for seed in range(count)])
        sides[f"{count} at once"] = partial(nets.step, 0, nets._order(0)[0])
    return sides


def encoder(training: bool, compiled: bool) -> Sides:
    """Four layers of a transformer's encoder by hand, against the equivalent block; half of the words are padding."""
    make = partial(Encoder, _WIDTH, heads=4)
    stack = Stack(make, _LAYERS)
    block = ContinuousBlock(make, "constant", _LAYERS, scheme="euler", steps=_LAYERS, scale=_LAYERS)
    x = torch.randn(_WORDS, _WORDS, _WIDTH)
    mask = torch.arange(_WORDS) <= torch.arange(_WORDS)[:, None]
    if not training:
        plain = {"stack": answer(stack.eval(), x, mask)}
        fast = {"stack, compiled": answer(torch.compile(stack), x, mask)} if compiled else {}
        return plain | fast | answers(block, compiled, x, mask)
    sides = {
        "stack": training_step(stack, stack.parameters(), x, mask),
        "anydepth": training_step(block, block.parameters(), x, mask),
    }
    if compiled:
        other = Stack(make, _LAYERS)
        sides["stack, compiled"] = training_step(torch.compile(other), other.parameters(), x, mask)
    return sides


def checkpoint(_compiled: bool) -> Sides:
    """Training with 64 RK4 steps, with and without keeping the activations."""
    x = torch.randn(32, 16, 16, 16).to(memory_format=torch.channels_last)
    sides: Sides = {}
    for mode in ("backprop", "checkpoint"):
        block = ContinuousBlock(partial(PreactConv, 16), "constant", 8, scheme="rk4", steps=64, gradient=mode)
        sides[mode] = training_step(block, block.parameters(), x)
    return sides


CASES: dict[str, Comparison] = {
    **{f"resnet {shape}": Comparison(partial(resnet, shape, BATCH), "resnet", True) for shape in SHAPES},
    **{
        f"resnet {shape}, one image": Comparison(partial(resnet, shape, 1), "resnet", more_rounds=3) for shape in SHAPES
    },
    **{f"inference {shape}": Comparison(partial(resnet_answers, shape, BATCH), "resnet", True) for shape in SHAPES},
    **{
        f"inference {shape}, one image": Comparison(partial(resnet_answers, shape, 1), "resnet", more_rounds=10)
        for shape in SHAPES
    },
    **{f"rk4 {shape}": Comparison(partial(rk4, shape), "torchdiffeq", True) for shape in SHAPES},
    "small field": Comparison(partial(small, BATCH), "torchdiffeq", more_rounds=5),
    "small field, inference": Comparison(partial(small_answers, BATCH), "torchdiffeq", more_rounds=10),
    "small field, one example": Comparison(partial(small, 1), "torchdiffeq", more_rounds=5),
    "small field, one example, inference": Comparison(partial(small_answers, 1), "torchdiffeq", more_rounds=10),
    "adaptive field": Comparison(adaptive, "torchdiffeq", more_rounds=5),
    "gated field": Comparison(partial(gated, True), "torchdiffeq", more_rounds=5),
    "gated field, inference": Comparison(partial(gated, False), "torchdiffeq", more_rounds=5),
    "other field": Comparison(partial(other, True), "torchdiffeq", more_rounds=5),
    "other field, inference": Comparison(partial(other, False), "torchdiffeq", more_rounds=5),
    "seeds": Comparison(seeds, "1 at once", more_rounds=5),
    "encoder": Comparison(partial(encoder, True), "stack", True),
    "encoder, inference": Comparison(partial(encoder, False), "stack", True),
    "checkpoint": Comparison(checkpoint, "backprop", True),
}
"""Training steps unless the name says inference; batches of 128 unless it says one image."""
