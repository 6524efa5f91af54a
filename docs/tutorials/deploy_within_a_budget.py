# %% [markdown]
# # Deploy within a budget
#
# One trained model has many forms: every basis, size, scheme and number of steps is another network of the same weights. `ad.sweep`
# measures them, and a budget picks one.

# %%
import tempfile
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn

import anydepth as ad

torch.manual_seed(0)
images, labels = load_digits(return_X_y=True)
x, y = torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels)
order = torch.randperm(len(x))
train, validation, test = order[:1050], order[1050:1450], order[1450:]

block = ad.ContinuousBlock(
    lambda: ad.units.MLP(32), basis="linear", size=5, scheme="rk4", steps=4
)
model = nn.Sequential(nn.Linear(64, 32), block, nn.Linear(32, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
for epoch in range(12):
    for batch in train[torch.randperm(len(train))].split(64):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
        optimizer.step()
model.eval()
# %% [markdown]
# ## Measure every form
#
# Accuracy is measured on validation data, latency on the frozen network, alternating with the source model. With so few rounds latencies are rough.

# %%
batches = [(x[validation], y[validation])]
schemes = ["rk4", "midpoint", "euler"]
sweep = ad.sweep(
    model, batches, sizes=[5, 3, 2, 1], steps=[4, 2, 1], schemes=schemes, rounds=3
)
print(sweep)

# %% [markdown]
# ## Pick one
#
# `best` is the most accurate form within a budget. With `max_drop` alone it is the smallest form whose drop in accuracy stays within the budget
# with a confidence of 95 %. A measured drop of 0 on few examples does not show that, so the choice may be larger than you expect;
# `confidence=0` takes drops as measured.

# %%
few = sweep.best(max_params=12_000)
print(f"at most 12,000 parameters: {few.name}, {few.parameters:,}, {few.value:.1f} %")
safe = sweep.best(max_drop=3)
print(f"drop of at most 3 points: {safe.name}, {safe.parameters:,} parameters")
print(f"measured drop {sweep.drop(safe):.2f}")
print(f"with 95 % confidence at most {sweep.most_drop(safe):.2f}")

# %% [markdown]
# ## Make it, freeze it, export it
#
# `freeze` gives ordinary PyTorch layers that need no anydepth to run.

# %%
chosen = ad.compress(model, basis="linear", size=2, steps=2, scheme="midpoint")
plain = ad.freeze(chosen)
with torch.no_grad():
    outputs = plain(x[test])
    gap = (outputs - chosen(x[test])).abs().max().item()
right = (outputs.argmax(1) == y[test]).double().mean().item()
print(f"test accuracy {100 * right:.1f} %")
print(f"largest difference after freezing: {gap:.1e}")

# %%
from torch.export import Dim, export

program = export(plain, (x[:2],), dynamic_shapes=({0: Dim("batch")},))
file = Path(tempfile.mkdtemp()) / "digits.pt2"
torch.export.save(program, file)
again = torch.export.load(file).module()
gap = (again(x[test]) - outputs).abs().max().item()
print(f"{file.name}: {file.stat().st_size:,} bytes, largest difference {gap:.1e}")

# %% [markdown]
# ## On the command line
#
# ```bash
# anydepth sweep runs/digits
# anydepth compress runs/digits --max-params 12000 --max-latency-ms 1 --out runs/small
# anydepth export runs/small --to small.onnx
# anydepth predict small.onnx image.png
# ```
#
# `export` compares the file with the model and refuses to call it good if they differ. ONNX needs `pip install 'anydepth[onnx]'`.
