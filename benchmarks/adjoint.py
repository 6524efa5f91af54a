"""Gradient error of the adjoint mode against the ratio of steps to basis functions.

ContinuousNet (sec 5.2) says that adjoint gradients need N >= 3 M. Prints the relative error of the whole gradient
against backprop through the same steps, as the median over seeds.
Run: .venv/bin/python benchmarks/adjoint.py
"""

import json
import statistics

import torch

import anydepth as ad

SIZE, SEEDS = 8, 5
UNITS = {
    "tanh net": (lambda: ad.units.TanhNet(8, 32), (16, 8)),
    "relu mlp": (lambda: ad.units.MLP(8, 32, 1), (16, 8)),
    "convolution with batch norm": (lambda: ad.units.PreactConv(4), (8, 4, 6, 6)),
}


def gradient(block: ad.ContinuousBlock, x: torch.Tensor) -> torch.Tensor:
    block.zero_grad()
    x = x.clone().requires_grad_()
    block(x).square().mean().backward()
    return torch.cat([x.grad.flatten(), *(p.grad.flatten() for p in block.parameters())])


def error(make, shape, scheme: str, steps: int, seed: int) -> float:
    torch.manual_seed(seed)
    block = ad.ContinuousBlock(make, "constant", SIZE, scheme=scheme, steps=steps, scale=2).double()
    x = torch.randn(shape, dtype=torch.float64)
    exact = gradient(block, x)
    return float((gradient(ad.set_gradient(block, "adjoint"), x) - exact).norm() / exact.norm())


def main() -> None:
    torch.set_num_threads(1)
    results = {}
    for name, (make, shape) in UNITS.items():
        for scheme in ("euler", "midpoint", "rk4"):
            row = {}
            for ratio in (1, 2, 3, 4):
                errors = [error(make, shape, scheme, ratio * SIZE, seed) for seed in range(SEEDS)]
                row[f"{ratio}x"] = float(f"{statistics.median(errors):.2e}")
            results[f"{name}, {scheme}"] = row
            print(f"{name + ', ' + scheme:40}", *(f"{k} {v:8.1e}" for k, v in row.items()), flush=True)  # noqa: T201
    print(json.dumps(results))  # noqa: T201


if __name__ == "__main__":
    main()
