# %% [markdown]
# # Refine and compress
#
# A block's weights are functions of depth, written in a basis. So a trained network can be moved to a larger basis without changing its
# output, and to a smaller one with the least possible change. Neither needs data.

# %%
import torch
from matplotlib import pyplot
from sklearn.datasets import load_digits
from torch import nn

import anydepth as ad

torch.manual_seed(0)
images, labels = load_digits(return_X_y=True)
x, y = torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels)
is_test = torch.arange(len(x)) % 4 == 0
x_train, y_train, x_test, y_test = x[~is_test], y[~is_test], x[is_test], y[is_test]


def accuracy(net):
    with torch.no_grad():
        return 100 * (net(x_test).argmax(1) == y_test).double().mean().item()


def epochs(model, optimizer, count):
    for _ in range(count):
        for batch in torch.randperm(len(x_train)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(
                model(x_train[batch]), y_train[batch]
            ).backward()
            optimizer.step()


# %% [markdown]
# ## Grow while training
#
# Start with one coefficient per weight and one step, which is cheap. `refine` goes to the next nested size and doubles the steps; the
# function of depth stays exactly what it was. Give it the optimiser, so that the moments are carried over.

# %%
block = ad.ContinuousBlock(
    lambda: ad.units.TanhNet(32), basis="linear", size=1, scheme="rk4", steps=1
)
model = nn.Sequential(nn.Linear(64, 32), block, nn.Linear(32, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)

for level in range(4):
    if level:
        before = block.theta(0.3)
        ad.refine(model, optimizer=optimizer)
        after = block.theta(0.3)
        change = max((after[name] - before[name]).abs().max().item() for name in before)
        print(
            f"size {block.size}, {block.steps} steps; largest change of a weight {change:.1e}"
        )
    epochs(model, optimizer, 4)
    print(f"level {level}: test accuracy {accuracy(model):.1f} %")

# %% [markdown]
# `history` keeps what was done to each block.

# %%
print(*ad.history(model)["1"], sep="\n")

# %% [markdown]
# ## Shrink without data
#
# `compress` projects the weights onto a smaller basis (least squares over depth) and returns a new model.

# %%
for size, steps in [(5, 8), (3, 4), (2, 2), (1, 1)]:
    small = ad.compress(model, size=size, steps=steps)
    count = sum(p.numel() for p in small.parameters())
    print(f"size {size}, {steps} steps: {accuracy(small):.1f} %, {count:,} parameters")

# %% [markdown]
# The basis can change too. The line is a weight of the trained block over depth, the dots and steps are its projections.

# %%
depth = [i / 200 for i in range(200)]
name = next(iter(block.functions))
for label, net in [
    (f"linear, {block.size} (trained)", model),
    ("linear, 3", ad.compress(model, size=3)),
    ("constant, 4", ad.compress(model, basis="constant", size=4)),
]:
    values = [net[1].theta(t)[name].flatten()[5].item() for t in depth]
    pyplot.plot(depth, values, label=label)
pyplot.xlabel("depth t"), pyplot.ylabel("one weight"), pyplot.legend()

# %% [markdown]
# ## Which sizes exist?
#
# | basis | nested sizes |
# | --- | --- |
# | `constant` | 1, 2, 4, 8, ... (doubling any size) |
# | `linear` | 1, 2, 3, 5, 9, 17, ... |
# | `discontinuous` | 1, 2, 4, 8, ... |
# | `legendre` | any larger size, up to 32 (`refine` doubles) |
# | `bspline` | 1, 2, 4, 5, 7, 11, ... |
#
# A growth to another size is allowed. It changes the function a little, and says by how much.
#
# Next: [Deploy within a budget](deploy_within_a_budget.md), where the best size and solver are searched for you.
