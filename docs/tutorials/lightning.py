# %% [markdown]
# # Train with Lightning
#
# A block is an `nn.Module`, so Lightning needs to know nothing about it. Two callbacks help: `Refine` grows the blocks at given epochs and
# carries over the optimiser's moments; `CheckProper` judges the model and logs the verdict. Install them with `pip install 'anydepth[lightning]'`.

# %%
import logging
import warnings

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

import lightning
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import anydepth as ad
from anydepth.integrations.lightning import CheckProper, Refine

torch.manual_seed(0)
images, labels = load_digits(return_X_y=True)
data = TensorDataset(
    torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels)
)
train, test = torch.utils.data.random_split(data, [0.75, 0.25])


# %%
class Digits(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        block = ad.ContinuousBlock(
            lambda: ad.units.TanhNet(32), basis="linear", size=2, scheme="rk4", steps=2
        )
        self.net = nn.Sequential(nn.Linear(64, 32), block, nn.Linear(32, 10))

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, _):
        return nn.functional.cross_entropy(self(batch[0]), batch[1])

    def validation_step(self, batch, _):
        self.log("accuracy", (self(batch[0]).argmax(1) == batch[1]).float().mean())

    def configure_optimizers(self):
        return torch.optim.AdamW(ad.param_groups(self, weight_decay=0.01), lr=0.003)


# %% [markdown]
# `Refine({3: {}})` refines before epoch 3 to the next nested size; `{3: {"size": 5}}` would say which. `ad.param_groups` exempts biases from weight
# decay, although they have two axes inside a block.

# %%
task = Digits()
judge = CheckProper(every=3)
trainer = lightning.Trainer(
    max_epochs=6,
    callbacks=[Refine({3: {}}), judge],
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(
    task,
    DataLoader(train, batch_size=64, shuffle=True),
    DataLoader(test, batch_size=400),
)
print(f"accuracy {100 * trainer.callback_metrics['accuracy'].item():.1f} %")
print(*ad.history(task)["net.1"], sep="\n")

# %%
for epoch, verdict in judge.verdicts.items():
    print(
        f"epoch {epoch}: {'proper' if verdict.proper else 'not proper'}: {verdict.reason}"
    )

# %% [markdown]
# ## Checkpoints
#
# The form of every block is in the state dict, so that checkpoints of Lightning restore refined models without further help. A training that was stopped and
# resumed ends with the same weights, solver and outputs.
#
# Accelerate and the Trainer of transformers: [existing layers](../layers.md#other-training-loops).
