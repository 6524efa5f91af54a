"""How close a continuous block (Euler, constants, size = steps = scale) stays to a hand-written ResNet.

Trains both for 20 SGD steps at every depth from 1 to 64 and prints the largest differences.
Run: .venv/bin/python benchmarks/resnet_law.py
"""

import json

import torch
from torch import nn

import anydepth as ad


def main() -> None:
    torch.set_num_threads(1)
    worst = {"weights": 0.0, "running_mean": 0.0, "running_var": 0.0, "train_output": 0.0, "eval_output": 0.0}
    for depth in range(1, 65):
        for key, value in differences(depth).items():
            worst[key] = max(worst[key], value)
    print(json.dumps(worst))  # noqa: T201


def differences(depth: int) -> dict[str, float]:
    torch.manual_seed(depth)
    stack = nn.ModuleList(ad.units.PreactConv(2) for _ in range(depth))
    torch.manual_seed(depth)
    block = ad.ContinuousBlock(
        lambda: ad.units.PreactConv(2), "constant", depth, scheme="euler", steps=depth, scale=depth
    )
    x, target = torch.randn(3, 2, 4, 4), torch.randn(3, 2, 4, 4)

    def residual(x):
        for unit in stack:
            x = x + unit(x)
        return x

    outputs = []
    for parameters, run in ((stack.parameters(), residual), (block.parameters(), block)):
        optimizer = torch.optim.SGD(parameters, lr=1e-3, momentum=0.9, weight_decay=1e-3)
        for _ in range(20):
            optimizer.zero_grad()
            nn.functional.mse_loss(run(x), target).backward()
            optimizer.step()
        outputs.append(run(x).detach())
    gaps = {"weights": 0.0, "running_mean": 0.0, "running_var": 0.0, "train_output": _gap(*outputs)}
    units = [dict([*unit.named_parameters(), *unit.named_buffers()]) for unit in stack]
    for name, part in block.lifted.items():
        key = name.split(".")[-1] if "running" in name else "weights"
        theirs = torch.stack([unit[name] for unit in units])
        gaps[key] = max(gaps[key], _gap(theirs, part.kind.decode(block.stored(name))))
    stack.eval()
    block.eval()
    return gaps | {"eval_output": _gap(residual(x), block(x))}


def _gap(a: torch.Tensor, b: torch.Tensor) -> float:
    """Largest difference relative to the largest value."""
    return float(((a - b).abs().max() / a.abs().max()).detach())


if __name__ == "__main__":
    main()
