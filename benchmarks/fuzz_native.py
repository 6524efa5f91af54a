"""A differential fuzzer: random units on the native path and on the general one must give the same.

    python benchmarks/fuzz_native.py --cases 20000 --seed 0

Random chains (linear layers with and without bias, all activations, layer norms, residual sums, products, slices,
joined columns, t joined or multiplied, shared layers), schemes, bases, sizes, steps, scales, batches of any shape,
precisions, frozen parameters, inputs that are not contiguous, accumulated gradients, gradients of gradients, inference.

Where a ReLU's input is zero up to rounding, its gradient is undetermined on every path. A difference that the general
path shows against itself, when x and the weights change in their last places, is counted apart from mismatches.
"""

import argparse
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import anydepth as ad
from anydepth.depth.bases import BASES
from anydepth.depth.schemes import SCHEMES

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}
ACTIVATIONS = (
    nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.SiLU, nn.Softplus, nn.LeakyReLU,
    lambda: nn.GELU(approximate="tanh"), lambda: nn.ReLU(inplace=True), lambda: nn.Softplus(beta=2.0), lambda: Sine(),
)  # fmt: skip


class Sine(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(x)


class Joined(nn.Module):
    """A unit of random pieces; what it does is in `plan`, drawn at construction."""

    def __init__(self, width: int, seed: int, has_time: bool):
        super().__init__()
        draw = random.Random(seed)
        self.has_time = has_time
        self.layers, self.acts = nn.ModuleList(), nn.ModuleList()
        self.gate = nn.Parameter(torch.randn(width) / 2)
        self.factor = nn.Parameter(torch.tensor(0.7))
        self.hyper = nn.Linear(1, width) if has_time else None
        self.plan: tuple[tuple[str, Any], ...] = ()
        plan: list[tuple[str, Any]] = []
        now = width
        for _ in range(draw.randint(1, 4)):
            wider = draw.choice((1, 2, 3, 5, 7, 8, 9, 16, 17, 24, 33, 48, 64, 65))
            join = draw.random() < 0.25 and has_time
            self.layers.append(nn.Linear(now + join, wider, bias=draw.random() < 0.8))
            plan.append(("joined" if join else "linear", len(self.layers) - 1))
            now = wider
            for _ in range(draw.choice((0, 1, 1, 1, 2))):
                self.acts.append(draw.choice(ACTIVATIONS)())
                plan.append(("act", len(self.acts) - 1))
            if draw.random() < 0.3:
                plan.append(
                    (draw.choice(("square", "double", "shift", "residual", "halves", "self", "negative")), None)
                )
            if draw.random() < 0.2:
                self.acts.append(nn.LayerNorm(now, elementwise_affine=draw.random() < 0.7))
                plan.append(("act", len(self.acts) - 1))
        self.layers.append(nn.Linear(now, width, bias=draw.random() < 0.8))
        plan.append(("linear", len(self.layers) - 1))
        for kind in draw.sample(("gate", "scale", "tanh", "time", "hyper", "minus", "addx"), draw.randint(0, 2)):
            if has_time or kind not in ("time", "hyper"):
                plan.append((kind, None))
        self.plan = tuple(plan)

    def forward(self, *given: Tensor) -> Tensor:
        t, x = given if self.has_time else (None, given[0])
        h = x
        for kind, place in self.plan:
            h = self._piece(kind, place, h, x, t)
        return h

    def _piece(self, kind: str, place: Any, h: Tensor, x: Tensor, t: Any) -> Tensor:
        if kind == "linear":
            return self.layers[place](h)
        if kind == "joined":
            column = torch.ones_like(h[..., :1]) * t
            return self.layers[place](torch.cat([column, h], -1))
        if kind == "act":
            return self.acts[place](h.clone())  # some are in place
        if kind == "halves":
            a, b = h[..., : (h.shape[-1] + 1) // 2], h[..., (h.shape[-1] + 1) // 2 :]
            return torch.cat([b, a.tanh()], dim=-1) if h.shape[-1] > 1 else h
        return {
            "square": lambda: h * h * 0.1,
            "double": lambda: 2 * h,
            "shift": lambda: 1 - h / 2,
            "residual": lambda: h + torch.tanh(h),
            "self": lambda: h + h * torch.sigmoid(h),
            "negative": lambda: -h,
            "gate": lambda: h * self.gate,
            "scale": lambda: self.factor * h,
            "tanh": lambda: torch.tanh(h),
            "time": lambda: h * torch.sin(t) + t * x,
            "hyper": lambda: h * torch.sigmoid(self.hyper(t.view(*[1] * x.dim()))),  # pyright: ignore
            "minus": lambda: h - x,
            "addx": lambda: torch.add(h, x, alpha=0.5),
        }[kind]()


@dataclass
class Case:
    """One comparison, all of it from a seed."""

    seed: int

    def __post_init__(self) -> None:
        draw = random.Random(self.seed)
        torch.manual_seed(self.seed)
        self.dtype = draw.choice((torch.float32, torch.float64))
        self.width, self.has_time = draw.choice((1, 2, 3, 4, 5, 8, 11, 16, 20)), draw.random() < 0.4
        scheme = draw.choice([name for name in SCHEMES if self.allows(name)])
        basis = draw.choice(BASES.names())
        size = draw.choice((1, 2, 4, 6)) if basis != "bspline" else 4
        options: dict[str, Any] = {"basis": basis, "size": size, "scheme": scheme, "scale": draw.choice((1, 0.5, 2))}
        if SCHEMES[scheme].is_adaptive:
            options |= {"rtol": 1e-2, "atol": 1e-3}
        else:
            options["steps"] = draw.choice((1, 2, 3, 5, [0.0, 0.25, 0.4, 1.0]))
        unit_seed = draw.randrange(10**9)
        make = lambda: Joined(self.width, unit_seed, self.has_time)  # noqa: E731
        self.block = ad.ContinuousBlock(make, time=self.has_time, **options).to(self.dtype)
        for parameter in self.block.parameters():
            parameter.requires_grad_(draw.random() < 0.85)
        lead = draw.choice(((), (1,), (2,), (5,), (31,), (33,), (70,), (3, 4), (2, 1, 3)))
        self.x = torch.randn(*lead, self.width, dtype=self.dtype)
        if draw.random() < 0.3 and len(lead) == 1:
            self.x = torch.randn(self.width, *lead, dtype=self.dtype).t()
        self.needs_x, self.mode = (
            draw.random() < 0.7,
            draw.choice(("train", "train", "train", "twice", "double", "answer")),
        )
        self.what = (
            f"seed {self.seed}: {options}, {self.dtype}, x {tuple(self.x.shape)}, {self.mode}, {self.block.unit.plan}"
        )

    def allows(self, scheme: str) -> bool:
        return True

    def found(self) -> tuple[list[Tensor], str]:
        """Everything that comes of the block, and its path."""
        self.block.zero_grad(set_to_none=True)
        x = self.x.detach().requires_grad_(self.needs_x)
        if self.mode == "answer":
            with torch.no_grad():
                return [self.block(x)], self.block.stats.path
        wanted = [p for p in (x, *self.block.parameters()) if p.requires_grad]
        out = self.block(x)
        if not out.requires_grad:  # what is trained may have no part in the unit
            return [out], self.block.stats.path
        weights = torch.randn(out.shape, dtype=out.dtype, generator=torch.Generator().manual_seed(self.seed))
        if self.mode == "double":
            first = torch.autograd.grad((out * weights).sum(), wanted, create_graph=True, allow_unused=True)
            total = sum(((g * g).sum() for g in first if g is not None), out.sum() * 0)
            second = torch.autograd.grad(total, wanted, allow_unused=True)
            return [out.detach(), *_filled(first, wanted), *_filled(second, wanted)], self.block.stats.path
        (out * weights).sum().backward()
        if self.mode == "twice":
            self.block(x).square().sum().backward()
        return [out.detach(), *_filled([p.grad for p in wanted], wanted)], self.block.stats.path

    def gap(self) -> tuple[float, str]:
        """The largest difference, in units of what is allowed, and the path that was compared."""
        quick, path = self.found()
        general = self.generally()
        scale = max([1.0, *(float(g.abs().max()) for g in general if g.numel())])
        if not torch.isfinite(torch.tensor(scale)) or scale > 1e4:
            return 0.0, "overflow"
        worst = 0.0
        for a, b in zip(quick, general, strict=True):
            size = max(float(b.abs().max()), 1e-3 * scale) if b.numel() else 1.0
            worst = max(worst, float((a - b).abs().max()) / size if b.numel() else 0.0)
        factor = 30 if self.mode == "double" else 5
        return worst / (factor * TOLERANCE[self.dtype]), path

    def generally(self) -> list[Tensor]:
        with ad.fast_paths(False):
            return self.found()[0]

    def is_rounding(self, draws: int = 12) -> bool:
        """Whether the general path alone differs as much, if all it is given changes in the last places."""
        quick, general = self.found()[0], self.generally()
        given = [self.x, *(parameter.data for parameter in self.block.parameters())]
        exact, spread = [tensor.clone() for tensor in given], [torch.zeros(()) for _ in general]
        generator = torch.Generator().manual_seed(self.seed)
        for _ in range(draws):
            for tensor, value in zip(given, exact, strict=True):
                noise = torch.rand(value.shape, dtype=value.dtype, generator=generator) * 2 - 1
                tensor.copy_(value * (1 + 4 * torch.finfo(value.dtype).eps * noise))
            moved = self.generally()
            spread = [torch.maximum(s, (a - b).abs().max()) for s, a, b in zip(spread, moved, general, strict=True)]
        for tensor, value in zip(given, exact, strict=True):
            tensor.copy_(value)
        size = max(float(g.abs().max()) for g in general)
        return all(
            float((a - b).abs().max()) <= 3 * float(s) + 5 * TOLERANCE[self.dtype] * size
            for a, b, s in zip(quick, general, spread, strict=True)
        )


def _filled(tensors: Any, like: list[Tensor]) -> list[Tensor]:
    return [torch.zeros_like(b) if a is None else a.detach() for a, b in zip(tensors, like, strict=True)]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    paths: Counter[str] = Counter()
    bad, rounded, began = 0, 0, time.perf_counter()
    import warnings

    warnings.simplefilter("ignore")
    for seed in range(options.seed, options.seed + options.cases):
        case = Case(seed)
        gap, path = case.gap()
        paths[path] += 1
        if not gap <= 1 and case.is_rounding():
            rounded += 1
        elif not gap <= 1:
            bad += 1
            print(f"MISMATCH {gap:.3g} {path} {case.what}")  # noqa: T201
        if seed % 500 == 499:
            print(seed + 1 - options.seed, dict(paths), bad, f"{time.perf_counter() - began:.0f} s", flush=True)  # noqa: T201
    print(f"{options.cases} cases, {bad} mismatches, {rounded} as uncertain on the general path, paths {dict(paths)}")  # noqa: T201
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
