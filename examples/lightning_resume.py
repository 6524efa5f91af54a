"""Lightning with a refinement and a checkpoint: stopped and resumed, it ends as the uninterrupted training does.

Run: pip install lightning, then python examples/lightning_resume.py
"""

import sys
import tempfile
from pathlib import Path

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import anydepth as ad
from anydepth.integrations.lightning import CheckProper, Refine

X = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
LOADER = DataLoader(TensorDataset(X, (X.prod(1) > 0).long()), batch_size=16)


class Task(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        block = ad.ContinuousBlock(lambda: ad.units.MLP(8), "linear", 2, scheme="rk4", steps=2)
        self.net = nn.Sequential(nn.Linear(4, 8), block, nn.Linear(8, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        return nn.functional.cross_entropy(self(batch[0]), batch[1])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(ad.param_groups(self, weight_decay=0.01), lr=0.01)


def fit(folder: Path, epochs: int, resume: Path | None = None) -> Task:
    callbacks = [Refine({3: {}}), CheckProper([X], every=3)]
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    trainer = lightning.Trainer(max_epochs=epochs, callbacks=callbacks, enable_checkpointing=False, **quiet)
    task = Task()
    trainer.fit(task, LOADER, ckpt_path=resume)
    trainer.save_checkpoint(folder / f"{epochs}.ckpt")
    return task


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        whole = fit(folder, 6)
        fit(folder, 4)
        resumed = fit(folder, 6, resume=folder / "4.ckpt")
    same = all(torch.equal(t, resumed.state_dict()[n]) for n, t in whole.state_dict().items())
    same = same and torch.equal(whole(X), resumed(X)) and whole.net[1].solver == resumed.net[1].solver
    print(f"{whole.net[1]}\nresumed to the same weights, solver and outputs: {same}")  # noqa: T201
    sys.exit(not same)


if __name__ == "__main__":
    main()
