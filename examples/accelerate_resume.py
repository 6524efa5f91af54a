"""Accelerate with a refinement and a checkpoint: stopped and resumed, it ends as the uninterrupted training does.

Run: pip install accelerate, then python examples/accelerate_resume.py
"""

import sys
import tempfile
from pathlib import Path

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import anydepth as ad
from anydepth.integrations.accelerate import follow_forms

X = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))


def fit(folder: Path, epochs: int, resume: int = 0) -> nn.Module:
    torch.manual_seed(0)
    block = ad.ContinuousBlock(lambda: ad.units.MLP(8), "linear", 2, scheme="rk4", steps=2)
    model = nn.Sequential(nn.Linear(4, 8), block, nn.Linear(8, 2))
    accelerator = Accelerator(cpu=True)
    follow_forms(accelerator)
    optimizer = torch.optim.AdamW(ad.param_groups(model, weight_decay=0.01), lr=0.01)
    loader = DataLoader(TensorDataset(X, (X.prod(1) > 0).long()), batch_size=16)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    if resume:
        accelerator.load_state(folder / str(resume))
    for epoch in range(resume, epochs):
        if epoch == 3:
            ad.refine(accelerator.unwrap_model(model), optimizer=optimizer)
        for x, y in loader:
            optimizer.zero_grad()
            accelerator.backward(nn.functional.cross_entropy(model(x), y))
            optimizer.step()
    accelerator.save_state(folder / str(epochs))
    return accelerator.unwrap_model(model)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        whole = fit(folder, 6)
        fit(folder, 4)
        resumed = fit(folder, 6, resume=4)
    same = all(torch.equal(t, resumed.state_dict()[n]) for n, t in whole.state_dict().items())
    same = same and torch.equal(whole(X), resumed(X)) and whole[1].solver == resumed[1].solver
    print(f"{whole[1]}\nresumed to the same weights, solver and outputs: {same}")  # noqa: T201
    sys.exit(not same)


if __name__ == "__main__":
    main()
